"""Random consumers, limits and settlements: nobody gets too much, and everything gets somewhere.

What is checked at every delivery: the limit of its consumer and of its channel (QO-1, QO-2), the
next delivery tag (CS-6), and that a message is in one pair of hands at a time. At the end all
messages must have been settled, so that no consumer that could take one was forgotten.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.channel import Channel

CHANNELS = 4
STEPS = 250


@dataclass
class Hands:
    """One channel: the limits it was given and what it holds."""

    channel: Channel
    shared_limit: int
    consumer_limits: dict[str, int] = field(default_factory=dict)
    quiet: set[str] = field(default_factory=set)
    # Delivery tag -> consumer tag and body.
    held: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    last_tag: int = 0


class Play:
    def __init__(self, channel: Channel, seed: int) -> None:
        self.random = random.Random(seed)
        self.channel = channel
        self.queues = [channel.queue_declare(exclusive=True).queue for _ in range(3)]
        self.open: set[bytes] = set()  # Published and not settled for good.
        self.number = 0
        self.hands = [self.open_hands(channel.client.channel()) for _ in range(CHANNELS)]

    def open_hands(self, channel: Channel) -> Hands:
        hands = Hands(channel, self.random.choice([0, 0, 1, 3, 10]))
        channel.qos(0)
        if hands.shared_limit:
            channel.qos(hands.shared_limit, shared=True)
        return hands

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 20)):
            self.number += 1
            body = b"%d" % self.number
            self.open.add(body)
            self.channel.publish(body, routing_key=self.random.choice(self.queues))

    def consume(self) -> None:
        hands = self.random.choice(self.hands)
        self.number += 1
        tag = f"consumer {self.number}"
        limit = 0
        if not hands.shared_limit:
            limit = self.random.choice([0, 1, 2, 7])
            hands.channel.send("basic.qos", prefetch_count=limit)
            self.until(hands, "basic.qos-ok")
        no_ack = self.random.random() < 0.15
        if no_ack:
            hands.quiet.add(tag)
        hands.consumer_limits[tag] = 0 if no_ack else limit
        arguments = {"x-priority": self.random.choice([-1, 0, 0, 1])}
        hands.channel.consume(
            self.random.choice(self.queues), tag, no_ack=no_ack, arguments=arguments, nowait=True
        )

    def cancel(self) -> None:
        hands = self.random.choice(self.hands)
        if len(hands.consumer_limits) > 1:
            self.cancel_one(hands, self.random.choice(list(hands.consumer_limits)))

    def cancel_one(self, hands: Hands, tag: str) -> None:
        hands.channel.send("basic.cancel", consumer_tag=tag)
        self.until(hands, "basic.cancel-ok")
        del hands.consumer_limits[tag]

    def settle(self) -> None:
        hands = self.random.choice(self.hands)
        if not hands.held:
            return
        tag = self.random.choice(list(hands.held))
        multiple = self.random.random() < 0.3
        requeue = self.random.random() < 0.4
        if requeue:
            hands.channel.nack(tag, multiple=multiple)
        elif self.random.random() < 0.5:
            hands.channel.ack(tag, multiple=multiple)
        else:
            hands.channel.nack(tag, multiple=multiple, requeue=False)
        for each in [each for each in hands.held if each == tag or (multiple and each < tag)]:
            _, body = hands.held.pop(each)
            if not requeue:
                self.open.remove(body)

    def recover(self) -> None:
        hands = self.random.choice(self.hands)
        hands.channel.send("basic.recover", requeue=True)
        # Deliveries before recover-ok were requeued too; those after it are new.
        self.until(hands, "basic.recover-ok", recovering=True)

    def reopen(self) -> None:
        place = self.random.randrange(CHANNELS)
        hands = self.hands[place]
        for tag in sorted(hands.quiet & set(hands.consumer_limits)):
            self.cancel_one(hands, tag)  # What is on its way to it would be lost.
        hands.channel.send("channel.close", reply_text="bye")
        self.until(hands, "channel.close-ok")
        hands.held.clear()
        self.hands[place] = self.open_hands(hands.channel.reopen())

    def until(self, hands: Hands, name: str, *, recovering: bool = False) -> None:
        """Take events of the channel up to this reply."""
        while True:
            event = hands.channel.client.next_event(channel=hands.channel.number, reason=name)
            if event.name == name:
                if recovering:
                    hands.held.clear()
                return
            self.take(hands, event)

    def take(self, hands: Hands, event: Any) -> None:
        assert event.name == "basic.deliver"
        hands.last_tag += 1
        assert event.delivery_tag == hands.last_tag
        assert event.body in self.open
        if event.consumer_tag in hands.quiet:
            self.open.remove(event.body)
            return
        hands.held[event.delivery_tag] = (event.consumer_tag, event.body)
        mine = sum(tag == event.consumer_tag for tag, _ in hands.held.values())
        limit = hands.consumer_limits.get(event.consumer_tag, 0)
        assert not limit or mine <= limit
        assert not hands.shared_limit or len(hands.held) <= hands.shared_limit

    def look(self) -> None:
        """Take what has come for every channel."""
        for hands in self.hands:
            hands.channel.send("channel.flow", active=True)
            self.until(hands, "channel.flow-ok")

    def check_one_pair_of_hands(self) -> None:
        bodies = [body for hands in self.hands for _, body in hands.held.values()]
        assert len(bodies) == len(set(bodies))

    def run(self) -> None:
        actions = [self.publish] * 4 + [self.settle] * 12 + [self.consume] * 2
        actions += [self.cancel, self.recover, self.reopen]
        for _ in range(STEPS):
            self.random.choice(actions)()
            self.look()
        self.drain()

    def drain(self) -> None:
        """Ack everything; with a consumer of each queue on each channel all must come."""
        for hands in self.hands:
            for queue in self.queues:
                self.number += 1
                hands.consumer_limits[f"last {self.number}"] = 0
                hands.channel.consume(queue, f"last {self.number}", nowait=True)
        while self.open:
            for hands in self.hands:
                if hands.held:
                    hands.channel.ack(max(hands.held), multiple=True)
                    self.open -= {body for _, body in hands.held.values()}
                    hands.held.clear()
            self.look()
            self.check_one_pair_of_hands()
            if self.open and not any(hands.held for hands in self.hands):
                self.wait_for_one()

    def wait_for_one(self) -> None:
        """Something must come to somebody: fail by the time limit of the wait if not."""
        event = self.channel.client.next_event(reason="a delivery to anybody")
        hands = next(each for each in self.hands if each.channel.number == event.channel)
        self.take(hands, event)


@pytest.mark.rule("QO-1", "QO-2", "QO-4", "CS-3", "CS-6", "AK-2", "RC-1", "RC-2")
@pytest.mark.parametrize("seed", range(8))
def test_random_consuming(channel: Channel, seed: int) -> None:
    Play(channel, seed).run()
