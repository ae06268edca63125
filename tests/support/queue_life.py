"""One life of queues and delayed messages on a simulated disk, from a start to a crash.

What a node does, without a node: a turn, a storage, and lanes whose threads take turns
(`sim_lanes.py`). `open` is the number of the batch that takes what happens now to the disk, `safe`
the last one that was told to be safe: what a crash leaves is what was true behind one batch from
`safe` to `sealed`.
"""

from collections.abc import Iterable
from random import Random
from typing import Final, final

from tests.support.sim_files import SimFiles
from tests.support.sim_lanes import SimLanes
from tests.support.store_model import Quiet
from warren.queues import Message, Queue, QueueRules, Turn
from warren.queues.outlet import ConsumerOwner
from warren.queues.storage import LEVEL_BITS, Storage
from warren.store.journal import Waiter
from warren.store.pages import Pages
from warren.store.persistence import Persistence
from warren.store.recovery import Recovery

MS: Final = 1_000_000
# Times of the node's clock are those of the wall here.
EPOCH_NS: Final = 0


@final
class Safe(Waiter):
    """Hears what is safe."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.last = batch

    def safe(self, batch: int) -> None:
        self.last = max(self.last, int(batch))

    def lost(self, batch: int) -> None:
        raise AssertionError("the disk does not fail here")


@final
class Life:
    def __init__(
        self,
        files: SimFiles,
        random: Random,
        idents: Iterable[int],
        *,
        now_ns: int,
        kept: int = 128 * 1024 * 1024,
        file_size: int = 16 * 1024 * 1024,
    ) -> None:
        self.files = files
        recovery = Recovery(files, list(idents), random.getrandbits(32))
        journal, end, state = recovery.run()
        assert not recovery.found.damages
        self.lanes = SimLanes(files, random)
        self.persistence = Persistence(
            self.lanes, Quiet(), journal, end, state, recovery.journal_files, kept=kept
        )
        self.persistence.indexes = {
            ident: index for ident, index in recovery.indexes.items() if index.next_seq > 0
        }
        end.file_size = file_size
        self.turn = Turn()
        self.turn.now_ns = now_ns
        self.storage = Storage(
            self.turn,
            Quiet(),
            self.persistence,
            Pages(self.lanes),
            epoch_ns=EPOCH_NS,
            files=files,
        )
        self.storage.clean = False
        self.turn.storage = self.storage
        self.told = Safe(int(journal.batch.number) - 1)

    def queue(self, incarnation: int, rules: QueueRules | None = None) -> Queue:
        queue = Queue(
            f"q{incarnation}",
            "/",
            self.turn,
            durable=True,
            auto_delete=False,
            owner=0,
            arguments={},
            rules=rules,
        )
        queue.incarnation = incarnation
        self.storage.join(queue)
        return queue

    @property
    def open(self) -> int:
        return int(self.persistence.journal.batch.number)

    @property
    def safe(self) -> int:
        return self.told.last

    def end_turn(self) -> None:
        """What the hub does at the end of a turn, once."""
        self.turn.run()
        journal = self.persistence.journal
        if journal.pending() or journal.running:
            journal.wait(self.told)
        self.persistence.end_turn()

    def go_on(self, most: int) -> None:
        """Let the lanes do so many calls."""
        for _ in range(most):
            if not self.lanes.step():
                break

    def rest(self) -> None:
        """Go on until nothing is left to do now."""
        for _ in range(100_000):
            self.end_turn()
            timers = self.turn.timers
            due = bool(timers.heap) and timers.next_ns() <= self.turn.now_ns
            work = self.turn.queues or self.turn.due or self.turn.chores or self.turn.garbage
            if not self.lanes.step() and not due and not work:
                return
        raise AssertionError("work without end")

    def take_all(self, queue: Queue) -> list[Message]:
        """Take what is ready in a queue, also from the disk."""
        found: list[Message] = []
        while queue.ready() > 0:
            got = queue.get()
            if got is not None:
                found.append(got.message)
                continue
            queue.wait_here(ConsumerOwner())
            self.rest()
        return found

    def crash(self, random: Random) -> SimFiles:
        """End here; return the disk as the next life finds it."""
        after = (
            self.files.after_kill(random)
            if random.random() < 0.5
            else self.files.after_power_cut(random)
        )
        self.lanes.kill()
        return after


def ident_of(incarnation: int, level: int = 0) -> int:
    return incarnation << LEVEL_BITS | level
