"""Everything a store does, once and in order, with crashes at each single call of it."""

from random import Random
from typing import Final

from tests.support.sim_files import SimFiles
from tests.support.store_model import NEVER, Model, QueueModel, Store
from tests.support.store_workload import SEGMENT, Crasher, Options, Workload
from warren.store.body_file import body_path

SMALL: Final = Options(
    kept=600, file_size=500, rewrite_min=300, most=500, queues=4, large=0.0, steps=0, failures=0.0,
    embed_below=100, body_file_size=1500,
)  # fmt: skip


def script(seed: int, *, copies: int, deep: float) -> int:
    """Everything a store does, once, and so many crashes at each single call of it."""
    random = Random(seed)
    model = Model()
    files = SimFiles(random)
    crasher = Crasher(model, random, SMALL.most)

    def boundary() -> None:
        for _ in range(copies):
            crasher.crash(work.files, deep=deep)

    work = Workload(Store(files, ()), model, random, SMALL, boundary)
    queues = [QueueModel(ident) for ident in (1, 2, 3)]
    for queue in queues:
        model.queues[queue.ident] = queue
        for _ in range(6):
            work.publish(queue)
        work.end_turn()
    work.settle_down()
    work.settle(queues[0])
    work.move(queues[1], queues[2])
    work.publish(queues[0], b"large" * 4096)
    work.end_turn()
    work.settle_down()
    for queue in queues:
        for _ in range(5):
            work.publish(queue)
        work.purge(queue)
        work.read(queue)
        work.end_turn()
        work.settle_down()
    work.drop(queues[2])
    work.publish(queues[1])
    work.end_turn()
    work.settle_down()
    del model.queues[3]
    work.persistence.forget(3)
    queues[0].next_seq = max(queues[0].next_seq, SEGMENT + 1)
    for _ in range(4):
        work.publish(queues[0])
        work.end_turn()
        work.settle_down()
    for message in queues[1].live():
        work._settle(queues[1], message)
    work.end_turn()
    work.settle_down()
    script_bodies(work, queues[:2])
    script_history(work, queues[:2])
    assert work.persistence.state.end.number > 1, "the state log was never written anew"
    assert work.persistence.written_bytes > 0
    work.stop()
    work.lanes.kill()
    return crasher.points


def script_bodies(work: Workload, queues: list[QueueModel]) -> None:
    """What the message store does: files that fill up, are compacted, and go."""
    bodies = work.persistence.bodies
    body = b"shared" * 100
    for message in queues[0].live():
        work._settle(queues[0], message)
    for _ in range(4):
        for _ in range(3):
            place = work.publish(queues[0], body)
            work.publish(queues[1], body, place)
        work.end_turn()
        work.settle_down()
    assert len(bodies.homes) > 3
    number = int(bodies.next_number)
    # Two of three are settled in both queues, of the rest a half has one reference left.
    shared = [message.place for message in queues[0].live() if message.body == body]
    for queue in queues:
        for message in queue.live():
            if message.body == body and message.place not in shared[:: 3 * (queue.ident)]:
                work._settle(queue, message)
                work.end_turn()
    work.read(queues[1])
    work.settle_down()
    assert any(len(home.files) > 1 for home in bodies.homes), "nothing was compacted"
    assert bodies.next_number > number
    for queue in queues:
        work.read(queue)
        work.settle_down()
        work.purge(queue)
        work.end_turn()
        work.settle_down()
    for queue in queues:
        for message in queue.live():
            work._settle(queue, message)
    work.end_turn()
    work.settle_down()
    assert bodies.valid == 0
    assert all(home.open for home in bodies.homes), "a file without bodies is still there"
    left = [path for path in work.files.paths() if path.endswith(".rdq")]
    assert left == [body_path(int(home.number)) for home in bodies.homes]


def script_history(work: Workload, queues: list[QueueModel]) -> None:
    """What a history does: it is kept, checkpointed, read, let go in parts, ended, and deleted."""
    bodies = work.persistence.bodies
    body = b"kept" * 100
    for queue in queues:
        work.publish(queue)
        work.keep(queue)
        for _ in range(3):
            place = work.publish(queue, body)
            work.publish(queue)
            work.publish(queue, body, place)
            work.end_turn()
            work.settle_down()
        for message in queue.live():
            work._settle(queue, message)
            work.end_turn()
        work.settle_down()
        work.read_kept(queue)
        work.settle_down()
    assert work.kept_reads == len(queues)
    assert bodies.valid > 0
    first = queues[0]
    index = work.persistence.open(first.ident)
    assert index.live == 0
    seqs = sorted(message.seq for message in first.messages.values() if message.gone == NEVER)
    for seq in (seqs[2], seqs[5] + 1):
        work.persistence.lift(index, seq)
        work.end_turn()
        work.settle_down()
        assert index.kept_from == seq
        work.read_kept(first)
        work.settle_down()
    work.publish(first, body)
    work.keep(first)
    work.publish(first, body)
    work.end_turn()
    work.settle_down()
    assert index.kept_from == index.kept_to
    for message in first.live():
        work._settle(first, message)
    work.end_turn()
    work.settle_down()
    # The other one is deleted with its history.
    work.drop(queues[1])
    work.end_turn()
    work.settle_down()
    del work.model.queues[queues[1].ident]
    work.persistence.forget(queues[1].ident)
    for _ in range(20):
        work.end_turn()
        work.settle_down()
    assert bodies.valid == 0, "a history is gone, and its bodies are not"
