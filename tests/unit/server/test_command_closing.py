"""Commands that close connections, and that empty and delete queues: what they take and refuse."""

import json
from collections.abc import Iterator

import pytest

import warren.testing
from tests.support.expectation import NothingCame
from tests.support.wire import Client
from warren.testing import CommandError


@pytest.fixture
def broker() -> Iterator[warren.testing.Broker]:
    with warren.testing.Broker() as started:
        yield started


@pytest.fixture
def connect(broker: warren.testing.Broker) -> Iterator["Connect"]:
    made = Connect(broker)
    yield made
    for client in made.clients:
        client.drop()


class Connect:
    """Makes clients."""

    def __init__(self, broker: warren.testing.Broker) -> None:
        self.broker = broker
        self.clients: list[Client] = []

    def __call__(self) -> Client:
        client = Client(self.broker.host, self.broker.port)
        self.clients.append(client)
        return client.open()


def name_of(client: Client) -> str:
    host, port = client.socket.getsockname()
    return f"{host}:{port}"


def refusal(broker: warren.testing.Broker, command: str, **arguments: object) -> tuple[str, str]:
    with pytest.raises(CommandError) as caught:
        broker.command(command, **arguments)
    return caught.value.code, caught.value.message


@pytest.mark.rule("CE-31")
def test_a_connection_is_named_in_three_ways(
    broker: warren.testing.Broker, connect: Connect
) -> None:
    by_name, by_both_ends, by_pid, other = connect(), connect(), connect(), connect()
    broker.command("close_connection", pid=name_of(by_name), reason="a")
    by_name.expect_close(320, "CONNECTION_FORCED - a")
    ends = f"{name_of(by_both_ends)} -> 127.0.0.1:{broker.port}"
    broker.command("close_connection", pid=ends, reason="b")
    by_both_ends.expect_close(320, "CONNECTION_FORCED - b")
    port = by_pid.socket.getsockname()[1]
    rows = broker.command("list_connections", columns=("pid", "peer_port"))["rows"]
    assert isinstance(rows, list)
    (pid,) = [pid for pid, peer_port in rows if peer_port == port]
    broker.command("close_connection", pid=pid, reason="c")
    by_pid.expect_close(320, "CONNECTION_FORCED - c")
    other.channel()


@pytest.mark.parametrize("pid", ["nobody", "127.0.0.1:1", "<warren@testing.1.1.0>", "<>"])
def test_a_connection_that_is_not_there_is_told(broker: warren.testing.Broker, pid: str) -> None:
    # The node was started at another time than a process id of the first says.
    told = refusal(broker, "close_connection", pid=pid, reason="x")
    assert told == ("not_found", f"there is no connection '{pid}' on this node")


@pytest.mark.rule("CE-31")
def test_a_long_reason_is_cut(broker: warren.testing.Broker, connect: Connect) -> None:
    client = connect()
    broker.command("close_connection", pid=name_of(client), reason="ö" * 300)
    close = client.next_event()
    assert close.name == "connection.close"
    assert len(close.reply_text.encode()) <= 255


@pytest.mark.rule("CE-31")
def test_closing_may_take_its_time(broker: warren.testing.Broker, connect: Connect) -> None:
    """One a second; other work goes on between."""
    clients = [connect() for _ in range(3)]
    broker.clock.stop()
    node = broker._engine.node
    arguments = {"reason": "x", "per_connection_delay": 1000}
    request = {"v": 1, "command": "close_all_connections", "args": arguments}
    asked = broker._engine.submit(node.control.answer(json.dumps(request).encode()))
    for client in clients:
        broker.settle()
        client.expect_close(320, "CONNECTION_FORCED - x")
        for later in clients[clients.index(client) + 1 :]:
            with pytest.raises(NothingCame):
                later.expect_close(320, "CONNECTION_FORCED - x", within=0.01)
        broker.clock.advance(1)
    assert b'"ok":{"closed":3}' in asked.result(10)


@pytest.mark.rule("CE-31")
def test_many_are_closed_and_counted(broker: warren.testing.Broker, connect: Connect) -> None:
    for _ in range(250):
        connect()
    assert broker.command("close_all_connections", vhost="/", limit=50) == {"closed": 50}
    # Those that are on their way out are not closed again.
    assert broker.command("close_all_connections") == {"closed": 200}
    assert broker.command("close_all_user_connections", user="guest") == {"closed": 0}
    told = refusal(broker, "close_all_user_connections", user="nobody")
    assert told == ("not_found", 'User "nobody" does not exist')


@pytest.mark.rule("QD-8")
def test_a_queue_is_deleted_on_conditions(broker: warren.testing.Broker, connect: Connect) -> None:
    channel = connect().channel()
    queue = broker.declare_queue("q")
    tag = channel.consume(queue)
    told = refusal(broker, "delete_queue", queue=queue, if_unused=True)
    assert told == ("refused", "Queue is in use")
    channel.cancel(tag)
    broker.publish(b"x", queue)
    told = refusal(broker, "delete_queue", queue=queue, if_empty=True)
    assert told == ("refused", "Queue is not empty")
    assert broker.command("delete_queue", queue=queue, if_unused=True) == {"messages": 1}
    told = refusal(broker, "delete_queue", queue=queue)
    assert told == ("not_found", "there is no queue 'q' in vhost '/'")
    assert refusal(broker, "purge_queue", queue="q", vhost="none")[0] == "not_found"


@pytest.mark.rule("QD-8")
def test_a_purge_tells_how_many_went(broker: warren.testing.Broker) -> None:
    broker.declare_queue("q")
    for _ in range(5):
        broker.publish(b"x", "q")
    assert broker.command("purge_queue", queue="q") == {"messages": 5}
    assert broker.ready("q") == 0
