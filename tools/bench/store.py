"""What the persistence layer costs by itself: `python -m tools.bench.store [folder]`.

Writes and settles messages, replays a journal, writes large bodies, encodes and decodes the states
of many small queues, all on one thread and on the disk that has the folder. Figures are printed,
nothing is judged.
"""

import gc
import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from warren import _build
from warren.runtime.files import SystemFiles
from warren.store.body_store import BodyStore
from warren.store.checkpoint import QueuePlan
from warren.store.journal import Journal
from warren.store.persistence import Persistence
from warren.store.recovery import Recovery
from warren.store.state import decode_queue, encode_queue

if TYPE_CHECKING:
    from warren.core.seam import Files, Job
    from warren.store.reading import Reading

TAIL = b"\x00\x09benchmark"
PROPS = b"\x10\x00\x02"
BATCH = 1_000_000
MIB = 1024 * 1024


class Direct:
    """Lanes that do each job at once."""

    def __init__(self, files: "Files") -> None:
        self.files = files
        self.ended: deque[tuple[Job, Exception | None]] = deque()
        self.job_s = 0.0

    def submit(self, lane: int, job: "Job") -> None:
        del lane
        start = time.perf_counter()
        job.run(self.files)
        self.job_s += time.perf_counter() - start
        self.ended.append((job, None))

    def run(self) -> None:
        while self.ended:
            job, error = self.ended.popleft()
            job.done(error)


class Quiet:
    def event(self, level: str, name: str, fields: Mapping[str, object], /) -> None:
        print(level, name, dict(fields))


def started(root: Path, known: list[int]) -> tuple[Persistence, Direct, Recovery]:
    files = SystemFiles(root)
    recovery = Recovery(files, known)
    journal, end, state = recovery.run()
    lanes = Direct(files)
    persistence = Persistence(lanes, Quiet(), journal, end, state, recovery.journal_files)
    persistence.indexes = recovery.indexes
    persistence.kept = 1 << 40
    return persistence, lanes, recovery


def stream(root: Path, size: int, total: int) -> None:
    """Publish so many octets of journal into one queue, replay, checkpoint, read, settle them."""
    persistence, lanes, _ = started(root, [1])
    index = persistence.open(1)
    journal = persistence.journal
    body = b"x" * size
    seq = 0
    start = time.perf_counter()
    while journal.position() < total:
        for _ in range(BATCH // (size + 100)):
            lsn = journal.publish(1, seq, 1, 0, 0, TAIL, PROPS, b"", body, None, size, 0)
            index.enter(seq, lsn, 64 + len(TAIL) + len(PROPS) + size, size)
            seq += 1
        persistence.end_turn()
        lanes.run()
    took = time.perf_counter() - start - lanes.job_s
    print(f"{size} B: enter {1e9 * took / seq:.0f} ns a message on the loop,", end=" ")
    print(f"{1e9 * lanes.job_s / seq:.0f} ns on the lane with write and sync; {seq} messages")

    start = time.perf_counter()
    persistence, lanes, recovery = started(root, [1])
    took = time.perf_counter() - start
    replayed = recovery.found.replayed_bytes
    print(
        f"{size} B: replay {seq / took / 1e6:.2f} M messages/s, {replayed / took / MIB:.0f} MiB/s"
    )
    index = persistence.open(1)

    start = time.perf_counter()
    QueuePlan(index, persistence.files[-2].end)
    took = time.perf_counter() - start
    print(f"{size} B: plan of a checkpoint {1e3 * took:.1f} ms for {seq} messages of one queue")
    start = time.perf_counter()
    persistence.checkpoint(len(persistence.files) - 1)
    lanes.run()
    took = time.perf_counter() - start
    print(f"{size} B: checkpoint {1e9 * took / seq:.0f} ns a message", end=", ")
    print(f"of these {1e9 * lanes.job_s / seq:.0f} ns on the lane")

    ended: list[Reading] = []
    at = 0
    count = 0
    lanes.job_s = 0.0
    start = time.perf_counter()
    while persistence.read(index, at, lambda reading, error: ended.append(reading)):
        lanes.run()
        reading = ended.pop()
        count += len(reading.records())
        at = int(reading.next_seq)
    took = time.perf_counter() - start
    print(f"{size} B: read {1e9 * took / count:.0f} ns a message", end=", ")
    print(f"of these {1e9 * lanes.job_s / count:.0f} ns on the lane")

    start = time.perf_counter()
    for at in range(seq):
        index.settle(at, size)
    took = time.perf_counter() - start
    print(f"{size} B: settle in order {1e9 * took / seq:.0f} ns a message")


def bodies(root: Path, size: int, count: int, batch: int) -> None:
    """Publish so many large bodies, a commit for each batch; beside it, the same octets raw."""
    persistence, lanes, _ = started(root, [1])
    index = persistence.open(1)
    journal = persistence.journal
    store = persistence.bodies
    body = bytes(range(256)) * (size // 256)
    start = time.perf_counter()
    for seq in range(count):
        place = store.put(body, None, size)
        at = journal.position()
        lsn = journal.publish_stored(1, seq, 1, 0, 0, TAIL, PROPS, b"", place, size, 0)
        index.enter(seq, lsn, journal.position() - at, size)
        if seq % batch == batch - 1:
            persistence.end_turn()
            lanes.run()
    took = time.perf_counter() - start
    loop = took - lanes.job_s
    files = SystemFiles(root)
    handle = files.create("raw")
    offset = 0
    start = time.perf_counter()
    for _ in range(count // batch):
        files.write(handle, offset, [body] * batch)
        files.sync(handle)
        offset += batch * size
    raw = time.perf_counter() - start
    files.close(handle)
    (root / "raw").unlink()
    print(f"bodies of {size} B, {batch} a commit: {count / took:.0f} /s", end=", ")
    print(
        f"{count * size / took / MIB:.0f} MiB/s; {1e6 * loop / count:.2f} us on the loop", end="; "
    )
    print(f"one file, written and synced, and nothing else: {count / raw:.0f} /s")

    ended: list[Reading] = []
    at = found = 0
    start = time.perf_counter()
    while persistence.read(index, at, lambda reading, error: ended.append(reading)):
        lanes.run()
        reading = ended.pop()
        found += len(reading.records())
        at = int(reading.next_seq)
    took = time.perf_counter() - start
    print(f"bodies of {size} B: read {found / took:.0f} /s, {found * size / took / MIB:.0f} MiB/s")
    start = time.perf_counter()
    started(root, [1])
    print(f"bodies of {size} B: start {1e3 * (time.perf_counter() - start):.0f} ms for {count}")
    places = [
        (number << 32) + 1 + n for number, f in store.files.items() for n in range(len(f.refs))
    ]
    start = time.perf_counter()
    for place in places:
        store.release(place)
    took = time.perf_counter() - start
    print(f"bodies of {size} B: release {1e9 * took / len(places):.0f} ns")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def table(count: int) -> None:
    """What the tables of the message store take for so many bodies of 4096 octets."""
    store = BodyStore()
    writer = BytesWriter()
    body = bytes(4096)
    before = resident()
    start = time.perf_counter()
    for at in range(count):
        store.hold(store.put(body, None, 4096))
        if at % 100 == 99:
            store.write_records(writer)
            store.take_appends()
            writer.truncate(0)
    took = time.perf_counter() - start
    grown = (resident() - before) / count
    print(
        f"{count} bodies: {grown:.1f} octets of memory each, {1e9 * took / count:.0f} ns to append"
    )


def many_queues(root: Path, count: int) -> None:
    """The states of so many queues with ten messages each, and a start with them."""
    known = list(range(1, count + 1))
    persistence, lanes, _ = started(root, known)
    persistence.end.file_size = MIB
    journal = persistence.journal
    for seq in range(10):
        for ident in known:
            lsn = journal.publish(ident, seq, 1, 0, 0, TAIL, PROPS, b"", b"x" * 12, None, 12, 0)
            persistence.indexes[ident].enter(seq, lsn, 64 + len(TAIL) + len(PROPS) + 12, 12)
        persistence.end_turn()
        lanes.run()
    start = time.perf_counter()
    records = [encode_queue(index, 0) for index in persistence.indexes.values()]
    encoded = time.perf_counter() - start
    start = time.perf_counter()
    fresh = Journal(1, 1)
    for record in records:
        decode_queue(record, 0, fresh)
    took = time.perf_counter() - start
    print(
        f"{count} queues: encode {1e6 * encoded / count:.2f} us, decode {1e6 * took / count:.2f} us"
    )
    start = time.perf_counter()
    persistence.checkpoint(len(persistence.files) - 1)
    lanes.run()
    took = time.perf_counter() - start
    print(f"{count} queues: checkpoint {took:.2f} s, of these {lanes.job_s:.2f} s on the lanes")
    start = time.perf_counter()
    started(root, known)
    print(f"{count} queues: start {time.perf_counter() - start:.2f} s")


def main() -> None:
    compiled = "warren.store.index" in _build.compiled_modules()
    print("compiled" if compiled else "interpreted")
    # As in a node.
    gc.disable()
    root = Path(mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        # Before anything else has grown and shrunk.
        table(2_000_000)
        for name, size in (("large", 1024), ("small", 12)):
            (root / name).mkdir()
            stream(root / name, size, 128 * MIB)
            shutil.rmtree(root / name)
        for size, batch in ((65536, 1), (65536, 16), (65536, 256), (8192, 128)):
            (root / "bodies").mkdir()
            bodies(root / "bodies", size, 64 * batch if batch < 128 else 4096, batch)
            shutil.rmtree(root / "bodies")
        (root / "many").mkdir()
        many_queues(root / "many", 50_000)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
