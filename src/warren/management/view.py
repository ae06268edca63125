"""Objects as the HTTP API shows them: RabbitMQ's fields, made of the copy (O-4.7, O-4.10).

Where Warren does not count what RabbitMQ counts, the field is left out rather than made up.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote_plus

import msgspec

from warren.management.copy import ConnectionStat, Copy
from warren.management.feed import ChannelState, ConsumerState
from warren.management.listing import Shown
from warren.protocol.value import plain
from warren.vhost.change import (
    BindingPut,
    ExchangePut,
    ParameterPut,
    PermissionPut,
    PolicyPut,
    QueuePut,
    TopicPermissionPut,
    UserPut,
    VHostPut,
    decoded,
    policy_of,
)
from warren.vhost.definition import OPERATOR
from warren.vhost.limit import LIMITS_COMPONENT, LIMITS_NAME
from warren.vhost.policy_book import PolicyBook
from warren.vhost.policy_effect import NOT_APPLIED, Applied

CLASSIC: Final = "classic"


def arguments(octets: bytes) -> Shown:
    """An AMQP table as JSON has it."""
    return {key: plain(item) for key, item in decoded(octets).items()}


def value(octets: bytes) -> object:
    return msgspec.json.decode(octets)


def rate(new: float, old: float | None, seconds: float) -> Shown:
    """How fast a number has changed."""
    if old is None or seconds <= 0:
        return {"rate": 0.0}
    return {"rate": (new - old) / seconds}


def properties_key(one: BindingPut) -> str:
    """What names one of several bindings between the same ends: its key, and a hash of the rest."""
    key = quote_plus(one.key)
    if not one.arguments:
        return key or "~"
    digest = hashlib.blake2b(one.arguments, digest_size=4).digest()
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


class Policies:
    """Which policies apply to what, looked up for those that are shown."""

    def __init__(self, copy: Copy) -> None:
        self._books: dict[str, PolicyBook] = {}
        for one in copy.policies.values():
            self._books.setdefault(one.vhost, PolicyBook()).put(policy_of(one))

    def queue(self, one: QueuePut, kind: str) -> Applied:
        book = self._books.get(one.vhost)
        return NOT_APPLIED if book is None else book.for_queue(one.name, kind)

    def exchange(self, one: ExchangePut) -> Applied:
        book = self._books.get(one.vhost)
        return NOT_APPLIED if book is None else book.for_exchange(one.name)


def queue(copy: Copy, policies: Policies, one: QueuePut) -> Shown:
    """A queue; its numbers are there from the first round of counting on (T-4)."""
    given = arguments(one.arguments)
    kind = str(given.get("x-queue-type", CLASSIC))
    applied = policies.queue(one, kind)
    node = copy.node.name if copy.node is not None else ""
    shown: Shown = {
        "arguments": given,
        "auto_delete": one.auto_delete,
        "durable": one.durable,
        "exclusive": one.owner != 0,
        "name": one.name,
        "node": node,
        "state": "running",
        "type": kind,
        "vhost": one.vhost,
    }
    stat = copy.queue_stats.get((one.vhost, one.name))
    if stat is None:
        return shown
    _, _, ready, unacked, octets, consumers, published, settled, _, state, doubled = stat.row
    before = stat.before if copy.fresh(stat.rounds) else stat.row
    old = (None,) * 11 if before is None else before
    seconds = stat.seconds
    old_total = None if before is None else before[2] + before[3]
    shown |= {
        "consumers": consumers,
        "effective_policy_definition": dict(applied.effective),
        "exclusive_consumer_tag": None,
        "message_bytes_ready": octets,
        "messages": ready + unacked,
        "messages_details": rate(ready + unacked, old_total, seconds),
        "messages_ready": ready,
        "messages_ready_details": rate(ready, old[2], seconds),
        "messages_unacknowledged": unacked,
        "messages_unacknowledged_details": rate(unacked, old[3], seconds),
        "operator_policy": applied.operator_policy or None,
        "policy": applied.policy or None,
        "state": state,
    }
    if published or doubled:
        stats: Shown = {
            "publish": published,
            "publish_details": rate(published, old[6], seconds),
            "settled": settled,
            "settled_details": rate(settled, old[7], seconds),
        }
        if doubled:
            stats["deduplicated"] = doubled
            stats["deduplicated_details"] = rate(doubled, old[10], seconds)
        shown["message_stats"] = stats
    return shown


def exchange(policies: Policies, one: ExchangePut) -> Shown:
    shown: Shown = {
        "arguments": arguments(one.arguments),
        "auto_delete": one.auto_delete,
        "durable": one.durable,
        "internal": one.internal,
        "name": one.name,
        "type": one.kind,
        "user_who_performed_action": "rmq-internal" if _own(one.name) else "",
        "vhost": one.vhost,
    }
    applied = policies.exchange(one)
    if applied.policy:
        shown["policy"] = applied.policy
    return shown


def _own(name: str) -> bool:
    return not name or name.startswith("amq.")


def binding(one: BindingPut) -> Shown:
    return {
        "source": one.source,
        "vhost": one.vhost,
        "destination": one.destination,
        "destination_type": "queue" if one.to_queue else "exchange",
        "routing_key": one.key,
        "arguments": arguments(one.arguments),
        "properties_key": properties_key(one),
    }


def implicit(one: QueuePut) -> BindingPut:
    """The binding of a queue to the default exchange."""
    return BindingPut(vhost=one.vhost, source="", destination=one.name, key=one.name)


def vhost(copy: Copy, one: VHostPut, totals: tuple[int, int]) -> Shown:
    """A virtual host, with the ready and unacknowledged messages in it."""
    node = copy.node.name if copy.node is not None else ""
    ready, unacked = totals
    return {
        "cluster_state": {node: "running"},
        "default_queue_type": one.default_queue_type or "undefined",
        "description": one.description,
        "messages": ready + unacked,
        "messages_details": {"rate": 0.0},
        "messages_ready": ready,
        "messages_ready_details": {"rate": 0.0},
        "messages_unacknowledged": unacked,
        "messages_unacknowledged_details": {"rate": 0.0},
        "metadata": {"description": one.description, "tags": list(one.tags)},
        "name": one.name,
        "tags": list(one.tags),
        "tracing": one.name in copy.traced,
    }


def user(copy: Copy, one: UserPut) -> Shown:
    return {
        "name": one.name,
        "password_hash": one.password_hash,
        "hashing_algorithm": one.algorithm,
        "tags": list(one.tags),
        "limits": copy.user_limits.get(one.name, {}),
    }


def permission(one: PermissionPut) -> Shown:
    return {
        "user": one.user,
        "vhost": one.vhost,
        "configure": one.configure,
        "write": one.write,
        "read": one.read,
    }


def topic_permission(one: TopicPermissionPut) -> Shown:
    return {
        "user": one.user,
        "vhost": one.vhost,
        "exchange": one.exchange,
        "write": one.write,
        "read": one.read,
    }


def policy(one: PolicyPut) -> Shown:
    return {
        "vhost": one.vhost,
        "name": one.name,
        "pattern": one.pattern,
        "apply-to": one.apply_to,
        "definition": value(one.definition),
        "priority": one.priority,
    }


def parameter(one: ParameterPut) -> Shown:
    return {
        "value": value(one.value),
        "vhost": one.vhost,
        "component": one.component,
        "name": one.name,
    }


def parameters(copy: Copy) -> Iterator[Shown]:
    """All parameters, limits of virtual hosts and operator policies among them (O-7.2)."""
    for given in copy.parameters.values():
        yield parameter(given)
    for one in copy.policies.values():
        if one.operator:
            shown = policy(one)
            del shown["vhost"], shown["name"]
            yield {
                "value": shown,
                "vhost": one.vhost,
                "component": OPERATOR,
                "name": one.name,
            }
    for home, limits in copy.vhost_limits.items():
        yield {
            "value": limits,
            "vhost": home,
            "component": LIMITS_COMPONENT,
            "name": LIMITS_NAME,
        }


def connection(copy: Copy, stat: ConnectionStat) -> Shown:
    one = stat.state
    fresh = copy.fresh(stat.rounds)
    before = stat.before if fresh else one
    received = None if before is None else before.received
    sent = None if before is None else before.sent
    return {
        "channel_max": one.channel_max,
        "channels": len(one.channels),
        "client_properties": arguments(one.client_properties),
        "connected_at": one.connected_at,
        "frame_max": one.frame_max,
        "host": one.host,
        "name": one.name,
        "node": copy.node.name if copy.node is not None else "",
        "peer_host": one.peer_host,
        "peer_port": one.peer_port,
        "port": one.port,
        "protocol": "AMQP 0-9-1",
        "recv_oct": one.received,
        "recv_oct_details": rate(one.received, received, stat.seconds),
        "send_oct": one.sent,
        "send_oct_details": rate(one.sent, sent, stat.seconds),
        "send_pend": one.pending,
        "ssl": one.tls,
        "state": one.state,
        "timeout": one.timeout,
        "type": "network",
        "user": one.user,
        "user_who_performed_action": one.user,
        "vhost": one.vhost,
    }


def channel_name(stat: ConnectionStat, one: ChannelState) -> str:
    return f"{stat.state.name} ({one.number})"


def connection_details(stat: ConnectionStat) -> Shown:
    one = stat.state
    return {"name": one.name, "peer_host": one.peer_host, "peer_port": one.peer_port}


def channel(copy: Copy, stat: ConnectionStat, one: ChannelState) -> Shown:
    before: ChannelState | None = None
    if stat.before is not None and copy.fresh(stat.rounds):
        before = next((old for old in stat.before.channels if old.number == one.number), None)
    shown: Shown = {
        "acks_uncommitted": one.acks_uncommitted,
        "confirm": one.confirm,
        "connection_details": connection_details(stat),
        "consumer_count": len(one.consumers),
        "global_prefetch_count": one.global_prefetch,
        "messages_unacknowledged": one.unacknowledged,
        "messages_uncommitted": one.uncommitted,
        "messages_unconfirmed": one.unconfirmed,
        "name": channel_name(stat, one),
        "node": copy.node.name if copy.node is not None else "",
        "number": one.number,
        "pending_raft_commands": 0,
        "prefetch_count": one.prefetch,
        "state": one.state,
        "transactional": one.transactional,
        "user": stat.state.user,
        "user_who_performed_action": stat.state.user,
        "vhost": stat.state.vhost,
    }
    stats: Shown = {}
    seconds = stat.seconds
    for name, new, old in (
        ("publish", one.published, None if before is None else before.published),
        ("confirm", one.confirmed, None if before is None else before.confirmed),
        ("deliver_get", one.delivered, None if before is None else before.delivered),
        ("ack", one.acknowledged, None if before is None else before.acknowledged),
    ):
        if new:
            stats |= {name: new, f"{name}_details": rate(new, old, seconds)}
    if stats:
        shown["message_stats"] = stats
    return shown


def consumer(copy: Copy, stat: ConnectionStat, held: ChannelState, one: ConsumerState) -> Shown:
    state = stat.state
    return {
        "ack_required": one.ack_required,
        "active": one.active,
        "activity_status": "up" if one.active else "waiting",
        "arguments": arguments(one.arguments),
        "channel_details": {
            "connection_name": state.name,
            "name": channel_name(stat, held),
            "node": copy.node.name if copy.node is not None else "",
            "number": held.number,
            "peer_host": state.peer_host,
            "peer_port": state.peer_port,
            "user": state.user,
        },
        "consumer_tag": one.tag,
        "exclusive": one.exclusive,
        "prefetch_count": one.prefetch,
        "queue": {"name": one.queue, "vhost": state.vhost},
    }
