"""When a limit is reached."""

import pytest

from tests.support.machine import Machine, Peer
from warren.vhost.limit import USER_LIMITS, limits, reached


@pytest.mark.rule("VH-2")
@pytest.mark.parametrize(
    ("given", "count", "expected"),
    [
        ({}, 1_000_000, False),
        ({"max-queues": -1}, 1_000_000, False),
        ({"max-queues": 0}, 0, True),
        ({"max-queues": 2}, 1, False),
        ({"max-queues": 2}, 2, True),
        ({"max-queues": 2}, 3, True),
    ],
)
def test_a_limit_is_reached(given: dict[str, int], count: int, expected: bool) -> None:
    assert reached(given, "max-queues", count) is expected


@pytest.mark.parametrize("value", ["1", 1.5, True, None, [1]])
def test_a_limit_is_an_integer(value: object) -> None:
    with pytest.raises(ValueError, match="max-channels should be an integer"):
        limits({"max-channels": value}, USER_LIMITS)


@pytest.mark.rule("VH-2")
def test_what_a_user_has_open_is_counted_until_it_ends() -> None:
    machine = Machine()

    def count() -> tuple[int, int]:
        usage = machine.broker.usage_of("guest")
        return usage.connections, usage.channels

    def two() -> Peer:
        client = machine.client()
        client.channel(1)
        client.channel(2)
        return client

    closing, failing, lost = two(), two(), two()
    assert count() == (3, 6)
    closing.call(1, "channel.close")
    assert count() == (3, 5)
    # A channel that failed is counted no more, and not a second time at its close-ok.
    assert closing.call(2, "queue.declare", queue="q", passive=True).name == "channel.close"
    assert count() == (3, 4)
    closing.send(2, "channel.close-ok")
    assert count() == (3, 4)
    closing.close()
    assert count() == (2, 4)
    # From the moment a connection is being closed.
    failing.send(2, "channel.open")
    assert count() == (1, 2)
    lost.drop()
    assert machine.broker.usages == {}
