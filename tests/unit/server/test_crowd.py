"""Newcomers: as many as there may be, the oldest go first."""

import asyncio

import pytest

from tests.support.machine import Machine
from tests.unit.server.fake_node import Events
from warren.server import crowd as module
from warren.server.crowd import NEWCOMERS_MAX, NEWCOMERS_MIN, Crowd, newcomers_max
from warren.server.hub import Hub, Link


def hub_of(machine: Machine) -> Hub:
    loop = asyncio.new_event_loop()
    loop.close()
    return Hub(loop, machine.broker, machine.clock)


class Loose(Link):
    """A link of a connection that is not driven by a socket."""

    def __init__(self, links: dict[int, Link], machine: Machine) -> None:
        super().__init__(hub_of(machine))
        self.links = links
        self.connection = machine.peer().connection
        self.identity = self.connection.identity
        links[self.identity] = self

    def abort(self) -> None:
        del self.links[self.identity]


@pytest.fixture
def links() -> dict[int, Link]:
    return {}


def come(crowd: Crowd, links: dict[int, Link], machine: Machine, count: int) -> list[Loose]:
    came = []
    for _ in range(count):
        came.append(Loose(links, machine))
        crowd.add(came[-1].identity)
    return came


def log_in(link: Loose) -> None:
    assert link.connection is not None
    link.connection.user = "ann"


def test_the_oldest_newcomers_make_room(links: dict[int, Link]) -> None:
    machine, events = Machine(), Events()
    crowd = Crowd(links, events, most=16)
    came = come(crowd, links, machine, 16)
    assert len(links) == 16
    came += come(crowd, links, machine, 1)
    assert list(links) == [one.identity for one in came[3:]]
    assert crowd.dropped == 3
    assert events.seen == [("warning", "connection.crowded_out", {"count": 3, "newcomers_max": 16})]


def test_who_has_logged_in_or_left_is_not_counted(links: dict[int, Link]) -> None:
    machine, events = Machine(), Events()
    crowd = Crowd(links, events, most=16)
    slow = come(crowd, links, machine, 10)
    for _ in range(100):
        (quick,) = come(crowd, links, machine, 1)
        log_in(quick)
        (gone,) = come(crowd, links, machine, 1)
        gone.abort()
    assert len(links) == 110
    assert {one.identity for one in slow} <= set(links)
    assert events.seen == []


def test_clearing_is_rare(links: dict[int, Link], monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd that stays near its bound is walked once for an eighth of it."""
    machine = Machine()
    crowd = Crowd(links, Events(), most=64)
    looks = 0
    is_newcomer = crowd._is_newcomer

    def counted(identity: int) -> bool:
        nonlocal looks
        looks += 1
        return is_newcomer(identity)

    monkeypatch.setattr(crowd, "_is_newcomer", counted)
    come(crowd, links, machine, 1000)
    assert looks <= 1000 * 9
    assert len(links) <= 64


@pytest.mark.parametrize(
    ("descriptors", "most"),
    [(100, NEWCOMERS_MIN), (4000, 1000), (1_000_000, NEWCOMERS_MAX), (-1, NEWCOMERS_MAX)],
)
def test_the_bound_follows_the_descriptors(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "descriptor_count_max", lambda: descriptors)
    assert newcomers_max() == most
