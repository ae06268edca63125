"""The machine's randomness, as `warren.core.seam.Random`: good enough for salts and tokens."""

import os


class SystemRandom:
    """Octets from the operating system's generator."""

    def octets(self, count: int) -> bytes:
        return os.urandom(count)
