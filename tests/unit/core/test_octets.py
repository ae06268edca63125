"""Octets with units, in the union of all spellings (MA-5)."""

import pytest

from warren.core.octets import OctetsError, read_octets


@pytest.mark.rule("MA-5")
@pytest.mark.parametrize(
    ("units", "factor"),
    [
        ([""], 1),
        (["k", "K", "kiB", "kib", "KIB", "KiB"], 1024),
        (["M", "m", "MiB", "mib", "MIB"], 1_048_576),
        (["G", "g", "GiB", "gib", "GIB"], 1_073_741_824),
        (["kB", "KB", "kb", "Kb"], 1000),
        (["MB", "mb", "Mb"], 1_000_000),
        (["GB", "gb", "Gb"], 1_000_000_000),
    ],
)
def test_every_unit(units: list[str], factor: int) -> None:
    for unit in units:
        assert read_octets(f"1024{unit}") == 1024 * factor
        assert read_octets(f"0{unit}") == 0


@pytest.mark.rule("MA-5")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("1mB", "Invalid units."),
        ("1T", "Invalid units."),
        ("1TB", "Invalid units."),
        ("1b", "Invalid units."),
        ("1XB", "Invalid units."),
        ("1.5GB", "The value should be an integer"),
        ("1.0", "The value should be an integer"),
        ("1 GB", ""),
        (" 1", ""),
        ("-1", ""),
        ("", ""),
        ("GB", ""),
        ("\u0661GB", ""),
        ("1\n", ""),
    ],
)
def test_what_is_no_number_of_octets(written: str, reason: str) -> None:
    with pytest.raises(OctetsError) as refusal:
        read_octets(written)
    assert str(refusal.value) == reason
