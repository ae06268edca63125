"""Reading the messages of a queue from the files of a data folder, and never writing there.

Two ways, for tools in another process than the node:

- *Beside a running node*: segment files are append-only, and the node says which of them there are
  and what lives in each (`range_info`). `segment_records` reads such a file chunk by chunk, checks
  each chunk by its checksum, and gives what lives. A file that went or became another one meanwhile
  is a `ChangedError`: then the node is asked for that part. What is in the journal only the node
  knows, because the journal mixes queues; bodies in the message store have their `place` and no
  octets here.

- *Without a node*: `StoppedStore` is what a start of the node would find, journal and message store
  included, torn ends left out. It is found the same way, over files that take every write and
  forget it. Whoever makes one sees to it that no node starts meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, Final, final

from warren.store.batch import FormatError
from warren.store.readable import is_readable
from warren.store.reading import Reading
from warren.store.record import Publish, RecordSink, walk
from warren.store.recovery import Recovery
from warren.store.segment import CHUNK_HEADER, CHUNK_MAGIC, FILE_HEADER, check_chunk, file_header

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.batch import Damage

# What is read of a stopped node in one go.
READ_OCTETS: Final = 1 << 20
Runs = Sequence[tuple[int, int]]


class ChangedError(Exception):
    """A file is not what it was said to be: the node goes on meanwhile."""


def seq_of(record: Publish) -> int:
    return int(record.seq)


def segment_records(
    files: "Files", path: str, size: int, runs: Runs, begin: int, end: int
) -> Iterator[Publish]:
    """What lives (`runs`) of the first `size` octets of a segment file, in a range of ids."""
    runs = [(max(begin, first), min(end, stop)) for first, stop in runs]
    runs = [run for run in runs if run[0] < run[1]]
    if not runs:
        return
    try:
        handle = files.open(path)
    except FileNotFoundError:
        raise ChangedError(f"{path} is not there") from None
    try:
        _check_header(path, files.read(handle, 0, FILE_HEADER))
        at = FILE_HEADER
        while at < size:
            head = files.read(handle, at, CHUNK_HEADER)
            first, last, octets = _chunk(path, at, head)
            if first >= runs[-1][1]:
                break
            if last >= runs[0][0]:
                yield from _wanted(path, files.read(handle, at, octets), octets, runs)
            at += octets
    finally:
        files.close(handle)


def _check_header(path: str, head: bytes) -> None:
    folder, _, name = path.rpartition("/")
    ident = int(folder.rpartition("/")[2], 16)
    if head != file_header(ident, int(name.partition(".")[0])):
        raise ChangedError(f"{path} does not begin like the segment that it is by its name")


def _chunk(path: str, at: int, head: bytes) -> tuple[int, int, int]:
    """First and last id of a chunk, and its size with its header."""
    if len(head) < CHUNK_HEADER or head[:4] != CHUNK_MAGIC:
        raise ChangedError(f"{path}: no chunk is at {at}")
    numbers = [int.from_bytes(head[place : place + 8], "little") for place in (8, 16, 24)]
    return numbers[0], numbers[1], CHUNK_HEADER + numbers[2]


def _wanted(path: str, data: bytes, size: int, runs: Runs) -> Iterator[Publish]:
    try:
        check_chunk(data, size)
    except FormatError as problem:
        raise ChangedError(f"{path}: {problem}") from None
    sink = _Records()
    walk(data, CHUNK_HEADER, size, sink)
    at = 0
    for record in sink.found:
        while at < len(runs) and runs[at][1] <= record.seq:
            at += 1
        if at < len(runs) and runs[at][0] <= record.seq:
            yield record


@final
class _Records(RecordSink):
    def __init__(self) -> None:
        self.found: list[Publish] = []

    def on_publish(self, queue: int, seq: int, position: int, size: int, data: bytes) -> None:
        self.found.append(Publish(data, position))


# -- without a node --------------------------------------------------------------------------------


@final
class StoppedStore:
    """The store of a node that does not run. `known`: what it knows the levels of all queues by."""

    def __init__(self, files: "Files", known: Iterable[int]) -> None:
        self.files = UnwrittenFiles(files)
        self.recovery = Recovery(self.files, known)
        try:
            self.recovery.run()
        finally:
            self.recovery.state.end.close(self.files)
            self.files.close_all()
        # Messages that cannot be read: the file and why.
        self.problems: list[str] = []

    @property
    def damages(self) -> "list[Damage]":
        """What is not what was written, of the journal and the state log."""
        return self.recovery.found.damages

    def live(self, idents: Iterable[int]) -> int:
        """How many messages these levels have."""
        every = self.recovery.indexes
        return sum(int(every[ident].live) for ident in idents if ident in every)

    def next_seq(self, idents: Iterable[int]) -> int:
        every = self.recovery.indexes
        return max((int(every[ident].next_seq) for ident in idents if ident in every), default=0)

    def records(self, idents: Iterable[int], begin: int, end: int) -> Iterator[Publish]:
        """What a queue with these levels has in a range of ids, in order."""
        return merge(*(self._level(ident, begin, end) for ident in idents), key=seq_of)

    def _level(self, ident: int, begin: int, end: int) -> Iterator[Publish]:
        index = self.recovery.indexes.get(ident)
        if index is None:
            return
        committed = self.recovery.journal.committed
        while begin < end:
            reading = Reading(index, begin, _unheard)
            if not reading.plan(committed, self.recovery.journal_files, READ_OCTETS):
                return
            reading.run(self.files)
            for record in reading.records():
                if record.seq >= end:
                    return
                if is_readable(index, record.seq):
                    yield record
            if reading.moved:
                raise ChangedError("the files change: does a node run there?")
            if reading.problem:
                self.problems.append(reading.problem)
            begin = max(begin + 1, int(reading.next_seq))


def _unheard(reading: Reading, error: Exception | None) -> None:
    """A reading that nobody waits for."""


@final
class UnwrittenFiles:
    """`Files` whose writes go nowhere. What was not there is never found to be."""

    def __init__(self, files: "Files") -> None:
        self.files = files
        self._open: set[int] = set()

    def create(self, path: str) -> int:
        return -1

    def open(self, path: str) -> int:
        handle = self.files.open(path)
        self._open.add(handle)
        return handle

    def close(self, handle: int) -> None:
        if handle in self._open:
            self._open.discard(handle)
            self.files.close(handle)

    def close_all(self) -> None:
        for handle in list(self._open):
            self.close(handle)

    def write(self, handle: int, offset: int, parts: Sequence[bytes]) -> None:
        pass

    def read(self, handle: int, offset: int, size: int) -> bytes:
        return self.files.read(handle, offset, size)

    def sync(self, handle: int) -> None:
        pass

    def size(self, handle: int) -> int:
        return self.files.size(handle)

    def truncate(self, handle: int, size: int) -> None:
        pass

    def rename(self, old: str, new: str) -> None:
        pass

    def remove(self, path: str) -> None:
        pass

    def make_folder(self, path: str) -> None:
        pass

    def remove_folder(self, path: str) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass

    def sync_all(self) -> None:
        pass

    def names(self, path: str) -> list[str]:
        return self.files.names(path)
