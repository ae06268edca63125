"""What each change of metadata does to the broker in memory: the one function that writes topology.

`perform` makes a change true and tells whether that took anything; `kept` tells beforehand whether
it belongs into the store: what vanishes with the node anyway does not (XC-7, QD-9). Both look at
the broker as it is now, so changes of one list are taken one after the other.

Refusals are `AmqpError`s in the words of the protocol; a refused change has done nothing. Who may
do what, and whether a declare equals what is there, has been checked before: an exchange, queue
or binding that exists is left as it is.
"""

from typing import TYPE_CHECKING

from warren.core import AmqpError
from warren.core.reply import NOT_FOUND
from warren.queues.retention import Cursor
from warren.security import Algorithm, Permission, TopicPermission, User
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    Change,
    CursorDelete,
    CursorPut,
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
    VHostTracing,
    decoded,
    policy_of,
)
from warren.vhost.delayed_exchange import join_store

if TYPE_CHECKING:
    from warren.queues import Queue
    from warren.vhost.broker import Broker
    from warren.vhost.vhost import VHost


def kept(broker: "Broker", change: Change) -> bool:
    """Whether a change is for the store, as things are before it."""
    if isinstance(change, QueuePut):
        return change.durable and change.owner == 0
    if isinstance(change, BindingPut | BindingDelete):
        return _joins_durables(broker, change)
    if isinstance(change, CursorPut | CursorDelete):
        return _queue_of(broker, change) is not None
    if isinstance(change, QueueDelete):
        vhost = broker.vhosts.get(change.vhost)
        queue = None if vhost is None else vhost.queues.get(change.name)
        return queue is not None and queue.durable
    if isinstance(change, ExchangePut):
        return change.durable
    if isinstance(change, ExchangeDelete):
        vhost = broker.vhosts.get(change.vhost)
        exchange = None if vhost is None else vhost.routing.exchanges.get(change.name)
        return exchange is not None and exchange.durable
    return not isinstance(change, VHostTracing)


def _joins_durables(broker: "Broker", change: BindingPut | BindingDelete) -> bool:
    vhost = broker.vhosts.get(change.vhost)
    if vhost is None:
        return False
    source = vhost.routing.exchanges.get(change.source)
    if source is None or not source.durable:
        return False
    if change.to_queue:
        queue = vhost.queues.get(change.destination)
        return queue is not None and queue.durable
    exchange = vhost.routing.exchanges.get(change.destination)
    return exchange is not None and exchange.durable


def needless(broker: "Broker", change: Change) -> bool:
    """Whether a change is true already, for the kinds that clients ask for again and again."""
    if not isinstance(change, BindingPut):
        return False
    vhost = broker.vhosts.get(change.vhost)
    return vhost is not None and vhost.routing.bound(
        change.source,
        change.destination,
        change.key.encode(),
        decoded(change.arguments),
        to_queue=change.to_queue,
    )


def perform(broker: "Broker", change: Change) -> bool:
    """Make a change true; False when it was true before."""
    match change:
        case QueuePut():
            return _put_queue(broker, change)
        case BindingPut():
            return _bind(broker, change)
        case QueueDelete():
            return _delete_queue(broker, change)
        case BindingDelete():
            return _unbind(broker, change)
        case CursorPut() | CursorDelete():
            return _move_cursor(broker, change)
        case ExchangePut():
            return _put_exchange(broker, change)
        case ExchangeDelete():
            return _delete_exchange(broker, change)
        case VHostPut():
            return broker.put_vhost(change)
        case VHostDelete():
            return broker.delete_vhost(change.name)
        case (
            VHostLimitsPut()
            | VHostTracing()
            | ParameterPut()
            | ParameterDelete()
            | PolicyPut()
            | PolicyDelete()
        ):
            return _in_vhost(broker, change)
        case GlobalParameterPut() | GlobalParameterDelete():
            return _put_global(broker, change)
        case _:
            return _for_user(broker, change)


def _put_global(broker: "Broker", change: GlobalParameterPut | GlobalParameterDelete) -> bool:
    if isinstance(change, GlobalParameterDelete):
        return broker.global_parameters.pop(change.name, None) is not None
    broker.global_parameters[change.name] = change.value
    return True


def _vhost(broker: "Broker", name: str) -> "VHost":
    found = broker.vhosts.get(name)
    if found is None:
        raise AmqpError(NOT_FOUND, f"no vhost '{name}'")
    return found


# -- topology --------------------------------------------------------------------------------------


def _put_queue(broker: "Broker", change: QueuePut) -> bool:
    vhost = _vhost(broker, change.vhost)
    if change.name in vhost.queues:
        return False
    vhost.add_queue(
        change.name,
        # QD-2: the durable flag of an exclusive queue means nothing.
        durable=change.durable and change.owner == 0,
        auto_delete=change.auto_delete,
        owner=change.owner,
        arguments=decoded(change.arguments),
        incarnation=change.incarnation,
    )
    return True


def _delete_queue(broker: "Broker", change: QueueDelete) -> bool:
    vhost = broker.vhosts.get(change.vhost)
    queue = None if vhost is None else vhost.queues.get(change.name)
    if vhost is None or queue is None:
        return False
    vhost.drop_queue(queue)
    return True


def _queue_of(broker: "Broker", change: CursorPut | CursorDelete) -> "Queue | None":
    """The queue of a cursor, if it is that one and stored."""
    vhost = broker.vhosts.get(change.vhost)
    queue = None if vhost is None else vhost.queues.get(change.queue)
    if queue is None or queue.index is None:
        return None
    if isinstance(change, CursorPut) and change.incarnation != queue.incarnation:
        return None
    return queue


def _move_cursor(broker: "Broker", change: CursorPut | CursorDelete) -> bool:
    queue = _queue_of(broker, change)
    storage = broker.turn.storage
    if queue is None or storage is None:
        return False
    # What it held before is held until this is stored.
    ticket = broker.metadata.ticket + 1
    if isinstance(change, CursorDelete):
        return storage.retention.delete_cursor(queue, change.name, ticket)
    cursor = Cursor(change.name, change.seq, change.epoch, change.at_ms)
    return storage.retention.put_cursor(queue, cursor, ticket)


def _put_exchange(broker: "Broker", change: ExchangePut) -> bool:
    vhost = _vhost(broker, change.vhost)
    if change.name in vhost.routing.exchanges:
        return False
    arguments = decoded(change.arguments)
    if change.durable:
        # A stored exchange may be of a type that this node does not have (XC-7).
        made = vhost.routing.restore_exchange(
            change.name,
            change.kind,
            auto_delete=change.auto_delete,
            internal=change.internal,
            arguments=arguments,
        )
    else:
        made = vhost.routing.declare_exchange(
            change.name,
            change.kind,
            auto_delete=change.auto_delete,
            internal=change.internal,
            arguments=arguments,
        )
    join_store(vhost, made, change.incarnation)
    vhost.policies.match_exchange(made)
    vhost.changed()
    return True


def _delete_exchange(broker: "Broker", change: ExchangeDelete) -> bool:
    vhost = broker.vhosts.get(change.vhost)
    if vhost is None or not vhost.routing.delete_exchange(change.name):
        return False
    vhost.sweep()
    return True


def _bind(broker: "Broker", change: BindingPut) -> bool:
    vhost = _vhost(broker, change.vhost)
    made = vhost.routing.bind(
        change.source,
        change.destination,
        change.key.encode(),
        decoded(change.arguments),
        to_queue=change.to_queue,
    )
    if made:
        vhost.changed()
    return made


def _unbind(broker: "Broker", change: BindingDelete) -> bool:
    vhost = broker.vhosts.get(change.vhost)
    if vhost is None or not vhost.routing.unbind(
        change.source,
        change.destination,
        change.key.encode(),
        decoded(change.arguments),
        to_queue=change.to_queue,
    ):
        return False
    vhost.sweep()
    return True


# -- what a vhost has besides ----------------------------------------------------------------------


def _in_vhost(
    broker: "Broker",
    change: VHostLimitsPut
    | VHostTracing
    | ParameterPut
    | ParameterDelete
    | PolicyPut
    | PolicyDelete,
) -> bool:
    vhost = broker.vhosts.get(change.vhost)
    if vhost is None:
        if isinstance(change, ParameterDelete | PolicyDelete):
            return False
        raise AmqpError(NOT_FOUND, f"no vhost '{change.vhost}'")
    match change:
        case VHostLimitsPut():
            vhost.put_limits(dict(change.limits))
        case VHostTracing():
            return vhost.trace(change.tracing)
        case ParameterPut():
            vhost.parameters[change.component, change.name] = change.value
        case ParameterDelete():
            return vhost.parameters.pop((change.component, change.name), None) is not None
        case PolicyPut():
            vhost.policies.put(policy_of(change))
        case PolicyDelete():
            return vhost.policies.remove(change.name, operator=change.operator)
    return True


# -- users and what they may -----------------------------------------------------------------------


def _for_user(broker: "Broker", change: Change) -> bool:
    users, permissions = broker.users, broker.permissions
    done = True
    match change:
        case UserPut(name=name, password_hash=hashed, algorithm=algorithm, tags=tags):
            users.put(User(name, hashed, Algorithm(algorithm), tags))
        case UserDelete(name=name):
            done = users.get(name) is not None
            if done:
                broker.delete_user(name)
        case UserLimitsPut(user=name, limits=limits):
            broker.put_user_limits(name, dict(limits))
        case PermissionPut(user=user, vhost=vhost, configure=configure, write=write, read=read):
            permissions.put(Permission(user, vhost, configure, write, read))
        case PermissionDelete(user=user, vhost=vhost):
            done = permissions.clear(user, vhost)
        case TopicPermissionPut(user=user, vhost=vhost, exchange=exchange, write=write, read=read):
            permissions.put_topic(TopicPermission(user, vhost, exchange, write, read))
        case TopicPermissionDelete(user=user, vhost=vhost, exchange=exchange):
            done = permissions.clear_topic(user, vhost, exchange)
        case _:
            raise TypeError(f"no effect for {type(change).__name__}")
    if done:
        # Routes remember what their user may do.
        broker.version += 1
    return done
