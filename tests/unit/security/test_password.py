"""Hashes in RabbitMQ's format."""

import base64
import hashlib

import pytest

from warren.security import Algorithm, hash_password, is_hash_text
from warren.security.password import matches


class FixedRandom:
    def octets(self, count: int) -> bytes:
        return bytes(range(0x90, 0x90 + count))


def test_a_hash_is_base64_of_the_salt_and_sha256_of_salt_and_password() -> None:
    salt = b"\x90\x91\x92\x93"
    expected = base64.b64encode(salt + hashlib.sha256(salt + b"secret").digest()).decode()
    assert hash_password(b"secret", FixedRandom()) == expected


def test_the_documented_example_of_the_format_matches() -> None:
    # Salt 90 8D C6 0A, password test12: the example of RabbitMQ's page on passwords.
    assert matches(b"test12", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", Algorithm.SHA256)


@pytest.mark.parametrize(
    ("algorithm", "size"), [(Algorithm.SHA256, 32), (Algorithm.SHA512, 64), (Algorithm.MD5, 16)]
)
def test_each_algorithm_matches_its_own_hash_and_no_other(algorithm: Algorithm, size: int) -> None:
    stored = hash_password(b"secret", FixedRandom(), algorithm)
    assert len(base64.b64decode(stored)) == 4 + size
    assert matches(b"secret", stored, algorithm)
    assert not matches(b"Secret", stored, algorithm)
    others = [other for other in Algorithm if other is not algorithm]
    assert not any(matches(b"secret", stored, other) for other in others)


@pytest.mark.rule("AU-1")
def test_a_blank_password_matches_not_even_its_own_hash() -> None:
    assert not matches(b"", hash_password(b"", FixedRandom()), Algorithm.SHA256)


@pytest.mark.parametrize("stored", ["", "not base64", "kI3G", "é", "AAAA"])
def test_a_blank_or_malformed_hash_is_matched_by_nothing(stored: str) -> None:
    assert not matches(b"secret", stored, Algorithm.SHA256)


def test_only_base64_may_be_imported() -> None:
    assert is_hash_text("")
    assert is_hash_text(hash_password(b"x", FixedRandom(), Algorithm.MD5))
    assert not is_hash_text("not base64")
    assert not is_hash_text("é")
