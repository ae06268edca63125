"""queue.declare, bind, unbind, purge, delete (spec section 5; permissions VH-3)."""

from typing import TYPE_CHECKING

from warren.core import AmqpError, reply
from warren.protocol.frame import frame
from warren.protocol.methods import (
    QUEUE_BIND_OK,
    QUEUE_UNBIND_OK,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)
from warren.queues import Queue
from warren.routing import (
    check_not_default,
    check_not_reserved,
    clean_name,
    no_queue,
    queue_label,
)
from warren.security import Access
from warren.session.access import check_access, check_topic
from warren.session.channel import Channel
from warren.vhost import PREFIX, PSEUDO_QUEUE, change
from warren.vhost.limit import check_queues
from warren.vhost.queue_argument import (
    QUORUM,
    check_equivalent,
    locked,
    validate,
    validate_quorum,
)
from warren.vhost.queue_rules import type_of

if TYPE_CHECKING:
    from warren.session.connection import Connection


def named(channel: Channel, name: str) -> str:
    """The queue a method means: the given one, or the last one declared on the channel (QD-4)."""
    if name:
        return name
    if not channel.last_queue:
        raise AmqpError(reply.NOT_FOUND, "no previously declared queue")
    return channel.last_queue


def existing(connection: "Connection", name: str) -> Queue:
    """Return a queue this connection may use; 404 without one, 405 if another owns it (QD-2)."""
    vhost = connection.vhost()
    queue = vhost.queues.get(name)
    if queue is None:
        raise no_queue(name, vhost.name)
    check_owner(connection, queue)
    return queue


def check_owner(connection: "Connection", queue: Queue) -> None:
    if queue.owner not in (0, connection.identity):
        raise locked(queue.name, queue.vhost)


def on_declare(connection: "Connection", channel: Channel, method: QueueDeclare) -> None:
    name = clean_name(method.queue)
    if name.startswith(PSEUDO_QUEUE) and (name == PSEUDO_QUEUE or name.startswith(PREFIX)):
        _declare_reply_address(connection, channel, name, method.no_wait)
        return
    queue = existing(connection, name) if method.passive else _declare(connection, name, method)
    channel.last_queue = queue.name
    queue.touch()
    if not method.no_wait:
        ok = QueueDeclareOk(
            queue=queue.name,
            message_count=int(queue.ready()),
            consumer_count=len(queue.consumers.every),
        )
        connection.output.write(frame(1, channel.number, ok.encode()))


def _declare(connection: "Connection", name: str, method: QueueDeclare) -> Queue:
    vhost = connection.vhost()
    arguments = method.arguments
    if not name:
        name = connection.broker.generated_name("amq.gen-")
    else:
        check_not_reserved(name, what="queue")
    check_access(connection, Access.CONFIGURE, name, "queue")
    queue = vhost.queues.get(name)
    # QD-2: the durable flag of an exclusive queue means nothing.
    durable = method.durable and not method.exclusive
    if queue is not None:
        check_owner(connection, queue)
        if (queue.owner != 0) != method.exclusive:
            raise locked(name, vhost.name)
        check_equivalent(
            name,
            vhost.name,
            durable=(durable, queue.durable),
            auto_delete=(method.auto_delete, queue.auto_delete),
            arguments=(arguments, queue.arguments),
        )
        if durable:
            connection.hold(name)
        return queue
    check_queues(vhost, name)
    validate(arguments, name, vhost.name)
    if type_of(arguments) == QUORUM:
        validate_quorum(
            name,
            vhost.name,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            generated=not method.queue,
        )
        # Clients that ask for replication are told what they have (docs/compatibility.md).
        connection.broker.log.event(
            "warning", "queue.not_replicated", {"queue": name, "vhost": vhost.name}
        )
    dead_letter = arguments.get("x-dead-letter-exchange")
    if dead_letter is not None and isinstance(dead_letter.value, bytes):
        check_access(connection, Access.READ, name, "queue")
        name_of_letters = dead_letter.value.decode("utf-8", "replace")
        check_access(connection, Access.WRITE, name_of_letters, "exchange")
    connection.change(
        change.QueuePut(
            vhost=vhost.name,
            name=name,
            durable=durable,
            auto_delete=method.auto_delete,
            owner=connection.identity if method.exclusive else 0,
            arguments=change.encoded(arguments),
        )
    )
    if method.exclusive:
        connection.exclusive[name] = None
    return vhost.queues[name]


def _declare_reply_address(
    connection: "Connection", channel: Channel, name: str, no_wait: bool
) -> None:
    """DR-6: the declare of such a name is always passive."""
    if name != PSEUDO_QUEUE and name[len(PREFIX) :] not in connection.broker.reply_addresses:
        raise no_queue(name, connection.vhost().name)
    channel.last_queue = name
    if not no_wait:
        ok = QueueDeclareOk(queue=name, message_count=0, consumer_count=1)
        connection.output.write(frame(1, channel.number, ok.encode()))


def _bind_names(channel: Channel, queue: str, exchange: str, key: str) -> tuple[str, str, str]:
    """Queue, exchange and key as meant: an empty queue name may stand for the key too (QD-4)."""
    name = named(channel, clean_name(queue))
    if not queue and not key:
        key = name
    return name, clean_name(exchange), key


def _check_bind(connection: "Connection", name: str, exchange: str, key: str) -> None:
    check_access(connection, Access.WRITE, name, "queue")
    check_not_default(exchange)
    check_access(connection, Access.READ, exchange, "exchange")
    vhost = connection.vhost()
    found = vhost.routing.exchanges.get(exchange)
    if found is not None and found.kind == "topic":
        check_topic(connection, found, Access.READ, key.encode())
    queue = vhost.queues.get(name)
    # Without the exchange it is a 404, or nothing to unbind, whoever owns the queue.
    if queue is not None and found is not None:
        check_owner(connection, queue)


def on_bind(connection: "Connection", channel: Channel, method: QueueBind) -> None:
    name, exchange, key = _bind_names(channel, method.queue, method.exchange, method.routing_key)
    _check_bind(connection, name, exchange, key)
    connection.change(
        change.BindingPut(
            vhost=connection.vhost().name,
            source=exchange,
            destination=name,
            key=key,
            arguments=change.encoded(method.arguments),
        )
    )
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, QUEUE_BIND_OK))


def on_unbind(connection: "Connection", channel: Channel, method: QueueUnbind) -> None:
    name, exchange, key = _bind_names(channel, method.queue, method.exchange, method.routing_key)
    _check_bind(connection, name, exchange, key)
    connection.change(
        change.BindingDelete(
            vhost=connection.vhost().name,
            source=exchange,
            destination=name,
            key=key,
            arguments=change.encoded(method.arguments),
        )
    )
    connection.output.write(frame(1, channel.number, QUEUE_UNBIND_OK))


def on_purge(connection: "Connection", channel: Channel, method: QueuePurge) -> None:
    name = named(channel, method.queue)
    check_access(connection, Access.READ, name, "queue")
    count = existing(connection, name).purge()
    if not method.no_wait:
        ok = QueuePurgeOk(message_count=int(count))
        connection.output.write(frame(1, channel.number, ok.encode()))


def on_delete(connection: "Connection", channel: Channel, method: QueueDelete) -> None:
    name = named(channel, clean_name(method.queue))
    check_access(connection, Access.CONFIGURE, name, "queue")
    vhost = connection.vhost()
    queue = vhost.queues.get(name)
    count = 0
    deletion = change.QueueDelete(vhost=vhost.name, name=name)
    if queue is not None:
        check_owner(connection, queue)
        label = queue_label(name, vhost.name)
        if method.if_unused and queue.consumers.every:
            raise AmqpError(reply.PRECONDITION_FAILED, f"{label} in use")
        if method.if_empty and queue.ready() > 0:
            raise AmqpError(reply.PRECONDITION_FAILED, f"{label} not empty")
        count = int(queue.ready())
        connection.broker.metadata.check(deletion)
    if not method.no_wait:
        connection.output.write(
            frame(1, channel.number, QueueDeleteOk(message_count=count).encode())
        )
    # After the reply: consumers of this very channel hear of it as of a deletion by others (CS-5).
    if queue is not None:
        connection.exclusive.pop(name, None)
        connection.change(deletion)
