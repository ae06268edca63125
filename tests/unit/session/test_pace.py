"""Connections whose user or vhost may publish only so many messages a second."""

import pytest

from tests.support.machine import Machine, Peer, method, publish
from warren.flow import Kind, Subject
from warren.session import SessionSettings
from warren.vhost.change import (
    PermissionPut,
    UserLimitsPut,
    VHostLimitsPut,
    VHostPut,
)


def limit_user(machine: Machine, rate: int, burst: int = -1) -> None:
    given = {"max-publish-rate": rate, "max-publish-burst": burst}
    machine.broker.metadata.apply((UserLimitsPut(user="guest", limits=given),))
    machine.turn()


def limit_vhost(machine: Machine, rate: int, burst: int = -1, vhost: str = "/") -> None:
    given = {"max-publish-rate": rate, "max-publish-burst": burst}
    machine.broker.metadata.apply((VHostLimitsPut(vhost=vhost, limits=given),))
    machine.turn()


def ready(machine: Machine, queue: str = "q", vhost: str = "/") -> int:
    return int(machine.broker.vhosts[vhost].queues[queue].ready())


def bodies(peer: Peer) -> list[bytes]:
    return [event.body for event in peer.take_all("basic.deliver")]


def watchful(peer: Peer) -> bool:
    return peer.connection.watchful


def is_read(peer: Peer) -> bool:
    return peer.connection.reading


def send(peer: Peer, count: int, channel: int = 1, key: str = "q") -> None:
    peer.feed(b"".join(publish(channel, b"%d" % number, key) for number in range(count)))


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def client(machine: Machine) -> Peer:
    peer = machine.client()
    for number in (1, 2):
        peer.channel(number)
    peer.queue("q")
    return peer


def test_a_burst_goes_and_the_rest_follows_at_the_rate(machine: Machine, client: Peer) -> None:
    limit_user(machine, 10, 5)
    client.call(1, "confirm.select")
    send(client, 20)
    assert (ready(machine), client.connection.state()) == (5, "flow")
    assert client.take(1, "basic.ack").delivery_tag == 5
    machine.pass_time(0.05)
    assert ready(machine) == 5
    # A late look finds what has gathered meanwhile; a burst of five is the most.
    machine.pass_time(0.46)
    assert ready(machine) == 10
    assert client.take(1, "basic.ack").delivery_tag == 10
    assert client.connection.state() == "flow"
    for _ in range(100):
        machine.pass_time(0.01)
    assert ready(machine) == 20
    assert not client.connection.publisher.parking
    machine.pass_time(6)
    assert client.connection.state() == "running"
    client.consume("q", 2, no_ack=True)
    assert bodies(client) == [b"%d" % number for number in range(20)]
    assert client.connection.parked_bytes == 0
    assert machine.broker.waits.all() == []


def test_a_connection_without_a_limit_pays_nothing(machine: Machine, client: Peer) -> None:
    limit_vhost(machine, 1, vhost="/")
    machine.broker.metadata.apply(
        (
            VHostPut(name="free"),
            PermissionPut(user="guest", vhost="free", configure=".*", write=".*", read=".*"),
        )
    )
    free = machine.client(vhost="free")
    free.channel()
    free.queue("q")
    send(free, 100)
    assert ready(machine, vhost="free") == 100
    assert free.connection.pace is None
    assert not watchful(free)
    # One whose limit is gone takes the short way again.
    send(client, 1)
    assert watchful(client)
    limit_vhost(machine, -1)
    send(client, 100)
    assert not watchful(client)
    assert ready(machine) == 101


def test_a_user_shares_its_limit_among_its_connections(machine: Machine, client: Peer) -> None:
    limit_user(machine, 10, 1)
    other = machine.client()
    other.channel()
    send(client, 5)
    send(other, 5)
    assert ready(machine) == 1
    for _ in range(12):
        machine.pass_time(0.05)
    assert ready(machine) == 7
    client.consume("q", 2, no_ack=True)
    # By turns, each in its order.
    assert bodies(client) == [b"0", b"1", b"0", b"2", b"1", b"3", b"2"]


def test_acknowledgements_pass(machine: Machine, client: Peer) -> None:
    for _ in range(3):
        client.publish(1, b"x", "q")
    client.consume("q", 1)
    assert len(bodies(client)) == 3
    limit_user(machine, 0)
    send(client, 3)
    client.feed(
        method(1, "basic.ack", delivery_tag=1),
        method(1, "basic.nack", delivery_tag=2, requeue=False),
        method(1, "basic.reject", delivery_tag=3, requeue=False),
    )
    assert machine.vhost.queues["q"].unacked_count == 0
    # Every other method keeps its place; channels that do not publish go on.
    client.send(1, "queue.declare", queue="late")
    assert client.take_all(channel=1) == []
    assert client.call(2, "queue.declare", queue="now").name == "queue.declare-ok"
    limit_user(machine, -1)
    machine.pass_time(0.01)
    assert len(bodies(client)) == 3
    assert client.take(1).name == "queue.declare-ok"


def test_why_says_whose_limit_it_is(machine: Machine, client: Peer) -> None:
    limit_user(machine, 2, 1)
    send(client, 5)
    (wait,) = machine.broker.waits.all()
    assert wait.reason.value == "publish_rate"
    assert wait.subject == client.connection.subject
    assert wait.cause == Subject(Kind.USER, "guest")
    assert wait.setting == "max-publish-rate"
    assert wait.detail == "2 messages/s, at most 1 at once, for user 'guest'"
    # It is one wait until nothing is parked any more, not one for each message.
    since = wait.since_ns
    for _ in range(15):
        machine.pass_time(0.1)
    (wait,) = machine.broker.waits.all()
    assert (wait.since_ns, ready(machine)) == (since, 4)
    machine.pass_time(0.6)
    assert machine.broker.waits.all() == []


def test_both_limits_hold(machine: Machine, client: Peer) -> None:
    """The vhost's is the narrower one; the user's tokens are not wasted on it."""
    limit_user(machine, 100, 8)
    limit_vhost(machine, 10, 4)
    send(client, 10)
    assert ready(machine) == 4
    (wait,) = machine.broker.waits.all()
    assert wait.cause == Subject(Kind.VHOST, "/")
    # One is paid for by the user already.
    assert machine.broker.user_throttles["guest"].bucket.units == 3 * 1_000_000_000
    limit_vhost(machine, -1)
    machine.pass_time(0.002)
    # Nor lost when the vhost's limit goes.
    assert ready(machine) == 8
    (wait,) = machine.broker.waits.all()
    assert wait.cause == Subject(Kind.USER, "guest")
    for _ in range(10):
        machine.pass_time(0.01)
    assert ready(machine) == 10


def test_two_lines_do_not_send_a_connection_to_and_fro(machine: Machine) -> None:
    """Two users in one vhost, all with limits; everybody gets on."""
    clients = []
    for _ in range(4):
        peer = machine.client()
        peer.channel()
        peer.queue("q")
        clients.append(peer)
    limit_user(machine, 40, 1)
    limit_vhost(machine, 40, 1)
    for peer in clients:
        send(peer, 10)
    for _ in range(200):
        machine.pass_time(0.01)
    assert ready(machine) == 40
    assert machine.broker.waits.all() == []


def test_a_limit_that_is_raised_holds_at_once(machine: Machine, client: Peer) -> None:
    limit_user(machine, 0)
    send(client, 50)
    machine.pass_time(100)
    assert ready(machine) == 0
    limit_user(machine, 1000, 1000)
    # The tokens there were go on; a hundredth of a second brings ten more.
    machine.pass_time(0.011)
    assert ready(machine) == 11
    for _ in range(10):
        machine.pass_time(0.01)
    assert ready(machine) == 50


def test_what_a_limited_connection_sends_is_bounded(machine: Machine) -> None:
    machine = Machine(SessionSettings(parked_bytes_max=10_000))
    client = machine.client()
    client.channel()
    client.queue("q")
    limit_user(machine, 1, 1)
    client.publish(1, b"x" * 1000, "q")
    for _ in range(12):
        client.publish(1, b"x" * 1000, "q")
    assert not is_read(client)
    reasons = {wait.reason.value for wait in machine.broker.waits.all()}
    assert reasons == {"publish_rate", "parked_budget"}
    # It is read on when half of the room is there, not only when all has gone.
    seconds = 0
    while not is_read(client):
        assert {wait.reason.value for wait in machine.broker.waits.all()} == reasons
        machine.pass_time(1)
        seconds += 1
    assert 1 < seconds < 10
    assert 0 < client.connection.parked_bytes <= 5000
    assert ready(machine) == 1 + seconds
    assert [wait.reason.value for wait in machine.broker.waits.all()] == ["publish_rate"]


def test_many_channels_take_turns(machine: Machine, client: Peer) -> None:
    limit_user(machine, 10, 1)
    send(client, 3, 1)
    send(client, 3, 2)
    for _ in range(60):
        machine.pass_time(0.01)
    assert ready(machine) == 6
    assert client.connection.parked_channels == {}


def test_an_alarm_and_a_limit(machine: Machine, client: Peer) -> None:
    limit_user(machine, 10, 2)
    send(client, 3)
    assert client.connection.state() == "flow"
    machine.alarm(on=True)
    assert client.connection.state() == "blocked"
    assert {wait.reason.value for wait in machine.broker.waits.all()} == {
        "memory_alarm",
        "publish_rate",
    }
    # Its turn comes while the alarm holds it up.
    machine.pass_time(1)
    assert ready(machine) == 2
    assert [wait.reason.value for wait in machine.broker.waits.all()] == ["memory_alarm"]
    machine.alarm(on=False)
    assert (ready(machine), client.connection.state()) == (3, "flow")
    assert machine.broker.waits.all() == []
    # The other way round: what was parked for the alarm is held by the limit then.
    machine.alarm(on=True)
    send(client, 5)
    machine.alarm(on=False)
    assert [wait.reason.value for wait in machine.broker.waits.all()] == ["publish_rate"]
    for _ in range(60):
        machine.pass_time(0.01)
    assert ready(machine) == 8


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_alarm_in_the_middle_of_a_message_does_not_charge_twice(
    machine: Machine, client: Peer, cut: int
) -> None:
    limit_user(machine, 1, 2)
    whole = publish(1, b"0123456789", "q")
    start = len(method(1, "basic.publish", routing_key="q"))
    parts = [whole[:start], whole[start : start + 22], whole[start + 22 :]]
    client.feed(b"".join(parts[:cut]))
    machine.alarm(on=True)
    client.feed(b"".join(parts[cut:]))
    machine.alarm(on=False)
    client.publish(1, b"second", "q")
    assert ready(machine) == 2
    client.publish(1, b"third", "q")
    assert ready(machine) == 2


def test_a_message_in_many_frames_is_one(machine: Machine, client: Peer) -> None:
    limit_user(machine, 1, 2)
    for _ in range(3):
        client.publish(1, b"x" * 10_000, "q", part_sizes=(100,) * 100)
    assert ready(machine) == 2
    client.call(2, "tx.select")
    client.publish(2, b"", "q")
    client.send(2, "tx.commit")
    machine.pass_time(2)
    assert ready(machine) == 4
    assert len(client.take_all("tx.commit-ok", 2)) == 1


def test_an_error_among_what_waited_ends_its_channel(machine: Machine, client: Peer) -> None:
    limit_user(machine, 10, 1)
    client.feed(
        publish(1, b"a", "q") + publish(1, b"b", "", exchange="none") + publish(1, b"c", "q")
    )
    machine.pass_time(0.11)
    assert client.take(1, "channel.close").reply_code == 404
    machine.pass_time(1)
    assert ready(machine) == 1
    assert client.connection.parked_bytes == 0
    client.send(1, "channel.close-ok")
    client.channel(1)
    client.publish(1, b"d", "q")
    assert ready(machine) == 2


@pytest.mark.parametrize("way", ["drop", "close", "error"])
def test_who_is_gone_leaves_the_line(machine: Machine, client: Peer, way: str) -> None:
    limit_user(machine, 10, 1)
    limit_vhost(machine, 10, 2)
    other = machine.client()
    other.channel()
    send(client, 3)
    send(other, 1)
    line = machine.broker.user_throttles["guest"].line
    assert len(line) == 2
    if way == "drop":
        client.drop()
    elif way == "close":
        client.close()
    else:
        client.send(2, "channel.open")
    assert len(line) == 1
    machine.pass_time(0.11)
    assert ready(machine) == 2
    other.drop()
    assert (len(line), machine.broker.waits.all()) == (0, [])
    assert machine.broker.turn.timers.heap == []


def test_a_new_connection_does_not_get_a_new_burst(machine: Machine, client: Peer) -> None:
    limit_user(machine, 1, 5)
    send(client, 5)
    client.drop()
    again = machine.client()
    again.channel()
    send(again, 5)
    assert ready(machine) == 5


def test_credit_and_a_limit_at_one_time(machine: Machine, client: Peer) -> None:
    """What the one lets go the other may still hold."""
    client.queue("held")
    limit_user(machine, 1000, 800)
    queue = machine.vhost.queues["held"]
    queue.suspend()
    send(client, 802, 1, "held")
    assert len(queue.held) == 800
    reasons = {wait.reason.value for wait in machine.broker.waits.of(client.connection.subject)}
    assert reasons == {"credit"}
    machine.pass_time(1)
    assert len(queue.held) == 800
    limit_user(machine, 0)
    queue.resume()
    machine.turn()
    assert len(queue.held) == 0
    assert [wait.reason.value for wait in machine.broker.waits.all()] == ["publish_rate"]
    limit_user(machine, -1)
    machine.pass_time(0.01)
    assert ready(machine, "held") == 802
    assert machine.broker.waits.all() == []


def test_what_is_paid_for_takes_the_short_way(machine: Machine, client: Peer) -> None:
    """And what cannot take it is not charged twice."""
    limit_user(machine, 1, 10)
    bucket = machine.broker.user_throttles["guest"].bucket
    send(client, 3)
    assert client.connection.route is not None
    assert bucket.units == 7_000_000_000
    whole = publish(1, b"0123456789", "q")
    for cut in (5, 30, 60):
        client.feed(whole[:cut], whole[cut:])
    client.publish(1, b"", "q", properties={"expiration": "1000"})
    assert (ready(machine), int(bucket.units)) == (7, 3_000_000_000)
    limit_vhost(machine, 1, 1)
    send(client, 3)
    # The user's token of the one that waits is kept for it, no other.
    assert (ready(machine), int(bucket.units)) == (8, 1_000_000_000)
