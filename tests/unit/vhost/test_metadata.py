"""Metadata changes in one place: in memory at once, in the backend what outlives the node."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.machine import Machine
from warren.core import AmqpError
from warren.security import Access
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    Change,
    ExchangeDelete,
    ExchangePut,
    GlobalParameterDelete,
    GlobalParameterPut,
    ParameterDelete,
    ParameterPut,
    PermissionDelete,
    PermissionPut,
    PolicyDelete,
    PolicyPut,
    QueueDelete,
    QueuePut,
    TopicPermissionDelete,
    TopicPermissionPut,
    UserDelete,
    UserLimitsPut,
    UserPut,
    VHostDelete,
    VHostLimitsPut,
    VHostPut,
)


class Recorder:
    """A backend that keeps what it was given, and fails when it is told to."""

    def __init__(self) -> None:
        self.failure = ""
        self.changes: list[Change] = []
        self.calls = 0

    def put(self, changes: Sequence[Change]) -> int:
        self.calls += 1
        self.changes += changes
        return self.calls

    def take(self) -> list[Change]:
        taken, self.changes = self.changes, []
        return taken


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def backend(machine: Machine) -> Recorder:
    backend = Recorder()
    machine.broker.metadata.backend = backend
    return backend


X = ExchangePut(vhost="/", name="x", kind="direct", durable=True)
Q = QueuePut(vhost="/", name="q", durable=True)
B = BindingPut(vhost="/", source="x", destination="q", key="k")


@pytest.mark.rule("XC-7", "QD-9")
def test_only_what_outlives_the_node_is_stored(machine: Machine, backend: Recorder) -> None:
    brief_x = ExchangePut(vhost="/", name="brief-x", kind="fanout")
    brief_q = QueuePut(vhost="/", name="brief-q")
    owned = QueuePut(vhost="/", name="owned", durable=True, owner=1)
    machine.broker.metadata.apply((X, Q, brief_x, brief_q, owned))
    assert backend.take() == [X, Q]
    bindings = [
        BindingPut(vhost="/", source=source, destination=queue)
        for source in ("x", "brief-x")
        for queue in ("q", "brief-q", "owned")
    ]
    between = BindingPut(vhost="/", source="x", destination="brief-x", to_queue=False)
    machine.broker.metadata.apply((*bindings, between))
    # Not even of a queue that is durable by its flag and exclusive besides (QD-2).
    assert backend.take() == [bindings[0]]


def test_what_is_true_already_is_not_stored_again(machine: Machine, backend: Recorder) -> None:
    metadata = machine.broker.metadata
    first = metadata.apply((X, Q, B))
    assert metadata.apply((X, Q, B)) == first == 1
    assert backend.take() == [X, Q, B]
    assert metadata.apply((QueueDelete(vhost="/", name="none"),)) == 0
    assert backend.take() == []


def test_changes_have_their_effect_and_their_ticket_at_once(
    machine: Machine, backend: Recorder
) -> None:
    metadata, vhost = machine.broker.metadata, machine.vhost
    assert metadata.apply((QueuePut(vhost="/", name="brief"),)) == 0
    assert metadata.apply((X, Q)) == 1
    assert metadata.apply((B,)) == 2
    assert vhost.routing.bound("x", "q", b"k", {}, to_queue=True)
    assert metadata.apply((BindingDelete(vhost="/", source="x", destination="q", key="k"),)) == 3
    assert not vhost.routing.bound("x", "q", b"k", {}, to_queue=True)
    assert metadata.apply((QueueDelete(vhost="/", name="q"),)) == 4
    assert metadata.apply((ExchangeDelete(vhost="/", name="x"),)) == 5
    assert list(vhost.queues) == ["brief"]
    assert "x" not in vhost.routing.exchanges


def test_a_refusal_ends_the_list_and_keeps_what_was_done(
    machine: Machine, backend: Recorder
) -> None:
    lost = BindingPut(vhost="/", source="nowhere", destination="q")
    with pytest.raises(AmqpError) as refusal:
        machine.broker.metadata.apply((Q, lost, X))
    assert refusal.value.code == 404
    assert backend.take() == [Q]
    assert "x" not in machine.vhost.routing.exchanges


@pytest.mark.rule("XC-5")
def test_an_exchange_that_goes_with_its_last_binding_goes_from_the_store(
    machine: Machine, backend: Recorder
) -> None:
    auto = ExchangePut(vhost="/", name="x", kind="direct", durable=True, auto_delete=True)
    machine.broker.metadata.apply((auto, Q, B))
    backend.take()
    machine.broker.metadata.apply((QueueDelete(vhost="/", name="q"),))
    assert set(map(type, backend.take())) == {QueueDelete, ExchangeDelete}
    assert backend.calls == 2


@pytest.mark.rule("XC-5")
def test_what_follows_from_a_list_is_stored_in_its_place(
    machine: Machine, backend: Recorder
) -> None:
    auto = ExchangePut(vhost="/", name="x", kind="direct", durable=True, auto_delete=True)
    gone = BindingDelete(vhost="/", source="x", destination="q", key="k")
    machine.broker.metadata.apply((Q, auto, B, gone))
    stored = backend.take()
    assert stored.index(ExchangeDelete(vhost="/", name="x")) > stored.index(auto)
    assert "x" not in machine.vhost.routing.exchanges


@pytest.mark.rule("XC-5")
def test_so_does_one_whose_bindings_go_in_slices(machine: Machine, backend: Recorder) -> None:
    auto = ExchangePut(vhost="/", name="x", kind="direct", durable=True, auto_delete=True)
    bindings = [BindingPut(vhost="/", source="x", destination="q", key=str(n)) for n in range(3000)]
    machine.broker.metadata.apply((Q, auto, *bindings))
    backend.take()
    machine.broker.metadata.apply((QueueDelete(vhost="/", name="q"),))
    assert backend.take() == [QueueDelete(vhost="/", name="q")]
    machine.turn()
    assert backend.take() == [ExchangeDelete(vhost="/", name="x")]


@pytest.mark.rule("QD-6")
def test_a_queue_that_goes_with_its_last_consumer_goes_from_the_store(
    machine: Machine, backend: Recorder
) -> None:
    client = machine.client()
    client.channel()
    client.queue("auto", durable=True, auto_delete=True)
    client.consume("auto", consumer_tag="t")
    backend.take()
    client.call(1, "basic.cancel", consumer_tag="t")
    assert backend.take() == [QueueDelete(vhost="/", name="auto")]


def test_what_clients_do_is_stored(machine: Machine, backend: Recorder) -> None:
    client = machine.client()
    client.channel()
    client.call(1, "exchange.declare", exchange="x", type="direct", durable=True)
    client.queue("q", durable=True)
    client.call(1, "queue.bind", queue="q", exchange="x", routing_key="k")
    assert backend.take() == [X, Q, B]
    client.call(1, "exchange.bind", source="x", destination="amq.fanout", routing_key="e")
    bound = backend.take()
    client.call(1, "exchange.unbind", source="x", destination="amq.fanout", routing_key="e")
    client.call(1, "queue.unbind", queue="q", exchange="x", routing_key="k")
    client.call(1, "queue.delete", queue="q")
    client.call(1, "exchange.delete", exchange="x")
    to_exchange: dict[str, Any] = {
        "source": "x",
        "destination": "amq.fanout",
        "to_queue": False,
        "key": "e",
    }
    assert bound == [BindingPut(vhost="/", **to_exchange)]
    assert backend.take() == [
        BindingDelete(vhost="/", **to_exchange),
        BindingDelete(vhost="/", source="x", destination="q", key="k"),
        QueueDelete(vhost="/", name="q"),
        ExchangeDelete(vhost="/", name="x"),
    ]


def test_an_answer_about_something_durable_waits_for_its_commit(
    machine: Machine, backend: Recorder
) -> None:
    client = machine.client()
    client.channel()
    output = client.connection.output
    client.queue("brief")
    assert output.hold == 0
    client.queue("q", durable=True)
    assert output.hold == 1
    other = machine.client()
    other.channel()
    for _ in range(2):
        # The same declare by another client: it is as true as the first one, and no truer.
        other.queue("q", durable=True)
        assert other.connection.output.hold == 1


def test_while_the_backend_fails_nothing_durable_is_changed(
    machine: Machine, backend: Recorder
) -> None:
    metadata = machine.broker.metadata
    metadata.apply((X, Q, B))
    metadata.committed(1)
    backend.take()
    metadata.apply((QueuePut(vhost="/", name="doubtful", durable=True),))
    backend.failure = "disk full"
    metadata.failed()
    refused = (
        QueuePut(vhost="/", name="new", durable=True),
        QueueDelete(vhost="/", name="q"),
        BindingPut(vhost="/", source="x", destination="q", key="other"),
        UserDelete(name="guest"),
    )
    for change in refused:
        with pytest.raises(AmqpError) as refusal:
            metadata.apply((change,))
        assert refusal.value.code == 506
        assert refusal.value.detail == "metadata cannot be stored: disk full"
        with pytest.raises(AmqpError):
            metadata.check(change)
    assert "new" not in machine.vhost.queues
    assert "q" in machine.vhost.queues
    # What is transient goes on, and what is stored may be asked for again.
    assert metadata.apply((QueuePut(vhost="/", name="brief"),)) == 0
    assert metadata.apply((B,)) == 0
    assert metadata.ticket_of("/", "q") == 0
    with pytest.raises(AmqpError):
        metadata.ticket_of("/", "doubtful")
    # What follows by itself cannot be refused: it is stored when that is possible again.
    machine.vhost.delete_queue(machine.vhost.queues["q"])
    assert backend.take()[-1] == QueueDelete(vhost="/", name="q")
    backend.failure = ""
    metadata.committed(backend.calls)
    assert metadata.ticket_of("/", "doubtful") == backend.calls


def test_users_and_permissions_make_cached_routes_void(machine: Machine) -> None:
    broker, metadata = machine.broker, machine.broker.metadata
    user = UserPut(
        name="u", password_hash="", algorithm="rabbit_password_hashing_sha256", tags=("a",)
    )
    steps: list[Change] = [
        user,
        PermissionPut(user="u", vhost="/", configure="", write="", read="^r"),
        TopicPermissionPut(user="u", vhost="/", exchange="amq.topic", write="w", read="r"),
        TopicPermissionDelete(user="u", vhost="/", exchange="amq.topic"),
        PermissionDelete(user="u", vhost="/"),
        UserDelete(name="u"),
    ]
    for step in steps:
        version = broker.version
        metadata.apply((step,))
        assert broker.version > version, step
        metadata.apply((step,))
    assert broker.users.get("u") is None
    metadata.apply(steps[:2])
    assert broker.users.get("u").tags == ("a",)  # type: ignore[union-attr]
    assert broker.permissions.allowed("u", "/", Access.READ, "ready")


@pytest.mark.rule("VH-2")
def test_limits_are_shown_by_name(machine: Machine) -> None:
    metadata = machine.broker.metadata
    assert metadata.limits_of_vhost("/") == metadata.limits_of_user("guest") == {}
    metadata.apply(
        (
            VHostLimitsPut(vhost="/", limits={"max-queues": 0}),
            UserLimitsPut(user="guest", limits={"max-channels": 3}),
        )
    )
    assert metadata.limits_of_vhost("/") == {"max-queues": 0}
    assert metadata.limits_of_user("guest") == {"max-channels": 3}
    metadata.apply((VHostLimitsPut(vhost="/", limits={}), UserLimitsPut(user="guest", limits={})))
    assert metadata.limits_of_vhost("/") == metadata.limits_of_user("guest") == {}
    assert metadata.limits_of_vhost("none") == metadata.limits_of_user("nobody") == {}
    with pytest.raises(AmqpError):
        metadata.apply((VHostLimitsPut(vhost="none", limits={"max-queues": 1}),))


def test_parameters_and_policies_are_values(machine: Machine, backend: Recorder) -> None:
    metadata, vhost = machine.broker.metadata, machine.vhost
    policy = PolicyPut(vhost="/", name="p", pattern="^q", definition=b'{"max-length":5}')
    parameter = ParameterPut(vhost="/", component="c", name="n", value=b"1")
    everywhere = GlobalParameterPut(name="cluster_name", value=b'"here"')
    metadata.apply((policy, parameter, everywhere))
    assert vhost.parameters == {("c", "n"): b"1"}
    assert machine.broker.global_parameters == {"cluster_name": b'"here"'}
    assert backend.take() == [policy, parameter, everywhere]
    gone: list[Change] = [
        PolicyDelete(vhost="/", name="p"),
        ParameterDelete(vhost="/", component="c", name="n"),
        GlobalParameterDelete(name="cluster_name"),
    ]
    for each in gone:
        assert metadata.apply((each, each)) > 0
    assert vhost.parameters == {}
    assert machine.broker.global_parameters == {}
    # Deletions of what is there are stored once, of what is not, never.
    assert backend.take() == gone
    metadata.apply((PolicyDelete(vhost="none", name="p"),))
    assert backend.take() == []


@pytest.mark.rule("VH-1", "VH-6")
def test_a_vhost_goes_with_everything_in_it(machine: Machine, backend: Recorder) -> None:
    broker, metadata = machine.broker, machine.broker.metadata
    v = VHostPut(name="v", description="first", tags=("a",))
    metadata.apply((v, QueuePut(vhost="v", name="q", durable=True), Q))
    metadata.apply((PermissionPut(user="guest", vhost="v", configure="", write="", read=""),))
    for number in range(120):
        metadata.apply((QueuePut(vhost="v", name=f"q{number}"),))
    old = broker.vhosts["v"]
    for number in range(1500):
        old.routing.bind("amq.direct", "q", b"%d" % number, {}, to_queue=True)
    metadata.apply((VHostDelete(name="v"),))
    assert "v" not in broker.vhosts
    assert not broker.permissions.may_enter("guest", "v")
    metadata.apply((VHostPut(name="v", description="second"), QueuePut(vhost="v", name="q")))
    machine.turn()
    assert old.queues == {}
    assert list(old.routing.exchanges) == [""]
    assert list(broker.vhosts["v"].queues) == ["q"]
    assert broker.vhosts["v"].description == "second"
    assert list(machine.vhost.queues) == ["q"]


def test_what_cannot_be_restored_is_told_and_the_rest_is(machine: Machine) -> None:
    problems = machine.broker.metadata.restore(
        (
            ExchangePut(vhost="/", name="odd", kind="x-gone", durable=True),
            BindingPut(vhost="/", source="none", destination="q"),
            PermissionPut(user="u", vhost="/", configure="(", write="", read=""),
            Q,
        )
    )
    assert len(problems) == 2
    assert "no exchange 'none'" in problems[0]
    assert "PermissionPut" in problems[1]
    assert "q" in machine.vhost.queues
    # XC-7: an exchange whose type is not there any more is kept, and can be deleted.
    assert machine.vhost.routing.exchanges["odd"].kind == "x-gone"
