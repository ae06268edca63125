"""What queues do, said as plainly as it can be: lists of messages, and the rules about them.

Written from the behaviour specification; it knows nothing of the broker, and nothing is quick here.

What the rules leave open is not decided here but taken from what was seen: which of several equal
consumers is given a message (fairness is demanded), the order in which the targets of one message
get it, and which of several queues acts first after a step. `Model.settle` explains the deliveries
that were seen; one that is wrong, missing or too many is a `Mismatch`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from tests.model.queue_fact import (
    Consumer,
    Death,
    Entry,
    Letter,
    Out,
    Rules,
    Seen,
    Where,
    is_cycle,
    successor,
)
from tests.model.queue_state import Channel, Mismatch, Queue, is_it

MS: Final = 1_000_000
SECOND: Final = 1000 * MS
EXCHANGES: Final = ("", "amq.fanout", "amq.direct")


# What a client was told beside deliveries and confirms: where, method, some of its fields.
Reply = tuple[Where, str, dict[str, Any]]
Order = Callable[[str, tuple[str, ...]], list[str]]


class Model:
    """All queues of a vhost, and the channels that use them."""

    def __init__(self, now: int, order: Order) -> None:
        self.now = now
        # In which order the targets of a message get it: the rules do not say.
        self.target_order = order
        self.queues: dict[str, Queue] = {}
        self.channels: dict[Where, Channel] = {}
        self.bindings: set[tuple[str, str, str]] = set()
        self.serial = 0
        # Of the step under way.
        self.seen: list[Seen] = []
        self.told: list[Reply] = []
        self.answers: dict[Where, dict[int, bool]] = {}
        self.turns: list[str] = []
        self.dead: list[tuple[Queue, Letter, str]] = []
        self.burying = False
        self.acting: set[str] = set()
        # Messages that are on the disk only, by queue and place: nothing happens to them, nor
        # behind them, before the step is done otherwise.
        self.away: set[tuple[str, int]] = set()
        # Queues whose messages leave memory in the middle of the step: they drop nothing before
        # it is their turn.
        self.slow: frozenset[str] = frozenset()
        # What the step itself does is not done yet.
        self.turns_later = True

    def step(self, seen: Iterable[Seen], turns: list[str]) -> "Model":
        """Return a copy for the next step, which has to explain what was seen."""
        new = Model(self.now, self.target_order)
        new.queues = {name: queue.copy() for name, queue in self.queues.items()}
        new.channels = {where: channel.copy() for where, channel in self.channels.items()}
        new.bindings = set(self.bindings)
        new.serial = self.serial
        new.seen = list(seen)
        new.turns = turns
        return new

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def tell(self, where: Where, name: str, **fields: Any) -> None:
        self.told.append((where, name, fields))

    # -- who may take a message -----------------------------------------------------------------

    def able(self, consumer: Consumer) -> bool:
        """QO-1, QO-2, QO-4."""
        channel = self.channels[consumer.where]
        mine = sum(out.consumer == consumer.serial for out in channel.out.values())
        if consumer.limit and not consumer.no_ack and mine >= consumer.limit:
            return False
        return not channel.limit or len(channel.out) < channel.limit

    def candidates(self, queue: Queue) -> list[Consumer]:
        """CS-3, SA-1: who may be given the next message."""
        able = [
            consumer
            for consumer in queue.consumers
            if (not queue.rules.single or consumer.serial == queue.active) and self.able(consumer)
        ]
        best = max((consumer.priority for consumer in able), default=0)
        return [consumer for consumer in able if consumer.priority == best]

    def forget_unable(self) -> None:
        """Nothing is owed to a consumer that could not take a message in between."""
        for queue in self.queues.values():
            if any(queue.owed.values()):
                able = frozenset(each.serial for each in queue.consumers if self.able(each))
                queue.owed = {serial: others & able for serial, others in queue.owed.items()}

    def deliver(self, queue: Queue, entry: Entry) -> None:
        """Find who was given this message, and hold everything about it against the rules."""
        candidates = self.candidates(queue)
        tags = {(each.where, each.tag): each for each in queue.consumers}
        mine = [seen for seen in self.seen if (seen.where, seen.consumer_tag) in tags]
        if not mine:
            raise Mismatch(f"{queue.name}: nobody was given {entry}, but {candidates} could be")
        given = [seen for seen in mine if is_it(seen, entry, queue)]
        if not given:
            raise Mismatch(f"{queue.name}: {mine[0]} came instead of {entry}")
        seen = given[0]
        consumer = tags[seen.where, seen.consumer_tag]
        if seen != next(each for each in mine if each.where == seen.where):
            raise Mismatch(f"{queue.name}: {seen} came too late, as {entry}")
        self.seen.remove(seen)
        if consumer not in candidates:
            raise Mismatch(f"{queue.name}: {consumer} was given {seen}, not one of {candidates}")
        if owed := queue.owed.get(consumer.serial):
            raise Mismatch(f"{queue.name}: {consumer} was given {seen} again before {owed}")
        queue.ready.remove(entry)
        if not consumer.no_ack:
            out = Out(queue.name, queue.incarnation, entry, consumer.serial)
            self.channels[seen.where].out[seen.delivery_tag] = out
        last = consumer.serial
        queue.owed = {one: others - {last} for one, others in queue.owed.items()}
        queue.owed[last] = frozenset(each.serial for each in candidates) - {last}
        self.forget_unable()

    # -- what queues do by themselves -----------------------------------------------------------

    def settle(self) -> None:
        """Let every queue do what is to be done now, until nothing is left."""
        self.turns_later = False
        self.forget_unable()
        moved = True
        while moved:
            order = [name for name in self.turns if name in self.queues]
            order += [name for name in self.queues if name not in order]
            moved = False
            for name in order:
                # A queue that was unused for too long goes on the way.
                moved |= name in self.queues and self.act(self.queues[name])

    def explain(self, compare: Callable[["Model"], None], budget: list[int]) -> "Model | None":
        """Find an order of small things, of any queue each, that explains what was seen."""
        self.turns_later = False
        moved = False
        for name in self.queues:
            for whole in (True, False):
                budget[0] -= 1
                if budget[0] < 0:
                    return None
                new = self.fork()
                try:
                    new.forget_unable()
                    if not new.act_once(new.queues[name], whole):
                        break
                except Mismatch:
                    moved = True
                    continue
                moved = True
                found = new.explain(compare, budget)
                if found is not None:
                    return found
        if not moved:
            try:
                compare(self)
            except Mismatch:
                return None
            return self
        return None

    def fork(self) -> "Model":
        """Return a copy in the middle of a step."""
        new = self.step(self.seen, self.turns)
        new.told = list(self.told)
        new.answers = {where: dict(each) for where, each in self.answers.items()}
        new.away = set(self.away)
        new.slow = self.slow
        new.turns_later = self.turns_later
        return new

    def act_once(self, queue: Queue, whole: bool) -> bool:
        if queue.rules.expires_ms is not None and self.unused_at(queue) <= self.now:
            self.delete(queue)
            return True
        entry = self.next_here(queue)
        if entry is None:
            return self.bring(queue) if whole else self.bring_one(queue)
        if queue.rules.overflow == "drop-head" and queue.is_over(0, 0):
            queue.ready.remove(entry)
            self.drop(queue, entry.letter, "maxlen")
            return True
        if entry.expires is not None and entry.expires <= self.now:
            queue.ready.remove(entry)
            self.drop(queue, entry.letter, "expired")
            return True
        if self.candidates(queue):
            self.deliver(queue, entry)
            return True
        return False

    def next_here(self, queue: Queue) -> Entry | None:
        """The head, unless it is on the disk only."""
        entry = queue.head()
        if entry is None or (queue.name, entry.place) in self.away:
            return None
        return entry

    def bring(self, queue: Queue) -> bool:
        """Have what is away in memory; False if nothing was."""
        away = {each for each in self.away if each[0] == queue.name}
        self.away -= away
        return any((queue.name, entry.place) in away for entry in queue.ready)

    def bring_one(self, queue: Queue) -> bool:
        """Have the head in memory, if others are away as well."""
        away = [each for each in self.away if each[0] == queue.name]
        head = queue.head()
        if head is None or len(away) < 2:
            return False
        self.away.discard((queue.name, head.place))
        return True

    def act(self, queue: Queue) -> bool:
        """Do what one queue has to do; what comes of that does not make it begin again."""
        if queue.name in self.acting:
            return False
        self.acting.add(queue.name)
        moved = self.hand_out(queue)
        is_there = self.queues.get(queue.name) is queue
        if is_there and not self.turns_later and self.bring(queue):
            self.trim(queue)
            self.hand_out(queue)
            moved = True
        self.acting.discard(queue.name)
        return moved

    def hand_out(self, queue: Queue) -> bool:
        if queue.rules.expires_ms is not None and self.unused_at(queue) <= self.now:
            self.delete(queue)
            return True
        moved = self.expire(queue)
        while (entry := self.next_here(queue)) and self.candidates(queue):
            self.deliver(queue, entry)
            self.expire(queue)
            moved = True
        return moved

    def expire(self, queue: Queue) -> bool:
        """TT-3: only what stands at the head."""
        moved = False
        while (
            (entry := self.next_here(queue))
            and entry.expires is not None
            and entry.expires <= self.now
        ):
            queue.ready.remove(entry)
            self.drop(queue, entry.letter, "expired")
            moved = True
        return moved

    def unused_at(self, queue: Queue) -> int:
        """QD-7: when it will have been unused for its time; never, with consumers."""
        expires = queue.rules.expires_ms
        if expires is None or queue.consumers:
            return 1 << 62
        return queue.used + expires * MS

    def next_event(self, queue: Queue) -> int:
        head = queue.head()
        expires = head.expires if head is not None else None
        return min(self.unused_at(queue), 1 << 62 if expires is None else expires)

    def trim(self, queue: Queue) -> None:
        """LE-2."""
        while (
            queue.name not in self.slow
            and queue.rules.overflow == "drop-head"
            and queue.is_over(0, 0)
        ):
            entry = self.next_here(queue)
            if entry is None:
                break
            queue.ready.remove(entry)
            self.drop(queue, entry.letter, "maxlen")

    def enqueue(self, queue: Queue, letter: Letter) -> bool:
        """A publish or a dead letter comes to a queue; False if it is refused (LE-3)."""
        rules = queue.rules
        lives = [ttl for ttl in (rules.ttl_ms, letter.expiration) if ttl is not None]
        life = min(map(int, lives)) if lives else None
        if life == 0 or queue.is_over(1, letter.size):
            # Who has had room for it since has taken what waits.
            self.act(queue)
        if rules.overflow != "drop-head" and queue.is_over(1, letter.size):
            if rules.overflow == "reject-publish-dlx":
                self.die(queue, letter, "maxlen")
            return False
        expires = None if life is None else self.now + life * MS
        queue.places += 1
        entry = Entry(queue.places, letter, expires)
        queue.ready.append(entry)
        if len(queue.ready) == 1:
            if self.candidates(queue):
                self.deliver(queue, entry)
                return True
            if self.expire(queue):
                return True
        self.trim(queue)
        self.expire(queue)
        return True

    # -- death ----------------------------------------------------------------------------------

    def drop(self, queue: Queue, letter: Letter, reason: str) -> None:
        """A queue lets a message die; if it comes back at once, the queue is not done yet."""
        outermost = queue.name not in self.acting
        self.acting.add(queue.name)
        self.die(queue, letter, reason)
        if outermost:
            self.acting.discard(queue.name)

    def die(self, queue: Queue, letter: Letter, reason: str) -> None:
        """One death after the other, also those that come of it."""
        self.dead.append((queue, letter, reason))
        if not self.burying:
            self.burying = True
            while self.dead:
                self.bury(*self.dead.pop(0))
            self.burying = False

    def bury(self, queue: Queue, letter: Letter, reason: str) -> None:
        """DL-2 to DL-6."""
        rules = queue.rules
        if rules.dlx is None or rules.dlx not in EXCHANGES:
            return
        shown = (letter.key, *letter.cc)
        second = self.now // SECOND
        death = Death(queue.name, reason, 1, second, letter.exchange, shown, letter.expiration)
        first = letter.first or death
        earlier = [one for one in letter.deaths if (one.queue, one.reason) == (queue.name, reason)]
        others = tuple(one for one in letter.deaths if one not in earlier)
        if earlier:
            death = replace(earlier[0], count=earlier[0].count + 1)
        risen = replace(
            letter, exchange=rules.dlx, expiration=None, deaths=(death, *others), first=first
        )
        if rules.dlk is not None:
            risen = replace(risen, key=rules.dlk, cc=(), bcc=())
        for name in self.targets(rules.dlx, risen.keys()):
            if reason == "rejected" or not is_cycle(risen.deaths, name):
                self.enqueue(self.queues[name], risen)

    def targets(self, exchange: str, keys: tuple[str, ...]) -> list[str]:
        """The queues a message goes to, each once (XC-8)."""
        if exchange == "":
            found = {key for key in keys if key in self.queues}
        else:
            found = {
                queue
                for source, queue, key in self.bindings
                if source == exchange and (exchange == "amq.fanout" or key in keys)
            }
        if len(found) < 2:
            return list(found)
        order = self.target_order(exchange, keys)
        if sorted(order) != sorted(found):
            raise Mismatch(f"{exchange!r} leads {keys} to {order}, not to {found}")
        return order

    # -- coming and going -----------------------------------------------------------------------

    def requeue(self, outs: Iterable[Out]) -> None:
        """AK-2, AK-3: back to the old places, or too often (6.9)."""
        groups: dict[int, list[Out]] = {}
        for out in outs:
            groups.setdefault(out.incarnation, []).append(out)
        for group in groups.values():
            queue = self.queues.get(group[0].queue)
            if queue is None or queue.incarnation != group[0].incarnation:
                continue
            for out in group:
                entry = replace(out.entry, again=True, returns=out.entry.returns + 1)
                limit = queue.rules.limit
                if limit is not None and entry.returns > limit:
                    self.drop(queue, entry.letter, "delivery_limit")
                else:
                    queue.ready.append(entry)
            self.trim(queue)
            self.expire(queue)

    def remove_consumer(self, consumer: Consumer) -> None:
        """QD-6, SA-1."""
        queue = self.queues[consumer.queue]
        queue.consumers.remove(consumer)
        self.channels[consumer.where].consumers.pop(consumer.tag)
        queue.owed.pop(consumer.serial, None)
        if queue.active == consumer.serial:
            queue.active = successor(queue.consumers)
        if not queue.consumers:
            queue.used = self.now
            if queue.rules.auto_delete:
                self.delete(queue)

    def stop_consuming(self, where: Where) -> None:
        for consumer in list(self.channels[where].consumers.values()):
            self.remove_consumer(consumer)

    def end_channel(self, where: Where) -> None:
        """EX-2, RC-2."""
        channel = self.channels[where]
        outs = list(channel.out.values())
        channel.out = {}
        self.stop_consuming(where)
        self.requeue(outs)
        self.channels[where] = Channel(channel.confirms)

    def delete(self, queue: Queue) -> None:
        """QD-8, CS-5."""
        for consumer in queue.consumers:
            self.tell(consumer.where, "basic.cancel", consumer_tag=consumer.tag)
            del self.channels[consumer.where].consumers[consumer.tag]
        del self.queues[queue.name]
        self.bindings = {each for each in self.bindings if each[1] != queue.name}

    # -- what clients do ------------------------------------------------------------------------

    def fail(self, where: Where, code: int) -> None:
        self.end_channel(where)
        self.tell(where, "channel.close", reply_code=code)

    def declare(self, where: Where, name: str, rules: Rules) -> None:
        """QD-5, QD-7: also a use of the queue."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, self.next_serial(), rules, self.now)
        queue.used = self.now
        ready, consumers = len(queue.ready), len(queue.consumers)
        counts = {"message_count": ready, "consumer_count": consumers}
        self.tell(where, "queue.declare-ok", queue=name, **counts)

    def publish(self, where: Where, letter: Letter, *, mandatory: bool) -> bool:
        """PB-3, CO-2, CO-3, LE-5; True if nobody refused it."""
        targets = self.targets(letter.exchange, letter.keys())
        if mandatory and not targets:
            told = {"exchange": letter.exchange, "routing_key": letter.key, "size": letter.size}
            properties = letter.properties({})
            self.tell(where, "basic.return", reply_code=312, properties=properties, **told)
        answers = [self.enqueue(self.queues[name], letter) for name in targets]
        taken = all(answers)
        channel = self.channels[where]
        if channel.confirms:
            channel.published += 1
            self.answers.setdefault(where, {})[channel.published] = taken
        return taken

    def get(self, where: Where, name: str, tag: int, *, no_ack: bool) -> None:
        """GT-1."""
        queue = self.queues[name]
        queue.used = self.now
        self.expire(queue)
        if queue.ready and self.next_here(queue) is None:
            # The client waits until the message is in memory.
            self.bring(queue)
            self.expire(queue)
        entry = queue.head()
        if entry is None:
            self.tell(where, "basic.get-empty")
            return
        queue.ready.remove(entry)
        counted = queue.rules.quorum or queue.rules.limit is not None
        letter = entry.letter
        self.tell(
            where,
            "basic.get-ok",
            delivery_tag=tag,
            redelivered=entry.again,
            exchange=letter.exchange,
            routing_key=letter.key,
            message_count=len(queue.ready),
            properties=letter.properties({"x-delivery-count": entry.returns} if counted else {}),
            size=letter.size,
        )
        if not no_ack:
            self.channels[where].out[tag] = Out(name, queue.incarnation, entry, 0)

    def consume(
        self, where: Where, name: str, tag: str, *, no_ack: bool, exclusive: bool, priority: int
    ) -> None:
        """CS-1, CS-2, SA-1."""
        queue, channel = self.queues[name], self.channels[where]
        if queue.exclusive() or (exclusive and (queue.consumers or queue.rules.single)):
            self.fail(where, 403)
            return
        limit = channel.prefetch
        serial = self.next_serial()
        consumer = Consumer(serial, where, tag, name, no_ack, exclusive, priority, limit)
        queue.consumers.append(consumer)
        channel.consumers[tag] = consumer
        queue.active = queue.active or serial
        self.tell(where, "basic.consume-ok", consumer_tag=tag)

    def qos(self, where: Where, count: int, *, whole_channel: bool) -> None:
        """QO-1 to QO-3."""
        channel = self.channels[where]
        if whole_channel:
            channel.limit = count
        else:
            channel.prefetch, channel.limit = count, 0
        self.tell(where, "basic.qos-ok")

    def finish(self, where: Where, tags: Iterable[int], verb: str) -> None:
        """AK-1 to AK-3, DL-1: the room is given back before anything comes of it."""
        out = self.channels[where].out
        settled = [out.pop(tag) for tag in tags]
        if verb == "requeue":
            self.requeue(settled)
        elif verb == "drop":
            for each in settled:
                if self.is_there(each):
                    self.die(self.queues[each.queue], each.entry.letter, "rejected")

    def purge(self, where: Where, name: str) -> None:
        ready = self.queues[name].ready
        self.tell(where, "queue.purge-ok", message_count=len(ready))
        ready.clear()

    def remove(self, where: Where, name: str, *, if_unused: bool, if_empty: bool) -> None:
        queue = self.queues.get(name)
        if queue is None:
            self.tell(where, "queue.delete-ok", message_count=0)
        elif (if_unused and queue.consumers) or (if_empty and queue.ready):
            self.fail(where, 406)
        else:
            self.tell(where, "queue.delete-ok", message_count=len(queue.ready))
            self.delete(queue)

    # -- what a node does ------------------------------------------------------------------------

    def restart(self, *, clean: bool) -> None:
        """IX-14 to IX-17: what is persistent in durable queues is there, in order.

        Nobody is connected; before a clean stop all clients have gone.
        """
        for queue in list(self.queues.values()):
            if not (queue.rules.durable or queue.rules.quorum):
                queue.consumers = []
                self.delete(queue)
                continue
            outs = [out for each in self.channels.values() for out in each.out.values()]
            entries = queue.ready + [out.entry for out in outs if self.is_of(out, queue)]
            queue.ready = sorted(
                (
                    # A count of returns is not stored.
                    replace(entry, again=entry.again or not clean, returns=0)
                    for entry in entries
                    if entry.letter.persistent
                ),
                key=lambda entry: entry.place,
            )
            queue.consumers, queue.owed, queue.active = [], {}, 0
            queue.used = self.now
        for where, channel in self.channels.items():
            self.channels[where] = Channel(channel.confirms)
        for name in [*self.turns, *self.queues]:
            if name in self.queues:
                self.trim(self.queues[name])

    def is_of(self, out: Out, queue: Queue) -> bool:
        return out.queue == queue.name and out.incarnation == queue.incarnation

    def is_there(self, out: Out) -> bool:
        queue = self.queues.get(out.queue)
        return queue is not None and queue.incarnation == out.incarnation
