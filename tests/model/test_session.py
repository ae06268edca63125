"""Random clients of one broker against a model of what a broker is: lists of messages.

Each message has a number; bodies begin with it. A step is one thing that one client does, then the
turn ends, and everything that every client was sent is compared: nothing lost, nothing twice, order
per queue, the redelivered flag, returns, confirms, counts. Which of several consumers gets a
message is not the model's affair; that none who could take one is left out is.
"""

import os
import random
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.fuzz.target import pieces
from tests.support.machine import Machine, Peer, method, publish

SEQUENCES: Final = int(os.environ.get("WARREN_MODEL_SEQUENCES", "300"))
QUEUES: Final = ("q0", "q1", "q2")
KEYS: Final = ("k0", "k1")
FRAME_MAX: Final = 4096
CLIENTS: Final = 3
# What the channels of each client are for: acks as they come, confirms, transactions.
PLAIN, CONFIRM, TX = 1, 2, 3


@dataclass
class Out:
    """A message that is out: on which queue, and through which consumer."""

    queue: str
    number: int
    tag: str


@dataclass
class ModelChannel:
    """What the model knows of one channel."""

    out: dict[int, Out] = field(default_factory=dict)
    consumers: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    confirmed: int = 0
    published: int = 0
    publishes: list[tuple[int, list[str]]] = field(default_factory=list)
    settled: list[tuple[dict[int, Out], str]] = field(default_factory=list)

    def held(self, tag: str) -> int:
        """What counts against a consumer's limit: also what a transaction has settled."""
        every = [*self.out.values(), *(out for group, _ in self.settled for out in group.values())]
        return sum(out.tag == tag for out in every)


class Clients(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.number = 0
        # By queue: what is ready, and whether it was handed out before.
        self.ready: dict[str, dict[int, bool]] = {}
        # The place of each message on a queue; those of a transaction get theirs at its commit.
        self.places: dict[tuple[str, int], int] = {}
        self.bindings: set[tuple[str, str, str]] = set()
        self.peers: list[Peer] = []
        self.channels: dict[tuple[int, int], ModelChannel] = {}
        for _ in range(CLIENTS):
            self.peers.append(self.connect())
        for name in QUEUES:
            self.declare(0, name)
        self.consume(0, PLAIN, "q0", "a", 1, False)
        self.consume(1, TX, "q0", "a", 3, False)
        self.consume(2, PLAIN, "q1", "a", 0, False)
        self.bind("q1", "amq.fanout", "k0", False)
        self.bind("q2", "amq.fanout", "k0", False)

    def connect(self) -> Peer:
        peer = self.machine.client(frame_max=FRAME_MAX)
        place = len(self.peers)
        self.adopt(place, peer)
        return peer

    def adopt(self, place: int, peer: Peer) -> None:
        for number in (PLAIN, CONFIRM, TX):
            self.open(place, peer, number)

    def open(self, place: int, peer: Peer, number: int) -> None:
        peer.channel(number)
        if number == CONFIRM:
            assert peer.call(number, "confirm.select").name == "confirm.select-ok"
        if number == TX:
            assert peer.call(number, "tx.select").name == "tx.select-ok"
        self.channels[place, number] = ModelChannel()

    # What clients do.

    @rule(seed=st.integers(0, 1 << 32))
    def many_things(self, seed: int) -> None:
        """A run of steps in one: long sessions are what finds something."""
        chance = random.Random(seed)
        for _ in range(20):
            self.one_thing(chance)
            self.confirms_are_complete()
            self.counts_agree()
            self.nothing_else_came()

    def one_thing(self, chance: random.Random) -> None:
        place, number = chance.randrange(CLIENTS), chance.choice((PLAIN, PLAIN, CONFIRM, TX))
        name, tag = chance.choice(QUEUES), chance.choice("ab")
        what = chance.randrange(22)
        if what < 6:
            size, mandatory = chance.choice((10, 10, 100, 4089, 9000)), chance.random() < 0.2
            exchange = chance.choice(("", "", "", "amq.fanout", "amq.direct"))
            key = chance.choice(KEYS) if exchange == "amq.direct" else name
            count, way = chance.randrange(1, 5), chance.randrange(16)
            self.publish(place, number, exchange, key, mandatory, size, count, way)
        elif what < 14:
            holders = [key for key, each in self.channels.items() if each.out]
            place, number = chance.choice(holders) if holders else (place, number)
            verb, which = chance.choice(("ack", "requeue", "drop")), chance.randrange(100)
            self.settle(place, number, which, verb, chance.random() < 0.3, chance.random() < 0.3)
        elif what < 16:
            self.end_transaction(place, chance.random() < 0.6)
        elif what == 16:
            self.consume(place, number, name, tag, chance.randrange(4), chance.random() < 0.2)
        elif what == 17:
            self.get(place, number, name, chance.random() < 0.3)
        elif what == 18:
            chance.choice((self.cancel_at, self.recover, self.cancel_at))(place, number)
        elif what == 19:
            self.bind(name, chance.choice(("amq.direct", "amq.fanout")), chance.choice(KEYS), False)
        elif chance.random() < 0.2:
            self.close_channel(place, number, chance.random() < 0.5)
        elif chance.random() < 0.2:
            self.close_connection(place, chance.random() < 0.5, chance.random() < 0.5)
        elif chance.random() < 0.2:
            self.delete(place, name, 0)
            self.declare(place, name)

    def cancel_at(self, place: int, number: int) -> None:
        self.cancel(place, number, "a")

    @rule(
        place=st.integers(0, CLIENTS - 1),
        number=st.sampled_from((PLAIN, CONFIRM, TX)),
        exchange=st.sampled_from(("", "", "amq.direct", "amq.fanout")),
        key=st.sampled_from((*QUEUES, *KEYS, "nowhere")),
        mandatory=st.booleans(),
        size=st.sampled_from((10, 10, 10, 100, 4088, 4089, 9000, 20_000)),
        count=st.integers(1, 4),
        way=st.integers(0, 15),
    )
    def publish(
        self,
        place: int,
        number: int,
        exchange: str,
        key: str,
        mandatory: bool,
        size: int,
        count: int,
        way: int,
    ) -> None:
        peer, channel = self.peers[place], self.channels[place, number]
        targets = self.route(exchange, key)
        sent, returned = [], []
        for _ in range(count):
            self.number += 1
            body = b"%08d" % self.number + b"." * (size - 8)
            options: dict[str, Any] = {"exchange": exchange, "mandatory": mandatory}
            sent.append(publish(number, body, key, frame_max=FRAME_MAX, **options))
            if number == TX:
                channel.publishes.append((self.number, targets))
                continue
            channel.published += 1
            for queue in targets:
                self.enqueue(queue, self.number)
            if mandatory and not targets:
                returned.append(self.number)
        if number == TX and mandatory and not targets:
            # Returns of a transaction come at its commit; the model has none that are mandatory.
            del channel.publishes[-count:]
            return
        data = b"".join(sent)
        peer.feed(*pieces(data, 0 if len(data) > 5000 and way == 1 else way))
        back = peer.take_all("basic.return", number)
        assert [int(event.body[:8]) for event in back] == returned
        assert all(len(event.body) == size for event in back)
        self.compare()

    def enqueue(self, queue: str, number: int) -> None:
        self.ready[queue][number] = False
        self.places[queue, number] = len(self.places)

    def in_order(self, queue: str) -> list[int]:
        return sorted(self.ready[queue], key=lambda number: self.places[queue, number])

    def route(self, exchange: str, key: str) -> list[str]:
        if exchange == "":
            return [key] if key in self.ready else []
        return sorted(
            {
                queue
                for source, queue, bound in self.bindings
                if source == exchange and (exchange == "amq.fanout" or bound == key)
            }
        )

    @rule(place=st.integers(0, CLIENTS - 1), name=st.sampled_from(QUEUES))
    def declare(self, place: int, name: str) -> None:
        answer = self.peers[place].call(PLAIN, "queue.declare", queue=name)
        waiting = self.ready.setdefault(name, {})
        assert answer.message_count == len(waiting)
        assert answer.consumer_count == sum(
            queue == name for each in self.channels.values() for queue in each.consumers.values()
        )

    @rule(
        name=st.sampled_from(QUEUES),
        exchange=st.sampled_from(("amq.direct", "amq.fanout")),
        key=st.sampled_from(KEYS),
        gone=st.sampled_from((False, False, True)),
    )
    def bind(self, name: str, exchange: str, key: str, gone: bool) -> None:
        if name not in self.ready:
            return
        verb = "queue.unbind" if gone else "queue.bind"
        answer = self.peers[1].call(PLAIN, verb, queue=name, exchange=exchange, routing_key=key)
        assert answer.name == verb + "-ok"
        (self.bindings.discard if gone else self.bindings.add)((exchange, name, key))

    @rule(place=st.integers(0, CLIENTS - 1), name=st.sampled_from(QUEUES))
    def purge(self, place: int, name: str) -> None:
        if name in self.ready:
            answer = self.peers[place].call(PLAIN, "queue.purge", queue=name)
            assert answer.message_count == len(self.ready[name])
            self.ready[name].clear()

    @rule(place=st.integers(0, CLIENTS - 1), name=st.sampled_from(QUEUES), sure=st.integers(0, 3))
    def delete(self, place: int, name: str, sure: int) -> None:
        if sure:
            return
        waiting = self.ready.pop(name, {})
        answer = self.peers[place].call(PLAIN, "queue.delete", queue=name)
        assert answer.message_count == len(waiting)
        self.bindings = {each for each in self.bindings if each[1] != name}
        for (owner, number), channel in self.channels.items():
            cut = sorted(tag for tag, queue in channel.consumers.items() if queue == name)
            told = self.peers[owner].take_all("basic.cancel", number)
            assert sorted(event.consumer_tag for event in told) == cut
            for tag in cut:
                del channel.consumers[tag]
            for group in [channel.out, *(group for group, _ in channel.settled)]:
                for out in group.values():
                    if out.queue == name:
                        out.queue = f"an earlier {name}"
            channel.publishes = [
                (each, [queue for queue in targets if queue != name])
                for each, targets in channel.publishes
            ]
        self.compare()

    @rule(
        place=st.integers(0, CLIENTS - 1),
        number=st.sampled_from((PLAIN, CONFIRM, TX)),
        name=st.sampled_from(QUEUES),
        tag=st.sampled_from(("a", "b")),
        prefetch=st.sampled_from((0, 1, 3)),
        no_ack=st.booleans(),
    )
    def consume(
        self, place: int, number: int, name: str, tag: str, prefetch: int, no_ack: bool
    ) -> None:
        channel, peer = self.channels[place, number], self.peers[place]
        if name not in self.ready or tag in channel.consumers:
            return
        if any(out.tag == tag for group in channel.settled for out in group[0].values()):
            return
        if any(out.tag == tag for out in channel.out.values()):
            return
        qos = peer.call(number, "basic.qos", prefetch_count=prefetch)
        assert qos.name == "basic.qos-ok"
        peer.send(number, "basic.consume", queue=name, consumer_tag=tag, no_ack=no_ack)
        assert peer.take(number, "basic.consume-ok").consumer_tag == tag
        channel.consumers[tag] = name
        channel.limits[tag] = -1 if no_ack else prefetch
        self.compare()

    @rule(place=st.integers(0, CLIENTS - 1), number=st.sampled_from((PLAIN, CONFIRM, TX)),
          tag=st.sampled_from(("a", "b")))  # fmt: skip
    def cancel(self, place: int, number: int, tag: str) -> None:
        answer = self.peers[place].call(number, "basic.cancel", consumer_tag=tag)
        assert answer.name == "basic.cancel-ok"
        self.channels[place, number].consumers.pop(tag, None)

    @rule(place=st.integers(0, CLIENTS - 1), number=st.sampled_from((PLAIN, CONFIRM, TX)),
          name=st.sampled_from(QUEUES), no_ack=st.booleans())  # fmt: skip
    def get(self, place: int, number: int, name: str, no_ack: bool) -> None:
        if name not in self.ready:
            return
        got = self.peers[place].call(number, "basic.get", queue=name, no_ack=no_ack)
        waiting = self.ready[name]
        if not waiting:
            assert got.name == "basic.get-empty"
            return
        oldest = self.in_order(name)[0]
        assert (int(got.body[:8]), got.redelivered) == (oldest, waiting.pop(oldest))
        assert got.message_count == len(waiting)
        if not no_ack:
            self.channels[place, number].out[got.delivery_tag] = Out(name, oldest, "")

    @rule(
        place=st.integers(0, CLIENTS - 1),
        number=st.sampled_from((PLAIN, CONFIRM, TX)),
        which=st.integers(0, 100),
        verb=st.sampled_from(("ack", "ack", "requeue", "drop")),
        multiple=st.booleans(),
        every=st.booleans(),
    )
    def settle(
        self, place: int, number: int, which: int, verb: str, multiple: bool, every: bool
    ) -> None:
        channel = self.channels[place, number]
        if not channel.out:
            return
        tags = sorted(channel.out)
        tag = tags[which % len(tags)]
        chosen = [each for each in tags if each <= tag] if multiple else [tag]
        if multiple and every:
            tag, chosen = 0, tags
        arguments = {"delivery_tag": tag, "multiple": multiple}
        if verb != "ack":
            arguments["requeue"] = verb == "requeue"
        group = {each: channel.out.pop(each) for each in chosen}
        if number == TX:
            channel.settled.append((group, verb))
        elif verb == "requeue":
            self.put_back(group)
        self.peers[place].send(number, "basic.ack" if verb == "ack" else "basic.nack", **arguments)
        self.compare()

    def put_back(self, group: dict[int, Out]) -> None:
        for out in group.values():
            if out.queue in self.ready:
                self.ready[out.queue][out.number] = True

    @rule(place=st.integers(0, CLIENTS - 1), number=st.sampled_from((PLAIN, CONFIRM, TX)))
    def recover(self, place: int, number: int) -> None:
        channel = self.channels[place, number]
        self.put_back(channel.out)
        channel.out = {}
        self.peers[place].send(number, "basic.recover", requeue=True)
        assert len(self.peers[place].take_all("basic.recover-ok", number)) == 1
        self.compare()

    @rule(place=st.integers(0, CLIENTS - 1), commit=st.booleans())
    def end_transaction(self, place: int, commit: bool) -> None:
        channel, peer = self.channels[place, TX], self.peers[place]
        peer_verb = "tx.commit" if commit else "tx.rollback"
        if commit:
            for number, targets in channel.publishes:
                for queue in targets:
                    if queue in self.ready:
                        self.enqueue(queue, number)
            for group, verb in channel.settled:
                if verb == "requeue":
                    self.put_back(group)
        else:
            for group, _ in channel.settled:
                channel.out.update(group)
        channel.publishes, channel.settled = [], []
        peer.send(TX, peer_verb)
        assert len(peer.take_all(peer_verb + "-ok", TX)) == 1
        # What a commit publishes may be handed out before what it returns is there again.
        self.compare(ordered=not commit)

    @rule(place=st.integers(0, CLIENTS - 1), number=st.sampled_from((PLAIN, CONFIRM, TX)),
          failing=st.booleans())  # fmt: skip
    def close_channel(self, place: int, number: int, failing: bool) -> None:
        peer = self.peers[place]
        self.forget(place, number)
        if failing:
            peer.send(number, "basic.reject", delivery_tag=1 << 40)
            assert len(peer.take_all("channel.close", number)) == 1
            peer.send(number, "channel.close-ok")
        else:
            peer.send(number, "channel.close")
            assert len(peer.take_all("channel.close-ok", number)) == 1
        self.open(place, peer, number)
        self.compare()

    @rule(place=st.integers(0, CLIENTS - 1), orderly=st.booleans(), midway=st.booleans())
    def close_connection(self, place: int, orderly: bool, midway: bool) -> None:
        peer = self.peers[place]
        if midway:
            peer.feed(publish(PLAIN, b"x" * 9000, "q0", frame_max=FRAME_MAX)[:5000])
        for number in (PLAIN, CONFIRM, TX):
            self.forget(place, number)
        if orderly and not midway:
            peer.feed(method(0, "connection.close"))
        peer.drop()
        self.machine.turn()
        fresh = self.machine.client(frame_max=FRAME_MAX)
        self.peers[place] = fresh
        self.adopt(place, fresh)
        self.compare()

    def forget(self, place: int, number: int) -> None:
        """A channel ends: what it held goes back, its transaction is rolled back."""
        channel = self.channels[place, number]
        for group in [channel.out, *(group for group, _ in channel.settled)]:
            self.put_back(group)
        self.channels[place, number] = ModelChannel()

    # What must be true.

    def compare(self, *, ordered: bool = True) -> None:
        """Take what everybody was sent in this step, and hold it against the lists."""
        taken: dict[str, list[int]] = {name: [] for name in self.ready}
        for (place, number), channel in self.channels.items():
            last: dict[str, int] = {}
            for event in self.peers[place].take_all("basic.deliver", number):
                tag, message = event.consumer_tag, int(event.body[:8])
                name = channel.consumers[tag]
                assert event.redelivered == self.ready[name][message], event
                at = self.places[name, message]
                assert at > last.get(name, -1) or not ordered, "out of order"
                last[name] = at
                taken[name].append(message)
                if channel.limits[tag] >= 0:
                    channel.out[event.delivery_tag] = Out(name, message, tag)
        for name, numbers in taken.items():
            oldest = self.in_order(name)[: len(numbers)]
            assert set(numbers) == set(oldest) or not ordered, "not the oldest"
            assert len(numbers) == len(set(numbers)), "handed out twice"
            for message in numbers:
                del self.ready[name][message]
        for channel in self.channels.values():
            for tag, name in channel.consumers.items():
                limit = channel.limits[tag]
                held = channel.held(tag)
                assert limit <= 0 or held <= limit
                able = limit <= 0 or held < limit
                assert not (able and self.ready[name]), f"{tag} was left out on {name}"

    @invariant()
    def confirms_are_complete(self) -> None:
        for place, peer in enumerate(self.peers):
            channel = self.channels[place, CONFIRM]
            for event in peer.take_all("basic.ack", CONFIRM):
                count = event.delivery_tag - channel.confirmed
                assert count == 1 or (count > 1 and event.multiple)
                channel.confirmed = event.delivery_tag
            assert channel.confirmed == channel.published

    @invariant()
    def counts_agree(self) -> None:
        assert set(self.machine.vhost.queues) == set(self.ready)
        every = [out for each in self.channels.values() for out in each.out.values()]
        for each in self.channels.values():
            every += [out for group, _ in each.settled for out in group.values()]
        for name, queue in self.machine.vhost.queues.items():
            assert queue.ready() == len(self.ready[name])
            assert queue.unacked_count == sum(out.queue == name for out in every)

    @invariant()
    def nothing_else_came(self) -> None:
        assert [event for peer in self.peers for event in peer.inbox] == []


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=SEQUENCES, stateful_step_count=20)
