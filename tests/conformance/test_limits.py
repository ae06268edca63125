"""Limits of vhosts and users, and what is refused when one is reached (VH-2)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.fixtures import Connect
from tests.support.operator import operate, tenant
from tests.support.wire import Client


@pytest.fixture
def login(broker: Broker, unique: Any) -> Iterator[dict[str, str]]:
    """A user of its own in a vhost of its own, both of one name."""
    name = unique("tenant")
    yield tenant(broker, name)
    operate(broker, "delete_vhost", vhost=name)
    operate(broker, "delete_user", user=name)


def refused_open(raw: Connect, login: dict[str, str], text: str) -> None:
    """Opening one more connection is refused."""
    client = raw()
    client.handshake(user=login["user"], password=login["password"])
    client.negotiate()
    client.send(0, "connection.open", virtual_host=login["vhost"])
    client.expect_close(530, f"NOT_ALLOWED - {text}", method="connection.open")


def limit_vhost(broker: Broker, login: dict[str, str], **definition: int) -> None:
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    operate(broker, "set_vhost_limits", vhost=login["vhost"], definition=named)


def limit_user(broker: Broker, login: dict[str, str], **definition: int) -> None:
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    operate(broker, "set_user_limits", user=login["user"], definition=named)


@pytest.mark.rule("CE-3", "VH-2")
def test_a_vhost_has_so_many_connections(
    broker: Broker, connect: Connect, raw: Connect, login: dict[str, str]
) -> None:
    name = login["vhost"]
    text = f"access to vhost '{name}' refused for user '{name}': connection limit ({{}}) is reached"
    limit_vhost(broker, login, max_connections=2)
    first = connect(**login)
    second = connect(**login)
    refused_open(raw, login, text.format(2))
    # One that ends makes room.
    second.close()
    connect(**login)
    refused_open(raw, login, text.format(2))
    # Those that are there stay; 0 allows none, less than 0 any.
    limit_vhost(broker, login, max_connections=0)
    refused_open(raw, login, text.format(0))
    first.channel()
    limit_vhost(broker, login, max_connections=-1)
    connect(**login)
    operate(broker, "clear_vhost_limits", vhost=name)
    connect(**login)


@pytest.mark.rule("CE-4", "VH-2")
def test_a_user_has_so_many_connections(
    broker: Broker, connect: Connect, raw: Connect, login: dict[str, str]
) -> None:
    """In all vhosts together."""
    name = login["user"]
    text = f"connection refused for user '{name}': user connection limit ({{}}) is reached"
    operate(broker, "set_permissions", vhost="/", user=name, configure=".*", write=".*", read=".*")
    limit_user(broker, login, max_connections=2)
    first = connect(**login)
    elsewhere = connect(**login | {"vhost": "/"})
    for vhost in (name, "/"):
        refused_open(raw, login | {"vhost": vhost}, text.format(2))
    elsewhere.close()
    connect(**login)
    limit_user(broker, login, max_connections=0)
    refused_open(raw, login, text.format(0))
    first.channel()
    limit_user(broker, login, max_connections=-1)
    connect(**login)
    operate(broker, "clear_user_limits", user=name, limit="all")
    connect(**login)


@pytest.mark.rule("CE-3", "CE-4", "CE-2", "CE-1")
def test_the_order_of_what_is_looked_at(
    broker: Broker, raw: Connect, login: dict[str, str]
) -> None:
    """The vhost, its limit, the user's limit, then the permission."""
    name = login["vhost"]
    operate(broker, "set_permissions", vhost=name, user=name, configure="", write="", read="")
    limit_user(broker, login, max_connections=0)
    limit_vhost(broker, login, max_connections=0)
    refused_open(raw, login | {"vhost": "nowhere"}, "vhost nowhere not found")
    refused_open(
        raw,
        login,
        f"access to vhost '{name}' refused for user '{name}': connection limit (0) is reached",
    )
    limit_vhost(broker, login, max_connections=-1)
    text = f"connection refused for user '{name}': user connection limit (0) is reached"
    refused_open(raw, login, text)
    # Also where the user may not be at all.
    refused_open(raw, login | {"vhost": "/"}, text)
    limit_user(broker, login, max_connections=-1)
    refused_open(raw, login | {"vhost": "/"}, f"access to vhost '/' refused for user '{name}'")


@pytest.mark.rule("CE-7", "VH-2")
def test_a_user_has_so_many_channels(
    broker: Broker, connect: Connect, login: dict[str, str]
) -> None:
    """On all connections together."""

    def refused(client: Client, limit: int) -> None:
        client.send(100, "channel.open")
        text = (
            f"NOT_ALLOWED - number of channels opened for user '{login['user']}' has reached the "
            f"maximum allowed user limit of ({limit})"
        )
        client.expect_close(530, text)

    limit_user(broker, login, max_channels=3)
    first = connect(**login)
    second = connect(**login)
    channels = [first.channel(), first.channel(), second.channel()]
    refused(second, 3)
    # With its connection a channel is gone, too; one that is closed makes room as well.
    third = connect(**login)
    third.channel()
    refused(third, 3)
    channels[0].close()
    third = connect(**login)
    failed = third.channel()
    # A channel that failed does not count any more.
    failed.queue_declare("q", exclusive=True)
    failed.send("queue.declare", queue="none", passive=True)
    failed.expect_close(404, f"NOT_FOUND - no queue 'none' in vhost '{login['vhost']}'")
    failed.reopen()
    # Those that are there stay; 0 allows none, less than 0 any.
    limit_user(broker, login, max_channels=0)
    channels[1].queue_declare(exclusive=True)
    refused(connect(**login), 0)
    limit_user(broker, login, max_channels=-1)
    connect(**login).channel()


@pytest.mark.rule("CH-13", "VH-2")
def test_a_vhost_has_so_many_queues(
    broker: Broker, connect: Connect, login: dict[str, str]
) -> None:
    name = login["vhost"]
    channel = connect(**login).channel()

    def refused(queue: str, limit: int, **options: Any) -> None:
        probe = channel.client.channel()
        probe.send("queue.declare", queue=queue, **options)
        wanted = (
            f"PRECONDITION_FAILED - cannot declare queue '{queue}': queue limit in vhost '{name}' "
            f"({limit}) is reached"
        )
        probe.expect_close(406, wanted, method="queue.declare")

    limit_vhost(broker, login, max_queues=2)
    channel.queue_declare("one")
    channel.queue_declare("two", exclusive=True)
    refused("three", 2)
    # Before its arguments are looked at.
    refused("three", 2, arguments={"x-max-length": -1})
    # What is there may be declared again, and looked at.
    channel.queue_declare("one")
    channel.queue_declare("two", exclusive=True)
    channel.queue_declare("one", passive=True)
    channel.queue_delete("one")
    channel.queue_declare("three")
    # Existing ones are not cut.
    limit_vhost(broker, login, max_queues=0)
    refused("four", 0)
    for queue in ("two", "three"):
        assert channel.queue_declare(queue, passive=True).queue == queue
    limit_vhost(broker, login, max_queues=-1)
    channel.queue_declare("four")


@pytest.mark.rule("CH-13")
def test_a_name_made_up_by_the_broker_is_told(
    broker: Broker, connect: Connect, login: dict[str, str]
) -> None:
    limit_vhost(broker, login, max_queues=0)
    channel = connect(**login).channel()
    channel.send("queue.declare")
    close = channel.client.next_event(channel=channel.number)
    text = "PRECONDITION_FAILED - cannot declare queue 'amq.gen-"
    assert (close.reply_code, close.reply_text[: len(text)]) == (406, text)


@pytest.mark.rule("VH-2", "CE-3", "CE-7", "CH-13")
def test_limits_of_others_do_not_matter(
    broker: Broker, connect: Connect, login: dict[str, str]
) -> None:
    limit_vhost(broker, login, max_connections=0, max_queues=0)
    limit_user(broker, login, max_connections=0, max_channels=0)
    connect().channel().queue_declare(exclusive=True)
