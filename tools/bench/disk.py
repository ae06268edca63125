"""The disk's floor: sequential writes of 1 MiB, each forced to the disk."""

import os
import time
from pathlib import Path

PIECE = 1024 * 1024


def floor_mib_per_s(folder: Path, *, seconds: float = 2.0) -> float:
    """MiB per second of pwritev + fdatasync, the best a store that syncs can do."""
    path = folder / "disk-floor"
    piece = os.urandom(PIECE)
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        written = 0
        begin_s = time.monotonic()
        while (elapsed_s := time.monotonic() - begin_s) < seconds:
            os.pwritev(handle, [piece], written)
            os.fdatasync(handle)
            written += PIECE
        return written / PIECE / elapsed_s
    finally:
        os.close(handle)
        path.unlink()
