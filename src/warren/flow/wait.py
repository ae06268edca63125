"""The explained wait: who waits, why, for whom, since when, and which setting decides.

Owns the reasons, the plain words for each, and the book of the waits that run now. Waits form a
graph: a wait's `cause` is another subject, which may wait in its turn; `chain` walks it from an
object to the root causes. Metrics take count and time per reason from sums, never from a scan.

Invariants: `begin` and `end` cost the same whatever the number of waits; the book lists at most
`listed_max` waits (those beyond it are still counted and timed, and `unlisted` says how many);
ending twice changes nothing.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, final

# A listed wait costs about 500 octets; this many cost 25 MB, and a node rarely has more
# connections, channels and consumers waiting at one time than this.
LISTED_MAX: Final = 50_000

# A walk for people: a channel in flow for more queues than this is explained well enough.
CHAIN_WAITS_MAX: Final = 1_000


class Reason(StrEnum):
    """Why somebody waits. The value is the label in metrics and in the API."""

    CREDIT = "credit"
    ROUTING_BUSY = "routing_busy"
    QUEUE_BUSY = "queue_busy"
    PUBLISH_RATE = "publish_rate"
    JOURNAL_FULL = "journal_full"
    QUEUE_SUSPENDED = "queue_suspended"
    MEMORY_ALARM = "memory_alarm"
    DISK_ALARM = "disk_alarm"
    PARKED_BUDGET = "parked_budget"
    OUTPUT_FULL = "output_full"
    PREFETCH_FULL = "prefetch_full"
    METADATA_PENDING = "metadata_pending"
    TX_COMMIT = "tx_commit"
    HANDSHAKE = "handshake"
    LOGIN_REFUSED = "login_refused"


# Credit is exhausted and back many times a second: such a wait is told for so long after its end.
LINGERING: Final = frozenset({Reason.CREDIT, Reason.JOURNAL_FULL})
LINGER_NS: Final = 5_000_000_000
# Subjects whose last wait is remembered for that.
ENDED_MAX: Final = 1_000


class Kind(StrEnum):
    """What a subject is."""

    CONNECTION = "connection"
    CHANNEL = "channel"
    QUEUE = "queue"
    CONSUMER = "consumer"
    STORE = "store"
    NODE = "node"
    USER = "user"
    VHOST = "vhost"


@dataclass(frozen=True)
class Subject:
    """Something that can wait or be waited for. `vhost` is empty for what lives in none."""

    kind: Kind
    name: str
    vhost: str = ""

    def __str__(self) -> str:
        place = f" in vhost '{self.vhost}'" if self.vhost else ""
        return f"{self.kind.value} '{self.name}'{place}"


@dataclass(frozen=True)
class Wait:
    """One fact: `subject` waits since `since_ns` for `reason`, held up by `cause` if named."""

    reason: Reason
    subject: Subject
    cause: Subject | None
    since_ns: int
    setting: str | None = None
    detail: str = ""


@final
class Handle:
    """What `begin` gives and `end` takes; it keeps the wait, so that an unlisted one can end."""

    def __init__(self, wait: Wait, listed: bool) -> None:
        self.wait = wait
        self.listed = listed
        self.running = True


@final
class _Sum:
    """Time of one reason: finished waits, and the running ones as count and sum of starts."""

    def __init__(self) -> None:
        self.finished_ns = 0
        self.running = 0
        self.since_sum_ns = 0

    def total_ns(self, now_ns: int) -> int:
        return self.finished_ns + self.running * now_ns - self.since_sum_ns


@final
class WaitBook:
    """The waits of one node that run now, and the sums of all there ever were."""

    def __init__(self, listed_max: int = LISTED_MAX) -> None:
        self.listed_max = listed_max
        self.listed = 0
        self.unlisted = 0
        self._by_subject: dict[Subject, dict[Handle, None]] = {}
        # Waits that ended a short while ago, with the time; the last to end is the last.
        self._ended: dict[Subject, tuple[Wait, int]] = {}
        self._sums: dict[Reason, _Sum] = {reason: _Sum() for reason in Reason}

    def begin(self, wait: Wait) -> Handle:
        total = self._sums[wait.reason]
        total.running += 1
        total.since_sum_ns += wait.since_ns
        handle = Handle(wait, self.listed < self.listed_max)
        if handle.listed:
            self.listed += 1
            self._by_subject.setdefault(wait.subject, {})[handle] = None
        else:
            self.unlisted += 1
        return handle

    def end(self, handle: Handle, now_ns: int) -> None:
        if not handle.running:
            return
        handle.running = False
        wait = handle.wait
        total = self._sums[wait.reason]
        total.running -= 1
        total.since_sum_ns -= wait.since_ns
        total.finished_ns += max(0, now_ns - wait.since_ns)
        if not handle.listed:
            self.unlisted -= 1
            return
        if wait.reason in LINGERING:
            self._ended.pop(wait.subject, None)
            if len(self._ended) >= ENDED_MAX:
                del self._ended[next(iter(self._ended))]
            self._ended[wait.subject] = (wait, now_ns)
        self.listed -= 1
        own = self._by_subject[wait.subject]
        del own[handle]
        if not own:
            del self._by_subject[wait.subject]

    def of(self, subject: Subject) -> list[Wait]:
        """The subject's own waits, in the order they began."""
        return [handle.wait for handle in self._by_subject.get(subject, {})]

    def all(self) -> list[Wait]:
        """The listed waits of everybody, up to what people can read at once."""
        found: list[Wait] = []
        for own in self._by_subject.values():
            found.extend(handle.wait for handle in own)
            if len(found) >= CHAIN_WAITS_MAX:
                break
        return found[:CHAIN_WAITS_MAX]

    def lingering(self, subject: Subject, now_ns: int) -> list[Wait]:
        """The subject's last wait, if it has none now and this one ended a short while ago."""
        ended = self._ended.get(subject)
        if ended is None or subject in self._by_subject:
            return []
        wait, at_ns = ended
        if now_ns - at_ns >= LINGER_NS:
            del self._ended[subject]
            return []
        ago = f"went on {(now_ns - at_ns) // 1_000_000} ms ago, as it does many times a second"
        return [replace(wait, detail=f"{wait.detail}; {ago}" if wait.detail else ago)]

    def all_lingering(self, now_ns: int) -> list[Wait]:
        """The waits of everybody that ended a short while ago."""
        found: list[Wait] = []
        for subject in list(self._ended):
            found += self.lingering(subject, now_ns)
        return found

    def chain(self, subject: Subject, now_ns: int | None = None) -> list[Wait]:
        """Every wait that holds the subject up, nearest first; root causes come last.

        With a time also what held it up a short while ago.
        """
        found: list[Wait] = []
        seen = {subject}
        frontier = [subject]
        while frontier:
            beyond: list[Subject] = []
            for waiting in frontier:
                waits = self.of(waiting)
                if now_ns is not None:
                    waits += self.lingering(waiting, now_ns)
                for wait in waits:
                    found.append(wait)
                    if len(found) == CHAIN_WAITS_MAX:
                        return found
                    if wait.cause is not None and wait.cause not in seen:
                        seen.add(wait.cause)
                        beyond.append(wait.cause)
            frontier = beyond
        return found

    def roots(self, subject: Subject) -> list[Wait]:
        """The waits at the ends of the chain: their cause waits for nobody, or there is none."""
        return [
            wait
            for wait in self.chain(subject)
            if wait.cause is None or wait.cause not in self._by_subject
        ]

    def count_by_reason(self) -> dict[Reason, int]:
        return {reason: total.running for reason, total in self._sums.items()}

    def total_ns_by_reason(self, now_ns: int) -> dict[Reason, int]:
        """Time waited so far by reason, the running waits included."""
        return {reason: total.total_ns(now_ns) for reason, total in self._sums.items()}


@dataclass(frozen=True)
class Words:
    """How one reason reads: the fact, and what to do about it."""

    fact: str
    advice: str


# `{subject}` and `{cause}` are put in by `explain`.
WORDS: Final[dict[Reason, Words]] = {
    Reason.CREDIT: Words(
        "{subject} has used up its credit for {cause} and sends nothing more until it grants some",
        "Messages come in faster than {cause} takes them: look at what it waits for in its turn;"
        " if nothing, it is the bottleneck.",
    ),
    Reason.ROUTING_BUSY: Words(
        "{subject} sends more than {cause} takes: the node's processor is busy all the time, with"
        " decoding and routing its messages",
        "Look at the exchange: fewer bindings, a simpler type, fewer distinct routing keys; or"
        " spread publishers and queues over nodes.",
    ),
    Reason.QUEUE_BUSY: Words(
        "{subject} sends more than {cause} takes: the node's processor is busy all the time, with"
        " accepting its messages and writing them down",
        "Fewer and larger messages, transient ones where that is enough, or queues on more nodes;"
        " a faster disk changes little.",
    ),
    Reason.PUBLISH_RATE: Words(
        "{subject} publishes more than {cause} may, and goes on as the limit allows",
        "Publish less, or raise the limit with set_user_limits or set_vhost_limits.",
    ),
    Reason.JOURNAL_FULL: Words(
        "{subject} has more octets waiting for the journal of {cause} than it may have",
        "The disk cannot keep up with the durable messages: publish less, or use a faster disk.",
    ),
    Reason.QUEUE_SUSPENDED: Words(
        "{subject} is suspended and takes no messages",
        "Resume the queue, or delete it if it is no longer wanted.",
    ),
    Reason.MEMORY_ALARM: Words(
        "{subject} published while {cause} is low on memory and is blocked until that ends",
        "Consume what is queued, shorten the queues, or raise the limit.",
    ),
    Reason.DISK_ALARM: Words(
        "{subject} published while {cause} is low on disk space and is blocked until that ends",
        "Free space on the partition of the data directory, or lower the limit.",
    ),
    Reason.PARKED_BUDGET: Words(
        "{subject} is blocked and has sent more than may be parked, so its socket is not read",
        "Its acknowledgements are not read either: publish and consume on separate connections.",
    ),
    Reason.OUTPUT_FULL: Words(
        "{subject} has output that the client does not read from its socket",
        "Look at the client and at the network to it; deliveries go on when it reads again.",
    ),
    Reason.PREFETCH_FULL: Words(
        "{subject} has as many unacknowledged messages as its prefetch allows",
        "Acknowledge sooner, add consumers, or raise the prefetch count of basic.qos.",
    ),
    Reason.METADATA_PENDING: Words(
        "{subject} waits until a change of definitions is stored",
        "If it lasts, look at the disk and at the other nodes of {cause}.",
    ),
    Reason.TX_COMMIT: Words(
        "{subject} waits until every queue has stored the messages of its transaction",
        "Publisher confirms do the same without stopping the channel.",
    ),
    Reason.HANDSHAKE: Words(
        "{subject} has not finished opening yet",
        "The client must send its next method within the time limit.",
    ),
    Reason.LOGIN_REFUSED: Words(
        "{subject} was refused at login and is closed after a pause that slows down guessing",
        "The log of the broker has the true reason of the refusal.",
    ),
}


def explain(wait: Wait) -> str:
    """Say in plain language what happens, what to do, and which setting decides."""
    words = WORDS[wait.reason]
    subject = str(wait.subject)
    cause = str(wait.cause) if wait.cause is not None else "the node"
    text = f"{words.fact}. {words.advice}".format(subject=subject, cause=cause)
    text = text[0].upper() + text[1:]
    if wait.detail:
        text += f" ({wait.detail})"
    if wait.setting:
        text += f" Setting: {wait.setting}."
    return text
