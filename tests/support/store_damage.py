"""Damage to the files of a store: bits that flip, files that are cut short or are gone.

Whatever is done to one file, a start succeeds, nothing is handed over with other octets than were
published, and what is missing or back is reported. One thing cannot be known: that the very last
batch of the journal was whole once. Without it the store is as it was before.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from tests.support.sim_files import File, SimFiles
from tests.support.store_model import Model, Store, content_of
from tests.support.store_workload import Options, Workload
from warren.store.commit import journal_path

if TYPE_CHECKING:
    from warren.store.index import QueueIndex
    from warren.store.reading import Reading
    from warren.store.record import Publish

KINDS: Final = ("flip", "flip", "flip", "cut", "zeros", "gone")


def worked(seed: int) -> tuple[SimFiles, Model, Random]:
    """A disk after some work, with nothing under way."""
    random = Random(seed)
    model = Model()
    files = SimFiles(random)
    options = Options.draw(random)
    while options.failures:
        options = Options.draw(random)
    work = Workload(Store(files, ()), model, random, options, lambda: None)
    for _ in range(options.steps):
        work.step()
    stop = random.random() < 0.5
    while work.go_on():
        work.end_turn()
    if stop:
        work.stop()
    work.lanes.kill()
    files.gate = None
    files.sync_all()
    return files, model, random


def harm(files: SimFiles, random: Random) -> str:
    """Damage one file; return what was done."""
    path, file = random.choice(sorted(files.paths().items()))
    kind = random.choice(KINDS)
    if kind == "gone":
        files.remove(path)
    elif not file.disk:
        return "nothing"
    else:
        at = random.randrange(len(file.disk))
        damage(file, kind, at, random)
        return f"{kind} {path} at {at}"
    return f"{kind} {path}"


def damage(file: File, kind: str, at: int, random: Random) -> None:
    octets = bytearray(file.disk)
    if kind == "flip":
        octets[at] ^= 1 << random.randrange(8)
    elif kind == "cut":
        del octets[at:]
    else:
        end = min(len(octets), at + random.choice((1, 512, 4096)))
        octets[at:end] = bytes(end - at)
    file.disk = bytes(octets)
    file.cache = None


def read_what_is_left(store: Store, index: "QueueIndex") -> "tuple[list[Publish], int]":
    """The messages of a queue, and how many of those that were to be there cannot be read."""
    records: list[Publish] = []
    ended: list[tuple[Reading, Exception | None]] = []
    seq = 0
    lost = 0
    moved = 0
    while store.persistence.read(
        index, seq, lambda reading, error: ended.append((reading, error)), 4096
    ):
        store.direct.run()
        reading, error = ended.pop()
        assert error is None, error
        records += reading.records()
        if reading.moved:
            moved += 1
            assert moved < 10, "it is told to ask again for ever"
            continue
        for first, last in reading.lost:
            assert reading.problem
            lost += int(index.lose(first, last))
        seq = int(reading.next_seq)
    return records, lost


def look(files: SimFiles, model: Model, what: str, last: str, random: Random) -> bool:
    """Start from a damaged disk; True if anything was missing or back."""
    store = Store(files, tuple(model.queues))
    # Behind which batches the store may be.
    complete = dict.fromkeys(range(model.sealed + 1), True)
    lost = 0
    for ident, index in store.persistence.indexes.items():
        queue = model.queues[ident]
        counted = int(index.live)
        records, missing = read_what_is_left(store, index)
        lost += missing
        for record in records:
            message = queue.messages.get(int(record.seq))
            assert message is not None, f"{what}: message {record.seq} never was"
            assert content_of(record) == message.content(), f"{what}: other octets"
        seqs = [int(record.seq) for record in records]
        assert seqs == sorted(set(seqs)), f"{what}: order"
        assert counted == len(seqs) + missing, f"{what}: {counted} counted, {len(seqs)} there"
        assert index.live == len(seqs)
        for batch in complete:
            complete[batch] &= seqs == [message.seq for message in queue.at(batch)]
        if not store.found.damages and not missing:
            octets = sum(len(queue.messages[seq].body) for seq in seqs)
            assert index.live_bytes == octets, f"{what}: octets"
    reported = bool(store.found.damages) or lost > 0
    whole = complete[model.safe] or complete[model.sealed]
    if not whole and not reported:
        # The end of the last file is what a crash may have torn: then it is as it was before.
        assert last in what, f"{what}: nobody was told"
        assert any(complete.values()), f"{what}: it is as it never was"
        assert not model.stopped, f"{what}: nobody was told of what was lost after a clean stop"
    # The same again, after what the start did about it.
    again = Store(files.after_power_cut(random), tuple(model.queues))
    for index in again.persistence.indexes.values():
        read_what_is_left(again, index)
    return not whole


def run(seed: int, times: int = 20) -> tuple[int, int]:
    """Damage copies of one disk so many times; return how many, and how many lost something."""
    files, model, random = worked(seed)
    felt = 0
    numbers = [int(path[8:-4]) for path in files.paths() if path.startswith("journal/")]
    last = journal_path(max(numbers, default=0))
    for _ in range(times):
        copy = files.after_power_cut(random)
        what = harm(copy, random)
        felt += look(copy, model, f"seed {seed}: {what}", last, random)
    return times, felt


def run_running(seed: int) -> int:
    """Damage files under a running store, then read, checkpoint, read; return what was lost."""
    files, model, random = worked(seed)
    store = Store(files, tuple(model.queues))
    store.persistence.end.file_size = 500
    for _ in range(random.choice((1, 3))):
        paths = [path for path in files.paths() if not path.startswith("state/")]
        if not paths:
            return 0
        path = random.choice(sorted(paths))
        file = files.paths()[path]
        if file.disk:
            damage(
                file,
                random.choice(("flip", "cut", "zeros")),
                random.randrange(len(file.disk)),
                random,
            )
    lost = 0
    persistence = store.persistence
    if random.random() < 0.5:
        lost += _read_running(store, model, seed)
    for number, index in persistence.indexes.items():
        # Something to close the last file with.
        seq = max(int(index.next_seq), model.queues[number].next_seq)
        lsn = persistence.journal.publish(
            number, seq, 1, 0, 0, b"", b"", b"", b"x" * 600, None, 600, 0
        )
        index.enter(seq, lsn, persistence.journal.position() - lsn, 600)
        index.settle(seq, 600)
    persistence.end_turn()
    store.direct.run()
    if len(persistence.files) > 1:
        persistence.checkpoint(len(persistence.files) - 1)
        store.direct.run()
        assert not persistence.broken
        assert not persistence.checkpointing
    lost += _read_running(store, model, seed)
    assert _read_running(store, model, seed) == 0
    return lost


def _read_running(store: Store, model: Model, seed: int) -> int:
    lost = 0
    for ident, index in store.persistence.indexes.items():
        records, missing = read_what_is_left(store, index)
        lost += missing
        assert index.live == len(records), seed
        for record in records:
            message = model.queues[ident].messages[int(record.seq)]
            assert content_of(record) == message.content(), seed
    return lost
