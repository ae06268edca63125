"""Connections that an operator closes, and the end of vhosts and users with connections."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect
from tests.support.operator import operate, pid_of, tenant
from tests.support.wire import Client

Tenant = Callable[[], dict[str, str]]


@pytest.fixture
def tenants(broker: Broker, unique: Any) -> Iterator[Tenant]:
    """Make users with a vhost of their own, both of one name."""
    made: list[dict[str, str]] = []

    def make() -> dict[str, str]:
        made.append(tenant(broker, unique("tenant")))
        return made[-1]

    yield make
    for login in made:
        if login.get("vhost"):
            operate(broker, "delete_vhost", vhost=login["vhost"])
        if login.get("user"):
            operate(broker, "delete_user", user=login["user"])


def forced(client: Client, text: str) -> None:
    client.expect_close(320, f"CONNECTION_FORCED - {text}", method=(0, 0))
    client.expect_socket_closed()


def ready(channel: Channel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).message_count
    return count


@pytest.mark.rule("CE-31", "EX-3")
def test_an_operator_closes_a_connection(
    broker: Broker, connect: Connect, channel: Channel, shared_queue: str
) -> None:
    """It ends as with any other error: what it held goes back before the client is told."""
    client, other = connect(), connect()
    victim = client.channel()
    exclusive = victim.queue_declare(exclusive=True).queue
    victim.publish(b"x", routing_key=shared_queue)
    assert victim.get(shared_queue).body == b"x"
    operate(broker, "close_connection", pid=pid_of(broker, client), reason="out of the way")
    forced(client, "out of the way")
    assert ready(channel, shared_queue) == 1
    channel.send("queue.declare", queue=exclusive, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{exclusive}' in vhost '/'")
    other.channel()


@pytest.mark.rule("CE-31")
def test_an_operator_closes_the_connections_of_a_vhost(
    broker: Broker, connect: Connect, tenants: Tenant
) -> None:
    one, two = tenants(), tenants()
    first, second = connect(**one), connect(**one)
    other = connect(**two)
    operate(broker, "close_all_connections", vhost=one["vhost"], reason="all of you")
    forced(first, "all of you")
    forced(second, "all of you")
    other.channel()
    connect(**one)


@pytest.mark.rule("CE-31")
def test_an_operator_closes_so_many(broker: Broker, connect: Connect, tenants: Tenant) -> None:
    login = tenants()
    clients = [connect(**login) for _ in range(3)]
    operate(broker, "close_all_connections", vhost=login["vhost"], limit=2, reason="two")
    closed = 0
    for client in clients:
        client.send(1, "channel.open")
        event = client.next_event()
        closed += event.name == "connection.close"
    assert closed == 2


@pytest.mark.rule("CE-31")
def test_an_operator_closes_the_connections_of_a_user(
    broker: Broker, connect: Connect, tenants: Tenant
) -> None:
    login = tenants()
    client, other = connect(**login), connect()
    operate(broker, "close_all_user_connections", user=login["user"], reason="you")
    forced(client, "you")
    other.channel()


@pytest.mark.rule("CE-32", "VH-6")
def test_deleting_a_vhost_closes_its_connections(
    broker: Broker, connect: Connect, raw: Connect, tenants: Tenant
) -> None:
    login, elsewhere = tenants(), connect()
    clients = [connect(**login) for _ in range(3)]
    channel = clients[0].channel()
    queue = channel.queue_declare("q", durable=True).queue
    channel.publish(b"x", routing_key=queue)
    channel.consume(queue)
    name = login["vhost"]
    operate(broker, "delete_vhost", vhost=name)
    # In the reference it is both, and a connection hears of the one or the other.
    ends = ("deleted", "down") if broker.is_reference else ("deleted",)
    texts = {f"CONNECTION_FORCED - vhost '{name}' is {end}" for end in ends}
    for client in clients:
        close = client.wait_for("connection.close")
        assert close.reply_code == 320
        assert close.reply_text in texts
    late = raw()
    late.handshake(user=login["user"], password=login["password"])
    late.negotiate()
    late.send(0, "connection.open", virtual_host=name)
    late.expect_close(530, f"NOT_ALLOWED - vhost {name} not found")
    elsewhere.channel()
    # One of the same name begins empty.
    operate(broker, "add_vhost", vhost=name)
    user = login["user"]
    operate(broker, "set_permissions", vhost=name, user=user, configure=".*", write=".*", read=".*")
    probe = connect(**login).channel()
    probe.send("queue.declare", queue=queue, passive=True)
    probe.expect_close(404, starting("NOT_FOUND - no queue 'q'"))


@pytest.mark.rule("CE-32", "VH-6")
def test_deleting_a_user_closes_its_connections(
    broker: Broker, connect: Connect, raw: Connect, tenants: Tenant
) -> None:
    login, elsewhere = tenants(), connect()
    clients = [connect(**login) for _ in range(2)]
    channel = clients[0].channel()
    queue = channel.queue_declare("q").queue
    channel.publish(b"x", routing_key=queue)
    name = login.pop("user")
    operate(broker, "delete_user", user=name)
    for client in clients:
        forced(client, f"user '{name}' is deleted")
    late = raw()
    late.handshake(user=name, password="secret")
    late.expect_close(403, starting("ACCESS_REFUSED - Login was refused"))
    elsewhere.channel()


@pytest.mark.rule("QD-8", "CS-5")
def test_an_operator_empties_and_deletes_a_queue(
    broker: Broker, connect: Connect, channel: Channel, unique: Any
) -> None:
    queue = channel.queue_declare(unique("q")).queue
    channel.confirm_select()
    for _ in range(3):
        channel.publish(b"x", routing_key=queue)
    channel.wait_confirms(3)
    operate(broker, "purge_queue", queue=queue)
    assert ready(channel, queue) == 0
    tag = channel.consume(queue)
    operate(broker, "delete_queue", queue=queue)
    channel.expect("basic.cancel", consumer_tag=tag)
    channel.send("queue.declare", queue=queue, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")


@pytest.mark.rule("QD-2", "QD-8")
def test_an_operator_may_delete_an_exclusive_queue(
    broker: Broker, channel: Channel, client: Client, connect: Connect, unique: Any
) -> None:
    """Its name is free for others then, whatever its owner does."""
    name = unique("q")
    channel.queue_declare(name, exclusive=True)
    operate(broker, "delete_queue", queue=name)
    other = connect().channel()
    other.queue_declare(name)
    client.close()
    assert ready(other, name) == 0
