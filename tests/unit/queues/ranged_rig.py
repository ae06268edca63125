"""A durable queue over a simulated disk, consumers on channels of its own, and its ranges."""

from collections.abc import Callable, Iterator
from random import Random

from tests.support.machine import FakeLog
from tests.support.sim_files import SimFiles
from tests.support.sim_lanes import DirectLanes
from tests.unit.queues.rig import Rig
from warren.queues import Delivery, Message, Outlet, Queue, QueueRules
from warren.queues.ranged import Range, RangeRead, levels_of
from warren.queues.storage import LEVEL_BITS, Storage
from warren.store.pages import Pages
from warren.store.persistence import Persistence
from warren.store.recovery import Recovery

PERSISTENT = 1
EPOCH_NS = 1_000_000_000_000
SECOND_NS = 1_000_000_000
INCARNATION = 7


class RangedRig(Rig):
    """What is written is on the disk after `commit`, in segments after `checkpoint`."""

    def __init__(
        self, *, files: SimFiles | None = None, resident: int = 1 << 25, priorities: int = 0
    ) -> None:
        self.files = files or SimFiles(Random(1))
        self.lanes = DirectLanes(self.files)
        self.outlets: list[Outlet] = []
        idents = [INCARNATION << LEVEL_BITS | level for level in range(priorities + 1)]
        recovery = Recovery(self.files, idents)
        _, end, _ = recovery.run()
        self.persistence = Persistence(
            self.lanes, FakeLog(), recovery.journal, end, recovery.state, recovery.journal_files
        )
        self.persistence.indexes.update(recovery.indexes)
        super().__init__()
        self.turn.now_ns = SECOND_NS
        self.storage = Storage(
            self.turn,
            FakeLog(),
            self.persistence,
            Pages(self.lanes),
            epoch_ns=EPOCH_NS,
            resident_octets=resident,
        )
        self.storage.clean = recovery.found.clean
        self.persistence.owner = Committed(self.storage)
        self.turn.storage = self.storage
        self.queue = Queue(
            "q",
            "/",
            self.turn,
            durable=True,
            auto_delete=False,
            owner=0,
            arguments={},
            rules=QueueRules(max_priority=priorities) if priorities else None,
        )
        self.queue.incarnation = INCARNATION
        self.storage.join(self.queue)

    def outlet(self, number: int = 1, *, bound: int = 1 << 20) -> Outlet:
        self.outlets.append(super().outlet(number, bound=bound))
        return self.outlets[-1]

    def put(self, *bodies: bytes, stored: bool = True, priority: int = 0) -> None:
        traits = (PERSISTENT if stored else 0) | (priority + 1) << 16
        for body in bodies:
            message = Message(b"\x00\x01q", b"\x00\x00", body, None, len(body), traits)
            assert self.queue.publish(message, None, 0) == 0

    def commit(self) -> None:
        self.persistence.end_turn()
        self.lanes.run()
        self.run()
        self.persistence.end_turn()
        self.lanes.run()

    def checkpoint(self) -> None:
        self.commit()
        self.persistence.end.close(self.files)
        self.persistence.checkpoint(len(self.persistence.files))
        self.lanes.run()

    def channels(self) -> Iterator[list[Delivery]]:
        for outlet in list(self.outlets):
            yield outlet.unacked.part(0, 1 << 30)

    def begin(
        self,
        begin: int = 0,
        end: int = 1 << 40,
        *,
        limit: int = 1000,
        octets: int = 1 << 20,
        body_from: int = 0,
        body_max: int = 1 << 30,
        stored: bool = True,
    ) -> RangeRead:
        wanted = Range(
            from_seq=begin,
            to_seq=end,
            limit=limit,
            octets=octets,
            body_from=body_from,
            body_max=body_max,
            stored=stored,
        )
        return RangeRead(self.queue, wanted, self.channels)

    def finish(self, read: RangeRead, between: Callable[[], None] | None = None) -> RangeRead:
        """Step to the end; `between` is called between two steps."""
        steps = 0
        while not read.step():
            if between is not None:
                between()
            self.lanes.run()
            steps += 1
            assert steps < 100_000
        return read

    def read(self, begin: int = 0, end: int = 1 << 40, **options: int) -> list[tuple[int, bytes]]:
        """Everything in a range, answer by answer: ids and bodies."""
        found: list[tuple[int, bytes]] = []
        while True:
            read = self.finish(self.begin(begin, end, **options))  # type: ignore[arg-type]
            found += [(record.seq, record.body) for record in read.records]
            if read.next_seq >= read.end:
                return found
            assert read.next_seq > begin
            begin = read.next_seq

    def state(self) -> object:
        """Everything that reading must not change."""
        queue = self.queue
        levels = []
        for level in levels_of(queue):
            backlog, index = level.backlog, level.index
            blocks = []
            block = backlog.head if backlog.count else None
            while block is not None:
                facts = (block.place, block.first, block.out, block.again, block.sealed)
                blocks.append((id(block), *facts, *(id(one) for one in block.items)))
                block = block.next
            paging = backlog.paging
            levels.append(
                (
                    (backlog.count, backlog.here, backlog.outs, backlog.out_count),
                    (backlog.head_index, backlog.seq, blocks),
                    [(item.seq, id(item.message)) for item in level.returned.heap],
                    paging and (paging.reads, paging.writes, paging.loading, paging.life),
                    paging and (paging.again_below, str(paging.again_runs)),
                    index and (index.live, index.live_bytes, index.next_seq, index.disk_seq),
                    index and (index.run_count, index.journal.position(), index.batch),
                )
            )
        held = [
            [(d.tag, d.seq, id(d.message)) for d in outlet.unacked.part(0, 1 << 30)]
            for outlet in self.outlets
        ]
        files = {path: bytes(file.seen()) for path, file in self.files.paths().items()}
        counts = (queue.ready(), queue.ready_bytes, queue.unacked_count, queue.settled_count)
        more = (queue.out_count, queue.next_seq, queue.scheduled, queue.gate, queue.lost_count)
        return levels, held, files, counts, more, list(queue.witnesses)


class Committed:
    """Who hears of commits."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def ticket(self) -> int:
        return 0

    def on_committed(self) -> None:
        self.storage.on_committed()

    def on_broken(self, reason: str) -> None:
        raise AssertionError(reason)

    def on_full(self, reason: str) -> None:
        raise AssertionError(reason)
