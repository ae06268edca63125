"""Appending to the state log, and rewriting it when most of it is outdated (`state.py`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from warren.store.batch import (
    BATCH_HEADER,
    FILE_HEADER,
    MARK,
    FileHeader,
    encode_batch_header,
    sum_blocks,
)
from warren.store.full import if_full
from warren.store.state import (
    LEAKED,
    NEXT_FILE,
    NO_FILE,
    REPLAY,
    encode_file,
    encode_mark,
    stored_live_of,
)

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.body_store import BodyFile, BodyStore
    from warren.store.journal import Journal

FOLDER: Final = "state"
# A log is rewritten when it is larger than this and several times what is valid in it.
REWRITE_MIN: Final = 4 * 1024 * 1024
REWRITE_FACTOR: Final = 3


def state_path(number: int) -> str:
    return f"{FOLDER}/{number}.log"


@final
class StateEnd:
    """Where the log is written; belongs to the lane. `lsn` is the size of all batches so far."""

    def __init__(self, number: int, batch: int, lsn: int, chain: int) -> None:
        self.number = number
        self.batch = batch
        self.lsn = lsn
        self.chain = chain
        self.handle = -1
        self.offset = FILE_HEADER + lsn

    def append(self, files: "Files", records: list[bytes]) -> None:
        if self.handle < 0:
            self.handle = files.open(state_path(self.number))
        size = sum(len(record) for record in records)
        header = encode_batch_header(
            mark=MARK,
            number=self.batch + 1,
            lsn=self.lsn,
            chain=self.chain,
            size=size,
            sums=sum_blocks(records),
        )
        try:
            files.write(self.handle, self.offset, [header, *records])
        except OSError as failure:
            raise if_full(failure) from failure
        files.sync(self.handle)
        self.batch += 1
        size += BATCH_HEADER
        self.offset += size
        self.lsn += size
        self.chain = int.from_bytes(header[36:40], "little")

    def rewrite(self, files: "Files", records: list[bytes]) -> None:
        """Begin the next file with everything that is valid, then let go of this one."""
        fresh = StateEnd(self.number + 1, 0, 0, 0)
        try:
            fresh.handle = files.create(state_path(fresh.number))
            files.write(fresh.handle, 0, [FileHeader(fresh.number, 0, 0, MARK).encode()])
        except OSError as failure:
            fresh.close(files)
            raise if_full(failure) from failure
        try:
            files.sync(fresh.handle)
            fresh.append(files, records)
            files.sync_folder(FOLDER)
        except Exception:
            fresh.close(files)
            raise
        old = self.number
        self.close(files)
        self.number, self.batch, self.lsn = fresh.number, fresh.batch, fresh.lsn
        self.chain, self.handle, self.offset = fresh.chain, fresh.handle, fresh.offset
        files.remove(state_path(old))

    def close(self, files: "Files") -> None:
        if self.handle >= 0:
            files.close(self.handle)
            self.handle = -1


@final
class StateJob:
    """One batch for the state log; then `garbage` may be removed."""

    def __init__(
        self,
        end: StateEnd,
        records: list[bytes],
        garbage: list[str],
        ended: "Callable[[StateJob, Exception | None], None]",
        *,
        whole: bool,
    ) -> None:
        self.end = end
        self.records = records
        self.garbage = garbage
        self.ended = ended
        self.whole = whole

    def run(self, files: "Files") -> None:
        if self.whole:
            self.end.rewrite(files, self.records)
        else:
            self.end.append(files, self.records)

    def done(self, error: Exception | None) -> None:
        self.ended(self, error)


@final
class StateLog:
    """What is valid in the log, and when to rewrite it."""

    def __init__(self, end: StateEnd, latest: dict[int, bytes], size: int, replay: int) -> None:
        self.end = end
        # The journal counts from this lsn on: part of every batch.
        self.replay = replay
        # The last record of each queue, and of each file of the message store, under ~ its number.
        self.latest = latest
        self.valid = sum(len(record) for record in latest.values())
        self.size = size
        # Nothing is in the file yet.
        self.fresh = size == 0
        self.rewrite_min = REWRITE_MIN
        # What every batch says of the message store.
        self.bodies: BodyStore | None = None

    def refers(self, ident: int) -> bool:
        """Whether the last record of a queue says that it refers to the message store."""
        record = self.latest.get(ident)
        return record is not None and stored_live_of(record) > 0

    def forget(self, ident: int) -> None:
        """A queue is deleted."""
        record = self.latest.pop(ident, None)
        if record is not None:
            self.valid -= len(record)

    def take_bodies(
        self, journal: "Journal", only: "list[BodyFile] | None" = None
    ) -> tuple[dict[int, bytes], list[bytes]]:
        """What is new in the message store: records of files, or of these only, and marks."""
        journal.write_bodies()
        bodies = journal.bodies
        lsn = journal.position()
        records: dict[int, bytes] = {}
        for file in bodies.touched if only is None else only:
            if int(file.number) in bodies.files:
                records[~int(file.number)] = encode_file(file, lsn)
        if only is None:
            for file in bodies.touched:
                file.touched = False
            bodies.touched = []
        marks = [encode_mark(NO_FILE, number, int(lsn)) for number in bodies.gone]
        for number in bodies.gone:
            self.forget(~number)
        bodies.gone = []
        return records, marks

    def note(
        self,
        queues: dict[int, bytes],
        marks: list[bytes],
        garbage: list[str],
        ended: Callable[[StateJob, Exception | None], None],
    ) -> StateJob:
        """The job that writes these; `marks` are about no record of a queue and come last."""
        for ident, record in queues.items():
            self.forget(ident)
            self.latest[ident] = record
            self.valid += len(record)
        whole = self.fresh or (
            self.size > self.rewrite_min and self.size > REWRITE_FACTOR * self.valid
        )
        self.fresh = False
        always = [encode_mark(REPLAY, 0, self.replay)]
        if self.bodies is not None:
            always.append(encode_mark(NEXT_FILE, 0, int(self.bodies.next_number)))
            if self.bodies.leaked:
                always.append(encode_mark(LEAKED, 0, 0))
        records = [*(self.latest if whole else queues).values(), *always, *marks]
        size = BATCH_HEADER + sum(len(record) for record in records)
        self.size = size if whole else self.size + size
        return StateJob(self.end, records, garbage, ended, whole=whole)
