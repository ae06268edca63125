"""What this process uses of the machine: memory and file descriptors."""

import os
import resource
from pathlib import Path
from typing import Final

_PAGE_OCTETS: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_OCTETS
    except (OSError, IndexError, ValueError):
        return 0


def descriptor_count() -> int:
    """Return how many descriptors are open; 0 where the system does not tell."""
    try:
        # Reading the folder opens one more.
        return len(os.listdir("/proc/self/fd")) - 1
    except OSError:
        return 0


def descriptor_count_max() -> int:
    """Return how many descriptors this process may open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may allow itself: each client is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
