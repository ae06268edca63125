"""What takes a change of metadata back: asked before it is made, while the old is still there."""

from typing import TYPE_CHECKING

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
    policy_put,
    user_put,
)
from warren.vhost.effect import needless

if TYPE_CHECKING:
    from warren.vhost import Broker, VHost


def inverse(broker: "Broker", change: Change) -> Change | None:
    """Return the change that brings back what is now; None if nothing will have changed."""
    name = getattr(change, "vhost", None)
    vhost = broker.vhosts.get(name) if isinstance(name, str) else None
    if vhost is not None:
        return _in_vhost(broker, vhost, change)
    match change:
        case UserPut():
            user = broker.users.get(change.name)
            return UserDelete(name=change.name) if user is None else user_put(user)
        case UserLimitsPut():
            limits = dict(broker.metadata.limits_of_user(change.user))
            return UserLimitsPut(user=change.user, limits=limits)
        case GlobalParameterPut():
            value = broker.global_parameters.get(change.name)
            if value is None:
                return GlobalParameterDelete(name=change.name)
            return GlobalParameterPut(name=change.name, value=value)
        case VHostPut():
            there = broker.vhosts.get(change.name)
            if there is None:
                return VHostDelete(name=change.name)
            return VHostPut(
                name=there.name,
                description=there.description,
                tags=there.tags,
                default_queue_type=there.default_queue_type,
            )
        case _:
            return None


def _in_vhost(broker: "Broker", vhost: "VHost", change: Change) -> Change | None:
    home = vhost.name
    match change:
        case QueuePut():
            there = change.name in vhost.queues
            return None if there else QueueDelete(vhost=home, name=change.name)
        case ExchangePut():
            there = change.name in vhost.routing.exchanges
            return None if there else ExchangeDelete(vhost=home, name=change.name)
        case BindingPut():
            if needless(broker, change):
                return None
            return BindingDelete(
                vhost=home,
                source=change.source,
                destination=change.destination,
                to_queue=change.to_queue,
                key=change.key,
                arguments=change.arguments,
            )
        case VHostLimitsPut():
            return VHostLimitsPut(vhost=home, limits=dict(vhost.limits))
        case ParameterPut():
            value = vhost.parameters.get((change.component, change.name))
            if value is None:
                return ParameterDelete(vhost=home, component=change.component, name=change.name)
            return ParameterPut(
                vhost=home, component=change.component, name=change.name, value=value
            )
        case PolicyPut():
            policy = vhost.policies.book.get(change.name, operator=change.operator)
            if policy is None:
                return PolicyDelete(vhost=home, name=change.name, operator=change.operator)
            return policy_put(policy)
        case _:
            return _of_user(broker, change)


def _of_user(broker: "Broker", change: Change) -> Change | None:
    permissions = broker.permissions
    if isinstance(change, PermissionPut):
        plain = permissions.get(change.user, change.vhost)
        if plain is None:
            return PermissionDelete(user=change.user, vhost=change.vhost)
        return PermissionPut(
            user=plain.user,
            vhost=plain.vhost,
            configure=plain.configure,
            write=plain.write,
            read=plain.read,
        )
    if isinstance(change, TopicPermissionPut):
        topic = permissions.get_topic(change.user, change.vhost, change.exchange)
        if topic is None:
            return TopicPermissionDelete(
                user=change.user, vhost=change.vhost, exchange=change.exchange
            )
        return TopicPermissionPut(
            user=topic.user,
            vhost=topic.vhost,
            exchange=topic.exchange,
            write=topic.write,
            read=topic.read,
        )
    return None
