"""How much each queue may keep in memory while memory is low (VQ-11 to VQ-16).

`MemoryShare.look` is called at an interval with what the node uses and may use. Of each queue that
had more than a block of messages it keeps four rates: messages in, messages out, of these the ones
that await settlement, and settlements. A queue's *duration* is how long its messages in memory last
at these rates. From all durations follows the one that is desired, the same for all queues, and
from that and its rates what each queue may keep: a busy queue more than one that nobody reads.

Below the paging ratio, with a disk alarm, or when nothing moves at all, everybody keeps what they
like. A share that falls has messages leave at once, in slices; one that rises brings nothing back
(VQ-14): memory fills only by new publishes and by reading.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.paging import MESSAGE_COST
from warren.queues.storage import ReduceChore

if TYPE_CHECKING:
    from warren.queues.queue import Queue
    from warren.queues.storage import Storage

# Half of what is known of a rate is from the last so many seconds.
HALF_LIFE_S: Final = 5.0
# All rates below this: the queue stands still, and its duration says nothing.
STILL: Final = 0.01
# Near the limit durations count as they are; below it a second is added, so that queues recover.
NEAR: Final = 0.95
INFINITE: Final = -1.0


@final
class Rates:
    """The four rates of one queue, a second."""

    def __init__(self, queue: "Queue") -> None:
        self.queue = queue
        self.counts = self._counts()
        self.rates = [0.0, 0.0, 0.0, 0.0]
        # Messages in memory at the last look.
        self.in_memory = 0

    def _counts(self) -> tuple[int, int, int, int]:
        queue = self.queue
        entered = int(queue.next_seq)
        out = entered - int(queue.ready())
        return entered, out, out, int(queue.settled_count)

    def look(self, seconds: float) -> None:
        counts = self._counts()
        kept = 0.5 ** (seconds / HALF_LIFE_S)
        for place in range(4):
            fresh = max(0, counts[place] - self.counts[place]) / seconds
            self.rates[place] = self.rates[place] * kept + fresh * (1 - kept)
        self.counts = counts

    def total(self) -> float:
        return sum(self.rates)

    def duration(self) -> float:
        """How long what is in memory lasts, in seconds; `INFINITE` if nothing moves."""
        queue = self.queue
        now = int(queue.ready() - queue.out_count + queue.unacked_count)
        before, self.in_memory = self.in_memory, now
        if all(rate < STILL for rate in self.rates):
            return INFINITE
        return (before + now) / (4 * self.total())


@final
class MemoryShare:
    def __init__(self, storage: "Storage") -> None:
        self.storage = storage
        self.rates: dict[int, Rates] = {}
        # What was decided last, in seconds of messages; `INFINITE` is everything.
        self.desired = INFINITE

    def look(self, *, used: int, limit: int, ratio: float, seconds: float) -> None:
        """Measure, decide, and have the queues follow."""
        storage = self.storage
        rates: dict[int, Rates] = {}
        durations: list[float] = []
        for key, queue in list(storage.large.items()):
            if queue.ready() == queue.out_count and queue.unacked_count == 0:
                # Nothing of it is in memory.
                queue.memory_target = -1
                del storage.large[key]
                continue
            one = self.rates.get(key) or Rates(queue)
            one.look(seconds)
            rates[key] = one
            durations.append(one.duration())
        self.rates = rates
        storage.rates = {key: one.rates for key, one in rates.items()}
        finite = [each for each in durations if each != INFINITE]
        self.desired = desired_duration(
            finite, len(durations), used=used, limit=limit, ratio=ratio, disk_low=storage.disk_low
        )
        storage.pressed = self.desired != INFINITE
        if not storage.pressed:
            for one in rates.values():
                one.queue.memory_target = -1
            return
        over: list[Queue] = []
        for one in rates.values():
            queue = one.queue
            queue.memory_target = self._target(one)
            over.append(queue)
        storage.turn.chores.append(ReduceChore(over))

    def _target(self, one: Rates) -> i64:
        """What the desired duration comes to for one queue, in octets."""
        count = int(self.desired * one.total())
        queue = one.queue
        ready = int(queue.ready())
        size = int(queue.ready_bytes) // ready if ready else 0
        return i64(count * (size + int(MESSAGE_COST)))


def desired_duration(
    finite: list[float], count: int, *, used: int, limit: int, ratio: float, disk_low: bool
) -> float:
    """Return how long what is in memory should last (VQ-13)."""
    if disk_low:
        return INFINITE
    if limit == 0:
        return 0.0
    share = used / limit
    if share < ratio or not count:
        return INFINITE
    if not finite:
        # Nothing moves: what waits may wait on the disk.
        return 0.0 if share >= NEAR else INFINITE
    total = sum(finite)
    if share < NEAR:
        return ((total + 1.0) / count) / share
    return (total / count) / share
