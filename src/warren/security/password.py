"""Password hashes in RabbitMQ's format: base64(salt of 4 octets + H(salt + password)).

Owns making and checking them. H is SHA-256; SHA-512 and MD5 are known because imported users have
them. A blank password matches nothing, a blank or malformed hash is matched by nothing. Digests
are compared in constant time. Passwords are octets: what a client sends need not be UTF-8.
"""

import base64
import binascii
import hashlib
import hmac
from enum import StrEnum
from typing import Final

from warren.core.seam import Random

SALT_SIZE_OCTETS: Final = 4


class Algorithm(StrEnum):
    """The names that definitions files use."""

    SHA256 = "rabbit_password_hashing_sha256"
    SHA512 = "rabbit_password_hashing_sha512"
    MD5 = "rabbit_password_hashing_md5"


_DIGEST_NAME: Final[dict[Algorithm, str]] = {
    Algorithm.SHA256: "sha256",
    Algorithm.SHA512: "sha512",
    Algorithm.MD5: "md5",
}


def hash_password(password: bytes, random: Random, algorithm: Algorithm = Algorithm.SHA256) -> str:
    """Return the base64 text to store; the salt comes from `random`."""
    salt = random.octets(SALT_SIZE_OCTETS)
    return base64.b64encode(salt + _digest(algorithm, salt, password)).decode("ascii")


def is_hash_text(text: str) -> bool:
    """Whether a hash may be imported: empty (no login by password), or base64."""
    return _octets(text) is not None


def matches(password: bytes, stored: str, algorithm: Algorithm) -> bool:
    """Whether the password is the one the stored text was made of."""
    octets = _octets(stored)
    if not password or not octets:
        return False
    salt, digest = octets[:SALT_SIZE_OCTETS], octets[SALT_SIZE_OCTETS:]
    return hmac.compare_digest(_digest(algorithm, salt, password), digest)


def _digest(algorithm: Algorithm, salt: bytes, password: bytes) -> bytes:
    return hashlib.new(_DIGEST_NAME[algorithm], salt + password, usedforsecurity=False).digest()


def _octets(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
