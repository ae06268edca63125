"""The chain of blocks and the heap of returned messages, against plain lists."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.queues import Message
from warren.queues.backlog import BLOCK_SIZE, Backlog, Block, Returned, ReturnedMessage


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
