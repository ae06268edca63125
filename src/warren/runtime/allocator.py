"""The C library's allocator: memory that was freed goes back to the system.

What is freed below the top of its heap glibc keeps for itself: a queue of a million messages of
1 KiB that was emptied stays resident, and the memory alarm with it, for ever. `give_back` has it
return whole pages that nothing is in. Elsewhere than with glibc both functions do nothing.
"""

import contextlib
import ctypes
from typing import Final

# Of <malloc.h>.
_M_ARENA_MAX: Final = -8


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    try:
        found = getattr(ctypes.CDLL(None), name, None)
    except OSError:
        return None
    return found


def tune() -> bool:
    """Have all threads share one heap; before any of them begins.

    Only one of them works at a time, but each would have a heap of its own, and what is read on
    one thread and freed on another would leave holes in all of them.
    """
    mallopt = _function("mallopt")
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, 1))


def give_back() -> None:
    """Return what is free; takes milliseconds, in which whoever allocates may have to wait."""
    trim = _function("malloc_trim")
    if trim is not None:
        with contextlib.suppress(OSError):
            trim(0)
