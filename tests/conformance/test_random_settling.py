"""Random gets and settlements on several channels, against a plain model (AK-*, RC-*, TX-4).

The model is a list of ready messages in order of their age, and for each channel a dict of what it
holds. Every get must agree with it in body, redelivered flag and count of what is left.
"""

import random
from dataclasses import dataclass, field

import pytest

from tests.support.channel import Channel

CHANNELS = 4
STEPS = 400


@dataclass
class Held:
    """What the model knows of one channel."""

    channel: Channel
    transactional: bool
    outstanding: dict[int, int] = field(default_factory=dict)
    # Settled in the open transaction: (tags with ages, whether they go back to the queue).
    settled: list[tuple[dict[int, int], bool]] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    last_tag: int = 0


class Model:
    def __init__(self, channel: Channel, queue: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.queue = queue
        self.channel = channel
        self.ready: list[int] = []
        self.arrival: dict[int, int] = {}  # The place in the queue of each body that got there.
        self.seen: set[int] = set()
        self.next_age = 0
        self.holders = [
            Held(channel.client.channel(), transactional=number % 2 == 1)
            for number in range(CHANNELS)
        ]
        for holder in self.holders:
            if holder.transactional:
                holder.channel.tx_select()

    def publish(self, holder: Held) -> None:
        for _ in range(self.random.randint(1, 4)):
            age, self.next_age = self.next_age, self.next_age + 1
            holder.channel.publish(b"%d" % age, routing_key=self.queue)
            if holder.transactional:
                holder.published.append(age)
            else:
                self.arrive(age)
        holder.channel.sync()

    def arrive(self, age: int) -> None:
        self.arrival[age] = len(self.arrival)
        self.ready.append(age)

    def back(self, ages: list[int]) -> None:
        self.ready = sorted(self.ready + ages, key=self.arrival.__getitem__)

    def get(self, holder: Held) -> None:
        no_ack = self.random.random() < 0.1
        got = holder.channel.get(self.queue, no_ack=no_ack)
        if not self.ready:
            assert got is None
            return
        age = self.ready.pop(0)
        holder.last_tag += 1
        assert (int(got.body), got.delivery_tag) == (age, holder.last_tag)
        assert (got.redelivered, got.message_count) == (age in self.seen, len(self.ready))
        self.seen.add(age)
        if not no_ack:
            holder.outstanding[holder.last_tag] = age

    def settle(self, holder: Held) -> None:
        if not holder.outstanding:
            return
        tag = self.random.choice(list(holder.outstanding))
        multiple = self.random.random() < 0.3
        everything = multiple and self.random.random() < 0.2
        taken = {
            each: age
            for each, age in holder.outstanding.items()
            if everything or each == tag or (multiple and each < tag)
        }
        sent = 0 if everything else tag
        how = self.random.choice(["ack", "drop", "requeue", "requeue"])
        if how == "ack":
            holder.channel.ack(sent, multiple=multiple)
        else:
            holder.channel.nack(sent, multiple=multiple, requeue=how == "requeue")
        for each in taken:
            del holder.outstanding[each]
        if holder.transactional:
            holder.settled.append((taken, how == "requeue"))
        elif how == "requeue":
            self.back(list(taken.values()))
        holder.channel.sync()

    def recover(self, holder: Held) -> None:
        holder.channel.recover()
        self.back(list(holder.outstanding.values()))
        holder.outstanding.clear()

    def end(self, holder: Held) -> None:
        """Commit or roll back; a plain channel is closed and opened again."""
        if not holder.transactional:
            holder.channel.close()
            self.back(list(holder.outstanding.values()))
            holder.outstanding.clear()
            holder.channel, holder.last_tag = holder.channel.reopen(), 0
        elif self.random.random() < 0.5:
            holder.channel.tx_commit()
            for age in holder.published:
                self.arrive(age)
            for taken, requeued in holder.settled:
                if requeued:
                    self.back(list(taken.values()))
        else:
            holder.channel.tx_rollback()
            for taken, _ in holder.settled:
                holder.outstanding |= taken
        holder.published, holder.settled = [], []

    def run(self) -> None:
        actions = [self.publish] * 2 + [self.get] * 5 + [self.settle] * 4 + [self.recover, self.end]
        for _ in range(STEPS):
            self.random.choice(actions)(self.random.choice(self.holders))
        for holder in self.holders:
            holder.channel.close()
            held = list(holder.outstanding.values())
            self.back(held + [age for taken, _ in holder.settled for age in taken.values()])
        for age in self.ready:
            assert int(self.channel.get(self.queue, no_ack=True).body) == age
        assert self.channel.get(self.queue) is None


@pytest.mark.rule("AK-1", "AK-2", "AK-3", "RC-1", "RC-2", "TX-2", "TX-4", "CS-6", "CS-7", "GT-1")
@pytest.mark.parametrize("seed", range(8))
def test_random_settling(channel: Channel, queue: str, seed: int) -> None:
    Model(channel, queue, seed).run()
