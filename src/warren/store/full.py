"""A disk without room: the one failure of writing that passes by itself.

What could not be written for lack of room was never synced, so writing it again at the same place
is as good as writing it once. A sync that fails is another matter, whatever it says: nobody knows
what is on the disk then.
"""

import errno
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFullError(Exception):
    """There is no room; what was to be written has to be written again."""


def if_full(failure: OSError) -> Exception:
    """The failure of a write, in the words that say whether it passes."""
    return DiskFullError(str(failure)) if failure.errno in FULL else failure
