"""Every operation with every combination of permissions (section 7; rules VH-3 to VH-5).

The table below is that of VH-3: what each operation asks for, in the order it is asked. Each runs
with all eight combinations of configure, write and read, given for everything or not at all; then
with exactly what it needs, by name; then with everything but one of these.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel

pytestmark = pytest.mark.differs_from_reference("permissions are set by Warren's own commands")
USER: Final = "matrix"
ACCESS: Final = ("configure", "write", "read")
# (access, queue or exchange, name)
Need = tuple[str, str, str]
NAMES: Final = {"x": "direct", "y": "fanout", "t": "topic"}


@dataclass(frozen=True)
class Operation:
    """One operation: what it asks for in this order, and how it is done to its end."""

    name: str
    needs: tuple[Need, ...]
    run: Callable[[Channel], object]


def new(kind: str, **more: Any) -> Callable[[Channel], object]:
    """Declare `new`, an exclusive queue or an exchange that was not there."""

    def declare(channel: Channel) -> object:
        if kind == "queue":
            return channel.queue_declare("new", exclusive=True, **more)
        return channel.exchange_declare("new", **more)

    return declare


def published(**options: Any) -> Callable[[Channel], object]:
    def publish(channel: Channel) -> None:
        channel.publish(b"", **options)
        channel.sync()

    return publish


def consumed(channel: Channel) -> None:
    channel.cancel(channel.consume("q"))


def unasked(channel: Channel) -> None:
    """What needs no permission: passive declares, qos, recover, tx, confirms, acks, cancels."""
    channel.queue_declare("q", passive=True)
    channel.exchange_declare("x", passive=True)
    channel.qos(1)
    channel.recover()
    channel.cancel("nobody")
    channel.tx_select()
    channel.tx_commit()
    channel.tx_rollback()


Q, X, Y = ("queue", "q"), ("exchange", "x"), ("exchange", "y")
NEW_QUEUE, NEW_EXCHANGE = ("queue", "new"), ("exchange", "new")
DEAD_LETTERS = {"x-dead-letter-exchange": "y"}
OPERATIONS: Final = (
    Operation("exchange.declare", (("configure", *NEW_EXCHANGE),), new("exchange")),
    Operation(
        "exchange.declare, again",
        (("configure", *X),),
        lambda channel: channel.exchange_declare("x"),
    ),
    Operation(
        "exchange.declare with an alternate exchange",
        (("configure", *NEW_EXCHANGE), ("read", *NEW_EXCHANGE), ("write", *Y)),
        new("exchange", arguments={"alternate-exchange": "y"}),
    ),
    Operation(
        "exchange.delete",
        (("configure", *NEW_EXCHANGE),),
        lambda channel: channel.exchange_delete("new"),
    ),
    Operation(
        "exchange.bind",
        (("write", *Y), ("read", *X)),
        lambda channel: channel.exchange_bind("y", "x", "k"),
    ),
    Operation(
        "exchange.unbind",
        (("write", *Y), ("read", *X)),
        lambda channel: channel.exchange_unbind("y", "x", "k"),
    ),
    Operation("queue.declare", (("configure", *NEW_QUEUE),), new("queue")),
    Operation(
        "queue.declare, again", (("configure", *Q),), lambda channel: channel.queue_declare("q")
    ),
    Operation(
        "queue.declare with dead letters",
        (("configure", *NEW_QUEUE), ("read", *NEW_QUEUE), ("write", *Y)),
        new("queue", arguments=DEAD_LETTERS),
    ),
    Operation(
        "queue.declare with dead letters to the default exchange",
        (("configure", *NEW_QUEUE), ("read", *NEW_QUEUE), ("write", "exchange", "amq.default")),
        new("queue", arguments={"x-dead-letter-exchange": ""}),
    ),
    Operation(
        "queue.delete",
        (("configure", *NEW_QUEUE),),
        lambda channel: channel.queue_delete("new"),
    ),
    Operation(
        "queue.bind",
        (("write", *Q), ("read", *X)),
        lambda channel: channel.queue_bind("q", "x", "k"),
    ),
    Operation(
        "queue.unbind",
        (("write", *Q), ("read", *X)),
        lambda channel: channel.queue_unbind("q", "x", "k"),
    ),
    Operation("queue.purge", (("read", *Q),), lambda channel: channel.queue_purge("q")),
    Operation("basic.get", (("read", *Q),), lambda channel: channel.get("q")),
    Operation("basic.consume", (("read", *Q),), consumed),
    Operation("basic.publish", (("write", *X),), published(exchange="x")),
    Operation(
        "basic.publish to the default exchange",
        (("write", "exchange", "amq.default"),),
        published(routing_key="nobody"),
    ),
    Operation(
        "basic.publish to what is not there",
        (("write", "exchange", "nowhere"),),
        published(exchange="nowhere"),
    ),
    Operation("nothing", (), unasked),
)


def text(need: Need) -> str:
    _, kind, name = need
    return f"ACCESS_REFUSED - access to {kind} '{name}' in vhost '/' refused for user '{USER}'"


class Desk:
    """One user with a connection, and what is allowed to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.admin = broker.connect().channel()
        broker.control("add_user", user=USER, password="secret")
        self.allow({})
        for name, kind in NAMES.items():
            self.admin.exchange_declare(name, kind)
        self.admin.queue_declare("q")
        self.client = broker.connect(user=USER, password="secret")

    def allow(self, patterns: dict[str, str]) -> None:
        given = {access: patterns.get(access, "") for access in ACCESS}
        self.broker.control("set_permissions", user=USER, **given)

    def check(self, operation: Operation, patterns: dict[str, str], refusal: Need | None) -> None:
        """Run an operation with these permissions, and demand its end or this refusal."""
        self.allow(patterns)
        channel = self.client.channel(1)
        if refusal is not None:
            send_first(operation, channel)
            channel.expect_close(403, text(refusal))
        elif operation.name.endswith("what is not there"):
            send_first(operation, channel)
            channel.expect_close(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'")
        else:
            operation.run(channel)
            channel.close()
        self.tidy()

    def tidy(self) -> None:
        self.admin.exchange_delete("new")
        self.admin.exchange_unbind("y", "x", "k")
        self.admin.queue_unbind("q", "x", "k")
        # An exclusive queue belongs to the other connection, which may not delete it any more.
        self.allow({"configure": "^new$"})
        channel = self.client.channel(1)
        channel.queue_delete("new")
        channel.close()


class Refused(Exception):
    """The first reply to an operation was a close of its channel."""


def send_first(operation: Operation, channel: Channel) -> None:
    """Run an operation up to its first method, whose reply the caller takes."""

    class OnlySends(Channel):
        def expect(self, name: str, *, within: float | None = None, **wanted: Any) -> Any:
            raise Refused

        def sync(self) -> None:
            raise Refused

        def get(self, queue: str = "", *, no_ack: bool = False) -> Any:
            self.send("basic.get", queue=queue, no_ack=no_ack)
            raise Refused

    with pytest.raises(Refused):
        operation.run(OnlySends(channel.client, channel.number))


@pytest.fixture(scope="module")
def desk(broker: Broker) -> Iterator[Desk]:
    if broker.is_reference or broker.log is None:
        pytest.skip("permissions are set by Warren's own commands")
    found = Desk(broker)
    yield found
    found.client.close()
    for name in NAMES:
        found.admin.exchange_delete(name)
    found.admin.queue_delete("q")
    found.admin.client.close()
    broker.control("delete_user", user=USER)


@pytest.mark.rule("VH-3", "CH-21", "XC-2")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_combination(desk: Desk, operation: Operation) -> None:
    for count in range(4):
        for given in itertools.combinations(ACCESS, count):
            missing = next((need for need in operation.needs if need[0] not in given), None)
            desk.check(operation, dict.fromkeys(given, ".*"), missing)


def exact(needs: tuple[Need, ...]) -> dict[str, str]:
    """Patterns for these names and no others."""
    found: dict[str, str] = {}
    for access in ACCESS:
        names = [name for wanted, _, name in needs if wanted == access]
        if names:
            found[access] = "^(" + "|".join(name.replace(".", "\\.") for name in names) + ")$"
    return found


@pytest.mark.rule("VH-3", "CH-21")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_exactly_what_is_needed_and_all_but_that(desk: Desk, operation: Operation) -> None:
    desk.check(operation, exact(operation.needs), None)
    for place, need in enumerate(operation.needs):
        rest = operation.needs[:place] + operation.needs[place + 1 :]
        desk.check(operation, exact(rest), need)
        # Everything but this name, for the access that asks for it.
        all_but = dict.fromkeys(ACCESS, ".*") | {need[0]: f"^(?!{need[2]}$)"}
        desk.check(operation, all_but, need)


@pytest.mark.rule("VH-3", "QD-3")
def test_a_server_generated_name_needs_configure_too(desk: Desk) -> None:
    desk.allow({"configure": "^amq\\.gen-"})
    channel = desk.client.channel(1)
    channel.queue_declare(exclusive=True)
    desk.allow({"configure": "^q$"})
    channel.send("queue.declare", exclusive=True)
    close = channel.expect("channel.close", reply_code=403)
    assert close.reply_text.startswith("ACCESS_REFUSED - access to queue 'amq.gen-")
    channel.send("channel.close-ok")


@pytest.mark.rule("VH-3")
def test_patterns_are_searched_not_anchored(desk: Desk) -> None:
    desk.allow({"configure": "ew"})
    channel = desk.client.channel(1)
    channel.exchange_declare("new")
    desk.allow({"configure": "^ew"})
    channel.send("exchange.delete", exchange="new")
    channel.expect_close(403, text(("configure", "exchange", "new")))
    desk.tidy()


@pytest.mark.rule("VH-5")
def test_what_is_taken_away_is_gone_with_the_answer(desk: Desk) -> None:
    """A route that was cached for publishes does not outlive the permission."""
    desk.allow({"write": ".*"})
    channel = desk.client.channel(1)
    for _ in range(3):
        channel.publish(b"", exchange="y")
    channel.sync()
    desk.allow({})
    channel.publish(b"", exchange="y")
    channel.expect_close(403, text(("write", "exchange", "y")))
    desk.allow({"write": ".*"})
    channel = desk.client.channel(1)
    channel.publish(b"", exchange="y")
    channel.sync()
    channel.close()


@pytest.mark.rule("VH-4", "CH-36")
def test_topic_permissions(desk: Desk) -> None:
    """Write for the keys of publishes, read for those of bindings; of topic exchanges only."""
    desk.allow(dict.fromkeys(ACCESS, ".*"))
    patterns = {"write": "^{username}\\.[0-9]+$", "read": "^{vhost}{username}\\."}
    for exchange in ("t", "x"):
        desk.broker.control("set_topic_permissions", user=USER, exchange=exchange, **patterns)
    channel = desk.client.channel(1)
    channel.publish(b"", exchange="t", routing_key="matrix.1")
    # Keys in CC are not looked at, nor is any key of another type of exchange.
    channel.publish(b"", exchange="t", routing_key="matrix.1", headers={"CC": ["other"]})
    channel.publish(b"", exchange="x", routing_key="other")
    channel.queue_bind("q", "t", "/matrix.#")
    channel.queue_unbind("q", "t", "/matrix.#")
    channel.exchange_bind("y", "t", "/matrix.#")
    channel.exchange_unbind("y", "t", "/matrix.#")
    channel.queue_bind("q", "x", "other")
    channel.queue_unbind("q", "x", "other")

    def refused(key: str, name: str, **arguments: Any) -> None:
        channel = desk.client.channel(1)
        channel.send(name, **arguments)
        if name == "basic.publish":
            channel.client.send_content(1, b"")
        words = f"access to topic '{key}' in exchange 't' in vhost '/' refused for user '{USER}'"
        channel.expect_close(403, f"ACCESS_REFUSED - {words}")

    channel.close()
    refused("other", "basic.publish", exchange="t", routing_key="other")
    refused("matrix.1.2", "basic.publish", exchange="t", routing_key="matrix.1.2")
    for method in ("queue.bind", "queue.unbind"):
        refused("matrix.1", method, queue="q", exchange="t", routing_key="matrix.1")
    for method in ("exchange.bind", "exchange.unbind"):
        refused("matrix.1", method, destination="y", source="t", routing_key="matrix.1")
    desk.broker.control("clear_topic_permissions", user=USER)
    channel = desk.client.channel(1)
    channel.publish(b"", exchange="t", routing_key="other")
    channel.sync()
    channel.close()


@pytest.mark.rule("CE-2")
def test_a_vhost_without_permission_is_refused(desk: Desk) -> None:
    desk.broker.control("add_user", user="stranger", password="secret")
    client = desk.broker.raw()
    client.handshake(user="stranger", password="secret")
    client.negotiate()
    client.send(0, "connection.open", virtual_host="/")
    client.expect_close(
        530, "NOT_ALLOWED - access to vhost '/' refused for user 'stranger'", method=(10, 40)
    )
    desk.broker.control("set_permissions", user="stranger", configure="", write="", read="")
    desk.broker.connect(user="stranger", password="secret").close()
    desk.broker.control("delete_user", user="stranger")
