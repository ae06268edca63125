"""The chain of blocks and the heap of returned messages, against plain lists."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.protocol.properties import P_PERSISTENT
from warren.queues import Message
from warren.queues.backlog import (
    BLOCK_SIZE,
    HERE,
    IN_PAGES,
    IN_STORE,
    Backlog,
    Block,
    Returned,
    ReturnedMessage,
)
from warren.queues.turn import Turn


def message(number: int) -> Message:
    return Message(b"\x00\x00", b"\x00\x00", str(number).encode(), None, 1, 0)


def blocks(first: Block | None) -> list[Block]:
    found = []
    while first is not None:
        found.append(first)
        first = first.next
    return found


@given(st.lists(st.sampled_from(("push", "push", "pop", "skip", "drop", "many", "drain"))))
def test_backlog_is_a_list_with_sequence_ids(steps: list[str]) -> None:
    backlog, model, next_seq = Backlog(), list[tuple[int, Message]](), 0
    for step in steps:
        if step in ("push", "many"):
            for _ in range(1 if step == "push" else BLOCK_SIZE + 1):
                model.append((next_seq, message(next_seq)))
                backlog.push(model[-1][1], next_seq)
                next_seq += 1
        elif step in ("pop", "drain"):
            for _ in range(len(model) if step == "drain" else min(1, len(model))):
                seq, wanted = model.pop(0)
                assert backlog.first_seq() == seq
                assert backlog.pop() is wanted
                assert (backlog.seq, backlog.again) == (seq, False)
        elif step == "skip":
            # An id that another level has, or that was handed over directly.
            next_seq += 1
        elif step == "drop":
            freed = blocks(backlog.drop_all())
            kept = [item for block in freed for item in block.items if item is not None]
            assert kept == [item for _, item in model]
            model.clear()
        assert backlog.count == backlog.here == len(model)


def test_a_long_backlog_is_freed_block_by_block() -> None:
    """Popped blocks leave the chain; what a purge hands out is as many blocks as were filled."""
    backlog = Backlog()
    for number in range(10 * BLOCK_SIZE):
        backlog.push(message(number), number)
    for _ in range(3 * BLOCK_SIZE):
        backlog.pop()
    freed = blocks(backlog.drop_all())
    assert len(freed) == 7
    assert backlog.drop_all() is None


@pytest.mark.rule("AK-3")
@given(st.lists(st.integers(0, 10_000), unique=True), st.integers(0, 9))
def test_returned_messages_come_oldest_first(seqs: list[int], taken: int) -> None:
    returned, model = Returned(), list[int]()
    chance = random.Random(taken)
    for seq in seqs:
        returned.push(ReturnedMessage(seq, message(seq)))
        model.append(seq)
        if chance.randrange(10) < taken:
            assert returned.pop().seq == min(model)
            model.remove(min(model))
    assert [returned.pop().seq for _ in list(returned.heap)] == sorted(model)
    assert returned.heap == []


class Chain:
    """A backlog whose blocks go out and come back, beside a list of what waits."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.backlog = Backlog()
        self.backlog.block_size = random_.choice((1, 2, 3, 5))
        self.model: list[tuple[int, Message]] = []
        self.next_seq = 0
        # What is out, by block: the test is the disk.
        self.disk: dict[int, list[tuple[int, Message]]] = {}

    def push(self) -> None:
        self.next_seq += self.random.choice((1, 1, 1, 3))
        size = self.random.randrange(4)
        traits = P_PERSISTENT if self.random.random() < 0.7 else 0
        one = Message(b"\x00\x00", b"\x00\x00", b"." * size, None, size, traits)
        self.model.append((self.next_seq, one))
        self.backlog.push(one, self.next_seq)

    def pop(self) -> None:
        if self.backlog.here == 0:
            return
        assert self.backlog.first_seq() == self.model[0][0]
        seq, wanted = self.model.pop(0)
        assert self.backlog.peek() is wanted
        assert self.backlog.pop() is wanted
        assert self.backlog.seq == seq

    def chain(self) -> list[Block]:
        return blocks(self.backlog.head) if self.backlog.count else []

    def take_out(self) -> None:
        """As `Paging` does: whole blocks, that of the head only without what was handed out."""
        able = [block for block in self.chain() if block.place == HERE and block.items]
        if not able:
            return
        block = self.random.choice(able)
        if block is self.backlog.head:
            self.backlog.trim_head()
        if not block.items or block.items[0] is None:
            return
        block.sealed = True
        kept = [item for item in block.items if item is not None]
        self.disk[id(block)] = [(int(block.seq_at(place)), item) for place, item in enumerate(kept)]
        before_block = next((one for one in self.chain() if one.next is block), None)
        place = self.random.choice((IN_STORE, IN_PAGES))
        self.backlog.take_out(block, place)
        both = place == IN_STORE and before_block is not None
        if both and before_block is not None and before_block.place == IN_STORE:
            self.disk[id(before_block)] += self.disk.pop(id(block))
            self.backlog.join_out(before_block, block)

    def bring_in(self) -> None:
        """The first that is out comes back, in one piece or in several."""
        out = [block for block in self.chain() if block.place != HERE]
        if not out:
            return
        block = out[0]
        there = self.disk[id(block)]
        count = len(there)
        if block.place == IN_STORE:
            count = self.random.randrange(1, len(there) + 1)
        some, rest = there[:count], there[count:]
        # A message that cannot be read does not wait any more.
        lost = [one for one in some if self.random.random() < 0.05]
        self.model = [one for one in self.model if one not in lost]
        fresh: list[Block] = []
        for seq, one in some:
            if (seq, one) in lost:
                continue
            if not fresh or self.random.random() < 0.3:
                fresh.append(Block(seq))
            fresh[-1].add(one, seq)
        self.disk[id(block)] = rest
        if rest:
            block.first = rest[0][0]
        octets = sum(one.size for _, one in rest)
        self.backlog.bring_in(block, fresh, left=len(rest), octets=octets)

    def check(self) -> None:
        backlog = self.backlog
        out = [block for block in self.chain() if block.place != HERE]
        assert backlog.count == len(self.model)
        assert backlog.outs == len(out)
        assert backlog.out_count == sum(len(self.disk[id(block)]) for block in out)
        assert backlog.out_octets == sum(block.octets for block in out)
        seqs: list[int] = []
        here = -1
        kept = 0
        for block in self.chain():
            if block.place == HERE:
                begin = int(backlog.head_index) if block is backlog.head else 0
                seqs += [int(block.seq_at(at)) for at in range(begin, len(block.items))]
                continue
            if here < 0:
                here = len(seqs)
            seqs += [seq for seq, _ in self.disk[id(block)]]
        assert seqs == [seq for seq, _ in self.model]
        assert backlog.here == (len(seqs) if here < 0 else here)
        for _, one in self.model:
            kept += int(one.size) if one.traits & P_PERSISTENT else 0
        if not out or all(block.place == IN_PAGES for block in out):
            assert backlog.kept_octets() == kept


@pytest.mark.rule("VQ-1")
@given(st.randoms(use_true_random=False), st.integers(10, 150))
def test_blocks_leave_and_come_back_in_their_places(random_: random.Random, steps: int) -> None:
    chain = Chain(random_)
    doing = (chain.push, chain.push, chain.push, chain.pop, chain.take_out, chain.bring_in)
    for _ in range(steps):
        random_.choice(doing)()
        chain.check()
    while chain.backlog.outs:
        chain.bring_in()
        chain.check()
    while chain.model:
        chain.pop()
    chain.check()


@pytest.mark.rule("VQ-20")
def test_a_backlog_may_begin_on_the_disk() -> None:
    backlog = Backlog()
    block = Block(7)
    block.place, block.sealed, block.out, block.last, block.octets = IN_STORE, True, 3, 12, 30
    backlog.begin_out(block)
    backlog.push(message(20), 20)
    assert (backlog.count, backlog.here, backlog.outs, backlog.first_seq()) == (4, 0, 1, 7)
    fresh = Block(7)
    for seq in (7, 9):
        fresh.add(message(seq), seq)
    # The third cannot be read.
    backlog.bring_in(block, [fresh], left=0, octets=0)
    assert (backlog.count, backlog.here, backlog.outs, backlog.out_octets) == (3, 3, 0, 0)
    seqs = []
    while backlog.count:
        backlog.pop()
        seqs.append(backlog.seq)
    assert seqs == [7, 9, 20]


def test_a_long_chain_that_is_let_go_is_taken_apart() -> None:
    """Freed from within itself it would write into memory that is not its own."""
    backlog = Backlog()
    for number in range(200 * BLOCK_SIZE):
        backlog.push(message(number), number)
    second = backlog.head.next
    assert second is not None
    del backlog
    assert second.next is None


def test_garbage_of_a_turn_that_is_let_go_is_taken_apart() -> None:
    backlog, turn = Backlog(), Turn()
    for number in range(100 * BLOCK_SIZE):
        backlog.push(message(number), number)
    freed = backlog.drop_all()
    assert freed is not None
    second = freed.next
    assert second is not None
    turn.garbage.append(freed)
    del freed, turn
    assert second.next is None
