"""Dead letters: where a message goes that died in a queue, and what is written on it (DL-*).

A dead message is published anew to the dead-letter exchange of its queue: same body, properties
without expiration, a header x-death that tells its deaths. It is routed like any publish, but
never back into a queue it died in without having been rejected on the way (DL-6).

A burial may lead to another one: a dead letter that overflows the queue it comes to. These wait
in `waiting` and are done one after the other, so that a chain of queues is a loop, not a
recursion. What is written on a run of equal messages is made once.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocol.properties import (
    P_EXPIRATION,
    P_HEADERS,
    P_ROUTED_HEADERS,
    expiration_of,
    readable_headers_of,
    sorted_table,
    with_headers,
    without_expiration,
)
from warren.protocol.value import ARRAY, LONG_STRING, TABLE, Field, Table
from warren.queues import Message, Queue, QueueKeeper, QueueRef, compose_tail
from warren.queues.deduplication import DEATH_HEADER, P_DIED
from warren.queues.outlet import ConsumerOwner
from warren.queues.ruled import COUNT_HEADER, P_COUNTED
from warren.queues.rules import DEATHS, REJECTED

if TYPE_CHECKING:
    from warren.vhost.vhost import VHost

FIRST_DEATH: Final = "x-first-death-"
SECOND_NS: Final = 1_000_000_000
_TIMESTAMP: Final = ord("T")
_SIGNED_LONG: Final = ord("l")
# Cycles that were logged; then the list begins anew.
CYCLES_MAX: Final = 1000
COUNT_MAX: Final = (1 << 63) - 1


@final
class Dead:
    """A message that waits to be buried."""

    def __init__(self, queue: Queue, message: Message, reason: i64) -> None:
        self.queue = queue
        self.message = message
        self.reason = reason


@final
class Epitaph:
    """What is written on a dead message: its new properties, keys, and where it died so far."""

    def __init__(
        self, tail: bytes, props: bytes, keys: list[bytes], headers: Table, deaths: list[Field]
    ) -> None:
        self.tail = tail
        self.props = props
        self.keys = keys
        self.headers = headers
        self.deaths = deaths


@final
class DeadLetters(QueueKeeper):
    """Keeps the queues of one vhost."""

    def __init__(self, vhost: "VHost") -> None:
        super().__init__()
        self.vhost = vhost
        self.waiting: list[Dead] = []
        self.busy = False
        self.cycles: set[tuple[str, str]] = set()
        # The last epitaph, and what it was made for.
        self.last: Epitaph | None = None
        self.last_queue: Queue | None = None
        self.last_message_props = b""
        self.last_message_tail = b""
        self.last_hidden: list[bytes] | None = None
        self.last_reason: i64 = -1
        self.last_second: i64 = -1
        self.last_rules: object = None
        self.last_bits: i64 = 0

    def retire(self, queue: Queue) -> None:
        self.vhost.broker.log.event(
            "info", "queue.expired", {"queue": queue.name, "vhost": queue.vhost}
        )
        self.vhost.delete_queue(queue)

    def keys_full(self, queue: Queue) -> None:
        fields: dict[str, object] = {"queue": queue.name, "vhost": queue.vhost}
        fields["keys"] = int(queue.rules.deduplicate_keys_max)
        self.vhost.broker.log.event("warning", "queue.deduplication_full", fields)

    def handed_out(
        self, queue: Queue, owner: ConsumerOwner | None, message: Message, again: bool
    ) -> None:
        tracer = self.vhost.tracer
        if tracer is not None and owner is not None:
            tracer.delivered(owner.party(), queue, message, again)

    def bury(self, queue: Queue, message: Message, reason: i64) -> None:
        if self.busy:
            self.waiting.append(Dead(queue, message, reason))
            return
        self.busy = True
        try:
            self._bury(queue, message, reason)
            done = 0
            while done < len(self.waiting):
                dead = self.waiting[done]
                done += 1
                self._bury(dead.queue, dead.message, dead.reason)
        finally:
            if self.waiting:
                self.waiting = []
            self.busy = False

    def _bury(self, queue: Queue, message: Message, reason: i64) -> None:
        name = queue.rules.dead_letter_exchange
        routing = self.vhost.routing
        exchange = None if name is None else routing.exchanges.get(name)
        if exchange is None:
            # DL-2: looked up when a message dies; without it the message is dropped.
            return
        totals = self.vhost.broker.totals
        totals.dead_lettered[reason] += 1
        epitaph = self._epitaph(queue, message, reason)
        keys = epitaph.keys
        sinks = routing.route(
            exchange, keys[0], keys[1:] if len(keys) > 1 else None, epitaph.headers, epitaph.props
        )
        if not sinks:
            return
        traits = (message.traits & ~(P_EXPIRATION | P_COUNTED)) | P_HEADERS | P_DIED
        letter = Message(
            epitaph.tail,
            epitaph.props,
            message.body,
            message.more,
            message.size,
            traits,
            0,
            message.hidden_keys if queue.rules.dead_letter_key is None else None,
        )
        letter.place = message.place
        # The list of routes is shared with the next one: publishing may lead to another burial.
        for sink in list(sinks):
            if reason != REJECTED and self._is_cycle(epitaph, sink.name):
                self._note_cycle(queue, sink.name)
                continue
            target = sink.target
            assert isinstance(target, QueueRef)
            target.publish(letter, None, 0)

    # -- what is written -----------------------------------------------------------------------

    def _epitaph(self, queue: Queue, message: Message, reason: i64) -> Epitaph:
        second = self.vhost.broker.clock.wall_ns() // SECOND_NS
        last = self.last
        bits = message.traits & (P_DIED | P_COUNTED)
        if (
            last is not None
            and self.last_queue is queue
            and self.last_rules is queue.rules
            and self.last_reason == reason
            and self.last_second == second
            and self.last_message_props is message.props
            and self.last_message_tail == message.tail
            and self.last_hidden is message.hidden_keys
            and self.last_bits == bits
        ):
            return last
        made = self._write(queue, message, reason, int(second))
        self.last = made
        self.last_queue = queue
        self.last_rules = queue.rules
        self.last_reason = reason
        self.last_second = second
        self.last_message_props = message.props
        self.last_message_tail = message.tail
        self.last_hidden = message.hidden_keys
        self.last_bits = bits
        return made

    def _write(self, queue: Queue, message: Message, reason: i64, second: int) -> Epitaph:
        headers = readable_headers_of(message.props)
        if message.traits & P_COUNTED:
            headers.pop(COUNT_HEADER, None)
        copied = _strings(headers, "CC") if message.traits & P_ROUTED_HEADERS else []
        key = message.routing_key()
        entry = _entry(queue.name, DEATHS[reason], message, [key, *copied], second)
        deaths = self._deaths(headers, message, entry)
        headers[DEATH_HEADER] = Field(ARRAY, deaths)
        rules = queue.rules
        if rules.dead_letter_key is not None:
            keys = [rules.dead_letter_key.encode()]
            headers.pop("CC", None)
        else:
            keys = [key, *copied, *(message.hidden_keys or [])]
        props = with_headers(message.props, sorted_table(headers))
        if message.traits & P_EXPIRATION:
            props = without_expiration(props)
        name = rules.dead_letter_exchange or ""
        return Epitaph(compose_tail(name.encode(), keys[0]), props, keys, headers, deaths)

    def _deaths(self, headers: Table, message: Message, entry: Table) -> list[Field]:
        """The deaths of a message, newest first, with this one; DL-4 and DL-5."""
        item = headers.get(DEATH_HEADER)
        foreign = not message.traits & P_DIED and not self.vhost.broker.count_continues
        if item is None or foreign:
            for part in ("reason", "queue", "exchange"):
                headers[FIRST_DEATH + part] = entry[part]
            return [Field(TABLE, entry)]
        if item.kind != ARRAY or not isinstance(item.value, list):
            self.vhost.broker.log.event(
                "warning",
                "dead_letter.bad_header",
                {"vhost": self.vhost.name, "queue": _text(entry["queue"])},
            )
            return [Field(TABLE, entry)]
        kept: list[Field] = []
        same: Table | None = None
        for each in item.value:
            past = each.value
            if (
                same is None
                and isinstance(past, dict)
                and past.get("queue") == entry["queue"]
                and past.get("reason") == entry["reason"]
            ):
                same = past
            else:
                kept.append(each)
        if same is None:
            return [Field(TABLE, entry), *kept]
        count = same.get("count")
        # What a client wrote there may be missing, or as large as it gets.
        times = count.value if count is not None and isinstance(count.value, int) else 0
        again: Table = dict(same)
        again["count"] = Field(_SIGNED_LONG, min(times + 1, COUNT_MAX))
        return [Field(TABLE, sorted_table(again)), *kept]

    # -- cycles --------------------------------------------------------------------------------

    def _is_cycle(self, epitaph: Epitaph, target: str) -> bool:
        """Whether a message died in this queue before and was not rejected since (DL-6)."""
        for death in epitaph.deaths:
            past = death.value
            if not isinstance(past, dict):
                continue
            reason = past.get("reason")
            where = past.get("queue")
            if reason is None or where is None:
                # Nothing that we wrote.
                continue
            if reason.value == b"rejected":
                return False
            if where.value == target.encode():
                return True
        return False

    def _note_cycle(self, queue: Queue, target: str) -> None:
        cycle = (queue.name, target)
        if cycle in self.cycles:
            return
        if len(self.cycles) >= CYCLES_MAX:
            self.cycles.clear()
        self.cycles.add(cycle)
        self.vhost.broker.log.event(
            "warning",
            "dead_letter.cycle",
            {"vhost": self.vhost.name, "queue": queue.name, "target": target},
        )


def _entry(queue: str, reason: str, message: Message, keys: list[bytes], second: int) -> Table:
    entry: Table = {
        "count": Field(_SIGNED_LONG, 1),
        "reason": Field(LONG_STRING, reason.encode()),
        "queue": Field(LONG_STRING, queue.encode()),
        "time": Field(_TIMESTAMP, second),
        "exchange": Field(LONG_STRING, message.exchange()),
        "routing-keys": Field(ARRAY, [Field(LONG_STRING, key) for key in keys]),
    }
    if message.traits & P_EXPIRATION:
        text = expiration_of(message.props) or ""
        entry["original-expiration"] = Field(LONG_STRING, text.encode())
    return entry


def _strings(headers: Table, name: str) -> list[bytes]:
    item = headers.get(name)
    if item is None or not isinstance(item.value, list):
        return []
    return [
        entry.value
        for entry in item.value
        if isinstance(entry, Field) and isinstance(entry.value, bytes)
    ]


def _text(item: Field) -> str:
    return item.value.decode("utf-8", "replace") if isinstance(item.value, bytes) else ""
