"""Clock, randomness and the process's own numbers, on the real machine."""

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from warren.runtime import SystemClock, SystemRandom
from warren.runtime.process import descriptor_count, descriptor_count_max, resident_bytes

if TYPE_CHECKING:
    from warren.core.seam import Clock, Random


def test_the_clock_of_intervals_never_goes_back() -> None:
    clock: Clock = SystemClock()
    seen = [clock.monotonic_ns() for _ in range(100)]
    assert seen == sorted(seen)
    # After 2024, before 2100.
    assert 1_704_000_000 < clock.wall_ns() // 1_000_000_000 < 4_102_000_000


def test_random_octets_have_the_length_asked_for_and_differ() -> None:
    source: Random = SystemRandom()
    assert source.octets(0) == b""
    assert len({source.octets(16) for _ in range(100)}) == 100
    assert {len(source.octets(16)) for _ in range(100)} == {16}


def test_an_open_file_is_counted(tmp_path: Path) -> None:
    before = descriptor_count()
    with (tmp_path / "x").open("w"):
        assert descriptor_count() == before + 1
    assert descriptor_count() == before
    assert 0 < before < descriptor_count_max()


def test_memory_that_is_used_is_resident() -> None:
    """A mapping of its own: the heap may serve a request from what it freed before."""
    size = 32 << 20
    with mmap.mmap(-1, size) as taken:
        before = resident_bytes()
        for start in range(0, size, mmap.PAGESIZE):
            taken[start] = 1
        assert resident_bytes() - before > size // 2
