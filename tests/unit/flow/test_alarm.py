"""Alarms of all nodes, their edges and the text clients get."""

import pytest

from warren.flow import Alarm, Alarms, Change, Edge, Source

MEMORY_1 = Alarm(Source.MEMORY, "one")
MEMORY_2 = Alarm(Source.MEMORY, "two")
DISK_1 = Alarm(Source.DISK, "one")


@pytest.mark.rule("AL-4")
def test_only_changes_give_an_edge() -> None:
    alarms = Alarms()
    assert alarms.clear(MEMORY_1) is None
    assert alarms.set(MEMORY_1) == Edge(Change.SET, MEMORY_1, everywhere=True)
    assert alarms.set(MEMORY_1) is None
    assert alarms.clear(MEMORY_1) == Edge(Change.CLEARED, MEMORY_1, everywhere=True)
    assert alarms.clear(MEMORY_1) is None
    assert (Change.SET.value, Change.CLEARED.value) == ("alarm_set", "alarm_cleared")


@pytest.mark.rule("AL-2")
def test_a_source_is_lifted_when_no_node_has_it_any_more() -> None:
    alarms = Alarms()
    alarms.set(MEMORY_1)
    assert alarms.set(MEMORY_2) == Edge(Change.SET, MEMORY_2, everywhere=False)
    assert alarms.clear(MEMORY_1) == Edge(Change.CLEARED, MEMORY_1, everywhere=False)
    assert alarms.any()
    assert alarms.clear(MEMORY_2) == Edge(Change.CLEARED, MEMORY_2, everywhere=True)
    assert not alarms.any()


@pytest.mark.rule("AL-1")
def test_a_dead_node_takes_its_alarms_along_and_a_new_one_learns_the_rest() -> None:
    alarms = Alarms()
    for alarm in (MEMORY_1, MEMORY_2, DISK_1):
        alarms.set(alarm)
    assert alarms.in_force() == [MEMORY_1, MEMORY_2, DISK_1]
    assert alarms.forget_node("one") == [
        Edge(Change.NODE_DIED, MEMORY_1, everywhere=False),
        Edge(Change.NODE_DIED, DISK_1, everywhere=True),
    ]
    assert alarms.forget_node("one") == []
    assert alarms.in_force() == [MEMORY_2]
    assert alarms.sources() == {Source.MEMORY}


@pytest.mark.rule("NT-2")
def test_the_reason_text() -> None:
    alarms = Alarms()
    assert alarms.blocked_reason_text() == ""
    alarms.set(MEMORY_1)
    assert alarms.blocked_reason_text() == "low on memory"
    alarms.set(DISK_1)
    assert alarms.blocked_reason_text() == "low on disk & memory"
    alarms.clear(MEMORY_1)
    assert alarms.blocked_reason_text() == "low on disk"
