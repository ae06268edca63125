"""Virtual hosts, users, permissions, policies, parameters and limits, listed."""

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from warren.management import view
from warren.management.access import May
from warren.management.answer import Reply, not_found, said
from warren.management.copy import Copy
from warren.management.listing import Shown, listed
from warren.management.router import Endpoint, Handler

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request


async def shown_list(request: "Request", found: list[Shown]) -> Reply:
    """A list that is short enough to be made whole."""

    def name_of(one: Shown) -> tuple[str, str]:
        return str(one.get("vhost", "")), str(one.get("name", ""))

    return await listed(request, found, name_of, lambda one: one, paged=False)


# -- virtual hosts ---------------------------------------------------------------------------------


def totals(copy: Copy) -> dict[str, tuple[int, int]]:
    """The ready and unacknowledged messages of each virtual host."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for stat in copy.queue_stats.values():
        ready, unacked = found[stat.row[0]]
        found[stat.row[0]] = (ready + stat.row[2], unacked + stat.row[3])
    return found


async def vhosts(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    sums = totals(copy)
    found = [
        view.vhost(copy, one, sums[one.name])
        for one in copy.vhosts.values()
        if request.identity.sees(one.name)
    ]
    return await shown_list(request, found)


async def vhost(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    name = request.named("vhost")
    return said(view.vhost(copy, copy.vhosts[name], totals(copy)[name]))


# -- users and permissions -------------------------------------------------------------------------


async def users(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return await shown_list(request, [view.user(copy, one) for one in copy.users.values()])


async def users_without(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    having = {user for user, _ in copy.permissions}
    found = [one for one in copy.users.values() if one.name not in having]
    return await shown_list(request, [view.user(copy, one) for one in found])


async def user(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = copy.users.get(request.named("user"))
    if found is None:
        raise not_found()
    return said(view.user(copy, found))


def _matches(request: "Request", copy: Copy, *, user: str, vhost: str) -> bool:
    named = request.parameters.get("user")
    if named is not None and named not in copy.users:
        raise not_found()
    return named in (None, user) and request.parameters.get("vhost") in (None, vhost)


async def permissions(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = [
        view.permission(one)
        for one in copy.permissions.values()
        if _matches(request, copy, user=one.user, vhost=one.vhost)
    ]
    return await shown_list(request, found)


async def permission(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = copy.permissions.get((request.named("user"), request.named("vhost")))
    if found is None:
        raise not_found()
    return said(view.permission(found))


async def topic_permissions(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = [
        view.topic_permission(one)
        for one in copy.topic_permissions.values()
        if _matches(request, copy, user=one.user, vhost=one.vhost)
    ]
    return await shown_list(request, found)


# -- policies, parameters, limits ------------------------------------------------------------------


def policies(*, operator: bool) -> Handler:
    async def handler(api: "Api", request: "Request") -> Reply:
        copy = await api.mirror.current()
        asked = request.parameters.get("vhost")
        found = [
            view.policy(one)
            for one in copy.policies.values()
            if one.operator is operator
            and (one.vhost == asked if asked is not None else request.identity.enters(one.vhost))
        ]
        return await shown_list(request, found)

    return handler


def policy(*, operator: bool) -> Handler:
    async def handler(api: "Api", request: "Request") -> Reply:
        copy = await api.mirror.current()
        found = copy.policies.get((request.named("vhost"), operator, request.named("name")))
        if found is None:
            raise not_found()
        return said(view.policy(found))

    return handler


async def parameters(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    component, vhost = request.parameters.get("component"), request.parameters.get("vhost")
    found = [
        one
        for one in view.parameters(copy)
        if component in (None, one["component"])
        and (
            one["vhost"] == vhost
            if vhost is not None
            else request.identity.enters(str(one["vhost"]))
        )
    ]
    return await shown_list(request, found)


async def parameter(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    key = request.named("vhost"), request.named("component"), request.named("name")
    found = copy.parameters.get(key)
    if found is None:
        raise not_found()
    return said(view.parameter(found))


async def global_parameters(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found: list[Shown] = [
        {"name": one.name, "value": view.value(one.value)}
        for one in copy.global_parameters.values()
    ]
    return await shown_list(request, found)


async def global_parameter(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = copy.global_parameters.get(request.named("name"))
    if found is None:
        raise not_found()
    return said({"name": found.name, "value": view.value(found.value)})


async def vhost_limits(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    asked = request.parameters.get("vhost")
    found: list[Shown] = [
        {"vhost": name, "value": limits}
        for name, limits in copy.vhost_limits.items()
        if (name == asked if asked is not None else request.identity.sees(name))
    ]
    return await shown_list(request, found)


async def user_limits(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    asked = request.parameters.get("user")
    found: list[Shown] = [
        {"user": name, "value": limits}
        for name, limits in copy.user_limits.items()
        if asked in (None, name)
    ]
    return await shown_list(request, found)


ENDPOINTS: Final = (
    Endpoint("GET", "/api/vhosts", May.ANY, vhosts),
    Endpoint("GET", "/api/vhosts/{vhost}", May.ADMINISTRATOR, vhost),
    Endpoint("GET", "/api/vhosts/{vhost}/permissions", May.ADMINISTRATOR, permissions),
    Endpoint("GET", "/api/vhosts/{vhost}/topic-permissions", May.ADMINISTRATOR, topic_permissions),
    Endpoint("GET", "/api/users", May.ADMINISTRATOR, users),
    Endpoint("GET", "/api/users/without-permissions", May.ADMINISTRATOR, users_without),
    Endpoint("GET", "/api/users/{user}", May.ADMINISTRATOR, user),
    Endpoint("GET", "/api/users/{user}/permissions", May.ADMINISTRATOR, permissions),
    Endpoint("GET", "/api/users/{user}/topic-permissions", May.ADMINISTRATOR, topic_permissions),
    Endpoint("GET", "/api/permissions", May.ADMINISTRATOR, permissions),
    Endpoint("GET", "/api/permissions/{vhost}/{user}", May.ADMINISTRATOR, permission),
    Endpoint("GET", "/api/topic-permissions", May.ADMINISTRATOR, topic_permissions),
    Endpoint("GET", "/api/topic-permissions/{vhost}/{user}", May.ADMINISTRATOR, topic_permissions),
    Endpoint("GET", "/api/policies", May.ANY, policies(operator=False)),
    Endpoint("GET", "/api/policies/{vhost}", May.VHOST, policies(operator=False)),
    Endpoint("GET", "/api/policies/{vhost}/{name}", May.POLICY, policy(operator=False)),
    Endpoint("GET", "/api/operator-policies", May.ANY, policies(operator=True)),
    Endpoint("GET", "/api/operator-policies/{vhost}", May.VHOST, policies(operator=True)),
    Endpoint("GET", "/api/operator-policies/{vhost}/{name}", May.VHOST, policy(operator=True)),
    Endpoint("GET", "/api/parameters", May.POLICY, parameters),
    Endpoint("GET", "/api/parameters/{component}", May.POLICY, parameters),
    Endpoint("GET", "/api/parameters/{component}/{vhost}", May.POLICY, parameters),
    Endpoint("GET", "/api/parameters/{component}/{vhost}/{name}", May.POLICY, parameter),
    Endpoint("GET", "/api/global-parameters", May.GLOBAL_POLICY, global_parameters),
    Endpoint("GET", "/api/global-parameters/{name}", May.GLOBAL_POLICY, global_parameter),
    Endpoint("GET", "/api/vhost-limits", May.ANY, vhost_limits),
    Endpoint("GET", "/api/vhost-limits/{vhost}", May.VHOST_VISIBLE, vhost_limits),
    Endpoint("GET", "/api/user-limits", May.ANY, user_limits),
    Endpoint("GET", "/api/user-limits/{user}", May.ANY, user_limits),
)
