"""basic.qos, consume, cancel, get, recover, nack, reject, and confirm and tx (spec 6.2 to 6.6)."""

from typing import TYPE_CHECKING

from warren.core import AmqpError, reply
from warren.protocol.frame import frame
from warren.protocol.methods import (
    BASIC_GET_EMPTY,
    BASIC_QOS_OK,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicQos,
)
from warren.protocol.value import BOOL, Field, Table, kind_name
from warren.queues import Consumer, Delivery
from warren.queues.gate import GATE_TRACED
from warren.queues.queue import Got
from warren.routing import queue_label
from warren.security import Access
from warren.session import parking
from warren.session.access import check_access
from warren.session.channel import Channel
from warren.session.publish import write_content
from warren.session.queue_method import existing, named
from warren.vhost import PSEUDO_QUEUE
from warren.vhost.queue_argument import QUORUM
from warren.vhost.queue_rules import type_of

if TYPE_CHECKING:
    from warren.session.connection import Connection


def on_qos(connection: "Connection", channel: Channel, method: BasicQos) -> None:
    if method.prefetch_size != 0:
        raise AmqpError(reply.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    outlet = channel.outlet
    if method.global_:
        outlet.limit = method.prefetch_count
    else:
        # QO-1: for consumers to come; QO-3: it removes the channel-wide limit.
        channel.prefetch = method.prefetch_count
        outlet.limit = 0
    outlet.wake_soon()
    connection.output.write(frame(1, channel.number, BASIC_QOS_OK))


def on_consume(connection: "Connection", channel: Channel, method: BasicConsume) -> None:
    tag = method.consumer_tag
    if tag and (tag in channel.consumers or _is_reply_tag(channel, tag)):
        raise AmqpError(reply.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    if not tag:
        tag = connection.broker.generated_name("amq.ctag-")
    if method.queue == PSEUDO_QUEUE:
        _consume_replies(connection, channel, method, tag)
        return
    name = named(channel, method.queue)
    check_access(connection, Access.READ, name, "queue")
    queue = existing(connection, name)
    priority = _check_arguments(method.arguments, name, queue.vhost)
    if channel.outlet.limit != 0 and type_of(queue.arguments) == QUORUM:
        raise AmqpError(
            reply.NOT_IMPLEMENTED, f"{queue_label(name, queue.vhost)} does not support global qos"
        )
    every = queue.consumers.every
    single = queue.arguments.get("x-single-active-consumer")
    if (
        method.exclusive and (every or (single is not None and single.value is True))
    ) or queue.has_exclusive_consumer():
        raise AmqpError(reply.ACCESS_REFUSED, f"{queue_label(name, queue.vhost)} in exclusive use")
    consumer = Consumer(
        tag,
        queue,
        channel.outlet,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        priority=priority,
        prefetch=channel.prefetch,
        arguments=method.arguments,
    )
    channel.add_consumer(consumer)
    # CS-1: consume-ok precedes the first delivery, which is handed out at the end of the turn.
    if not method.no_wait:
        ok = BasicConsumeOk(consumer_tag=tag)
        connection.output.write(frame(1, channel.number, ok.encode()))
    queue.add_consumer(consumer)


def _is_reply_tag(channel: Channel, tag: str) -> bool:
    return channel.reply is not None and channel.reply.consumer_tag == tag


def _consume_replies(
    connection: "Connection", channel: Channel, method: BasicConsume, tag: str
) -> None:
    """DR-1: an address for replies instead of a queue."""
    if channel.reply is not None:
        raise AmqpError(reply.PRECONDITION_FAILED, "reply consumer already set")
    if not method.no_ack:
        raise AmqpError(reply.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    channel.reply = connection.broker.add_reply_address(tag, channel.outlet)
    if not method.no_wait:
        ok = BasicConsumeOk(consumer_tag=tag)
        connection.output.write(frame(1, channel.number, ok.encode()))


def _check_arguments(arguments: Table, name: str, vhost: str) -> int:
    """Refuse bad consume arguments (CS-4); return the priority (CS-3)."""
    priority = 0
    item = arguments.get("x-priority")
    if item is not None:
        value = item.value
        if isinstance(value, bool) or not isinstance(value, int) or item.kind == ord("T"):
            raise _bad_argument("x-priority", item, name, vhost)
        priority = value
    item = arguments.get("x-cancel-on-ha-failover")
    if item is not None and item.kind != BOOL:
        raise _bad_argument("x-cancel-on-ha-failover", item, name, vhost)
    return priority


def _bad_argument(argument: str, item: Field, name: str, vhost: str) -> AmqpError:
    return AmqpError(
        reply.PRECONDITION_FAILED,
        f"invalid arg '{argument}' for {queue_label(name, vhost)}: "
        f"{{unacceptable_type,{kind_name(int(item.kind))}}}",
    )


def on_cancel(connection: "Connection", channel: Channel, method: BasicCancel) -> None:
    """Unknown tags are fine (3.3); what the consumer holds stays unacked (CS-1)."""
    tag = method.consumer_tag
    consumer = channel.consumers.get(tag)
    if consumer is not None:
        channel.drop_consumer(consumer)
        connection.vhost().remove_consumer(consumer)
    elif channel.reply is not None and channel.reply.consumer_tag == tag:
        connection.broker.drop_reply_address(channel.reply)
        channel.reply = None
    if not method.no_wait:
        ok = BasicCancelOk(consumer_tag=tag)
        connection.output.write(frame(1, channel.number, ok.encode()))


def on_get(connection: "Connection", channel: Channel, method: BasicGet) -> None:
    name = named(channel, method.queue)
    check_access(connection, Access.READ, name, "queue")
    queue = existing(connection, name)
    got = queue.get()
    if got is None and queue.is_behind():
        # The channel stands still until the message is in memory; what follows keeps its order.
        parking.wait(connection, channel, method.encode())
        queue.wait_here(channel)
        return
    if got is None:
        connection.output.write(frame(1, channel.number, BASIC_GET_EMPTY))
        return
    outlet = channel.outlet
    tag = outlet.next_tag
    outlet.next_tag = tag + 1
    outlet.delivered += 1
    delivery = Delivery(tag, got.seq, got.message, queue, None, outlet.turn.now_ns)
    queue.lend(delivery)
    if method.no_ack:
        queue.settle(delivery)
    else:
        outlet.unacked.add(delivery)
    _write_got(connection, channel, got, int(tag))
    if queue.gate & GATE_TRACED:
        queue.keeper.handed_out(queue, channel, got.message, got.again)


def _write_got(connection: "Connection", channel: Channel, got: Got, tag: int) -> None:
    message = got.message
    method = BasicGetOk(
        delivery_tag=tag,
        redelivered=got.again,
        exchange=message.exchange().decode(),
        routing_key=message.routing_key().decode(),
        message_count=int(got.left),
    ).encode()
    write_content(connection, channel.number, method, message)


def on_credit(channel: Channel, tag: str) -> None:
    """basic.credit is internal to the reference; only its refusal is for clients (3.2)."""
    if tag not in channel.consumers:
        raise AmqpError(reply.PRECONDITION_FAILED, f"unknown consumer tag '{tag}'")
    raise AmqpError(reply.NOT_IMPLEMENTED, "basic.credit")
