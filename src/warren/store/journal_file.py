"""What is known of a journal file while the node runs: its queues, its batches, their checksums.

The table of batches is what lets a part of the journal be read and checked (`batch.py`): about
twenty octets for each batch and four for each block. The loop adds to it and the reading lane looks
into it; `batches` grows last, so whatever it has is complete.
"""

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, final

from warren.store.batch import BATCH_HEADER, BLOCK

if TYPE_CHECKING:
    from warren.store.index import QueueIndex


@final
class JournalFile:
    """A journal file and the queues that have records in it."""

    def __init__(self, number: int, lsn: int) -> None:
        self.number = number
        self.lsn = lsn
        self.end = lsn
        self.queues: list[QueueIndex] = []
        # Of each batch where it begins and ends, and the number of its first block.
        self.batches = array("q")
        self.ends = array("q")
        self.firsts = array("q")
        # Of each block its checksum, four octets.
        self.sums = bytearray()
        # Where blocks begin of which it is known that they are not what was written.
        self.given_up: set[int] = set()

    def size(self) -> int:
        return self.end - self.lsn

    def add(self, lsn: int, end: int, sums: bytes) -> None:
        """A batch is on the disk."""
        self.firsts.append(len(self.sums) >> 2)
        self.sums += sums
        self.ends.append(end)
        self.batches.append(lsn)
        self.end = end

    def accept(self, bad: list[tuple[int, int]]) -> None:
        """Nothing that lives is in these blocks: do not look at their checksums any more."""
        self.given_up.update(begin for begin, _ in bad)

    def blocks(self, begin: int, end: int) -> list[tuple[int, int, bytes]]:
        """The blocks with octets between two lsns: where they begin and end, their checksums."""
        found: list[tuple[int, int, bytes]] = []
        place = max(0, bisect_right(self.batches, begin) - 1)
        while place < len(self.batches) and self.batches[place] < end:
            start = self.batches[place] + BATCH_HEADER
            stop = self.ends[place]
            first = self.firsts[place]
            block = max(0, (begin - start) // BLOCK)
            while start + block * BLOCK < min(stop, end):
                at = (first + block) << 2
                below = start + block * BLOCK
                if below not in self.given_up:
                    found.append((below, min(below + BLOCK, stop), bytes(self.sums[at : at + 4])))
                block += 1
            place += 1
        return found
