"""Where `warren export` finds messages: files, and a node for what files do not have or lost."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from tests.unit.queues.ranged_rig import INCARNATION, RangedRig
from tests.unit.queues.rig import ack
from warren.cli.export import _running
from warren.cli.slice import Info, Item, Node
from warren.queues.ranged import levels_of, stable_of
from warren.server.command_range import RangeInfoArgs, _level_row


class FakeNode:
    """Answers like a node, out of a rig, and notes what it was asked for."""

    def __init__(self, rig: RangedRig) -> None:
        self.rig = rig
        self.asked: list[tuple[int, int, bool]] = []
        self.told = 0

    def info(self, begin: int = 0, *, segments: int = 0, runs: bool = False) -> Info:
        args = RangeInfoArgs(queue="q", from_seq=begin, segments=1, runs=runs)
        rows = [
            asyncio.run(_level_row(level, self.rig.queue, args))
            for level in levels_of(self.rig.queue)
            if level.index is not None
        ]
        levels = cast("list[dict[str, object]]", msgspec.to_builtins(rows))
        return Info(INCARNATION, 0, 0, stable_of(self.rig.queue), 0, 0, 0, levels)

    def items(self, begin: int, end: int, *, stored: bool = True) -> Iterator[Item]:
        self.asked.append((begin, end, stored))
        options: dict[str, Any] = {"stored": stored}
        for seq, body in self.rig.read(begin, end, **options):
            self.told += 1
            yield Item(seq, "", False, None, "", "", b"\x00\x00", len(body), body)


def export(node: FakeNode, begin: int = 0) -> list[int]:
    rig = node.rig
    end = stable_of(rig.queue)
    found = list(_running(cast("Node", node), rig.files, begin, end))
    assert all(item.body == b"m%d" % item.seq or len(item.body) > 4000 for item in found)
    return [item.seq for item in found]


@pytest.mark.parametrize("priorities", [0, 2])
def test_files_first_and_the_rest_from_the_node(priorities: int) -> None:
    rig = RangedRig(priorities=priorities)
    for number in range(40_000):
        rig.put(b"m%d" % number, priority=number % 3, stored=number % 1000 != 5)
        if number in (9999, 34_999):
            rig.checkpoint()
    rig.commit()
    node = FakeNode(rig)
    assert export(node) == list(range(40_000))
    # What is in the journal, and what is in memory.
    assert node.told < 5200
    assert export(FakeNode(rig), 20_000) == list(range(20_000, 40_000))


def test_a_large_body_comes_from_the_node() -> None:
    rig = RangedRig()
    rig.put(b"m0", bytes(5000), b"m2")
    rig.checkpoint()
    node = FakeNode(rig)
    assert export(node) == [0, 1, 2]
    assert [asked for asked in node.asked if asked[2]] == [(1, 2, True), (3, 3, True)]


def test_a_file_that_went_is_asked_of_the_node() -> None:
    rig = RangedRig()
    outlet = rig.outlet(bound=1 << 30)
    for number in range(40_000):
        rig.put(b"m%d" % number)
    rig.checkpoint()
    rig.consumer("c", outlet, no_ack=False, prefetch=18_000)
    rig.run()
    node = FakeNode(rig)
    found = []
    for item in _running(cast("Node", node), rig.files, 0, 40_000):
        found.append(item.seq)
        if item.seq == 100:
            # The files of the first segment go while it is read, and the node has a part of it.
            for tag in range(1, 18_001):
                ack(outlet, outlet.unacked.take(tag))
            rig.commit()
            rig.checkpoint()
    assert found == sorted(set(found))
    assert set(range(18_000, 40_000)) <= set(found)
    assert set(found) <= set(range(40_000))


def test_a_spoilt_file_is_asked_of_the_node() -> None:
    rig = RangedRig()
    for number in range(20_000):
        rig.put(b"m%d" % number)
    rig.checkpoint()
    path = next(path for path in rig.files.paths() if path.endswith("/0.idx"))
    handle = rig.files.open(path)
    rig.files.write(handle, 400_000, [b"spoilt"])
    rig.files.close(handle)
    node = FakeNode(rig)
    found = export(node)
    # The node has no more than its disk; what is whole is there.
    assert found == [seq for seq, _ in rig.read()]
    assert 15_000 < len(found) < 20_000
