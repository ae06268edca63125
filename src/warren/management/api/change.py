"""Changes over HTTP: users, virtual hosts, permissions, policies, parameters, limits, connections.

Each is a command of the node; 201 for what is new, 204 for what was there. The same rules as for
who may see a thing decide who may change it.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from warren.management.access import May
from warren.management.answer import (
    HttpError,
    Reply,
    bad_request,
    bad_value,
    not_authorised,
    not_found,
)
from warren.management.control import RefusedError
from warren.management.router import Endpoint, Handler
from warren.security.password import is_hash_text

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

CREATED: Final = Reply(201)
DONE: Final = Reply(204)
TERM_WIDTH: Final = 80
LINES: Final = ",\n "
Given = dict[str, object]


def put_reply(*, there: bool) -> Reply:
    return DONE if there else CREATED


async def body_with(request: "Request", *names: str) -> Given:
    """Return the object that was sent; 400 if it lacks one of these names."""
    given = await request.json_object()
    missing = [name for name in names if name not in given]
    if missing:
        told = [f"{{key_missing,{name}}}" for name in missing]
        # As Erlang prints a term: in lines when it is long.
        short = sum(map(len, told)) + len(told) < TERM_WIDTH
        raise bad_request(f"[{(',' if short else LINES).join(told)}]")
    return given


def text(given: Given, name: str, default: str = "") -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"{name} should be a string")
    return value


def words(value: object, name: str) -> list[str]:
    """A list of words, or one text with commas."""
    if value is None:
        return []
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return [str(word) for word in value]
    raise bad_request(f"{name} should be a list, or text with commas")


def flag(given: Given, name: str) -> bool | None:
    """A truth value, also as text; None when it is not given."""
    value = given.get(name)
    if value is None or isinstance(value, bool):
        return value
    if value in {"true", "false"}:
        return value == "true"
    raise bad_value("not_boolean", value)


# -- users -----------------------------------------------------------------------------------------


async def put_user(api: "Api", request: "Request") -> Reply:
    given = await request.json_object()
    if "tags" not in given:
        raise bad_request("tags_not_present")
    if "password" in given and "password_hash" in given:
        raise bad_request("both_password_and_password_hash_are_provided")
    hashed = text(given, "password_hash")
    if not is_hash_text(hashed):
        raise bad_value("not_base64", hashed)
    name = request.named("user")
    there = name in (await api.mirror.current()).users
    args: Given = {
        "user": name,
        "password": text(given, "password"),
        "password_hash": hashed,
        "tags": words(given["tags"], "tags"),
        "replace": True,
    }
    if "hashing_algorithm" in given:
        args["hashing_algorithm"] = text(given, "hashing_algorithm")
    await api.control.ask("add_user", args)
    api.access.forget()
    return put_reply(there=there)


async def delete_user(api: "Api", request: "Request") -> Reply:
    return await _delete_user(api, request.named("user"))


async def _delete_user(api: "Api", name: str) -> Reply:
    if name not in (await api.mirror.current()).users:
        raise not_found()
    await api.control.ask("delete_user", {"user": name})
    api.access.forget()
    return DONE


async def delete_users(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "users")
    for name in words(given["users"], "users"):
        try:
            await _delete_user(api, name)
        except HttpError:
            raise bad_request(f'["no_such_user","{name}"]') from None
    return DONE


async def put_user_limit(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "value")
    definition = {request.named("name"): given["value"]}
    args = {"user": request.named("user"), "definition": definition}
    await api.control.ask("set_user_limits", args)
    return DONE


async def delete_user_limit(api: "Api", request: "Request") -> Reply:
    args = {"user": request.named("user"), "limit": request.named("name")}
    await api.control.ask("clear_user_limits", args)
    return DONE


# -- virtual hosts and permissions -----------------------------------------------------------------


async def put_vhost(api: "Api", request: "Request") -> Reply:
    given = await request.json_object()
    name = request.named("vhost")
    tracing = flag(given, "tracing")
    there = name in (await api.mirror.current()).vhosts
    args = {
        "vhost": name,
        "description": text(given, "description"),
        "tags": words(given.get("tags"), "tags"),
        "default_queue_type": text(given, "defaultqueuetype", text(given, "default_queue_type")),
        "replace": True,
    }
    await api.control.ask("add_vhost", args)
    if not there:
        # Whoever makes one may use it.
        all_of_it = {"configure": ".*", "write": ".*", "read": ".*"}
        whose = {"user": request.identity.user, "vhost": name}
        await api.control.ask("set_permissions", {**whose, **all_of_it})
    if tracing is not None:
        await api.control.ask("trace_on" if tracing else "trace_off", {"vhost": name})
    api.access.forget()
    return put_reply(there=there)


async def delete_vhost(api: "Api", request: "Request") -> Reply:
    await api.control.ask("delete_vhost", {"vhost": request.named("vhost")})
    api.access.forget()
    return DONE


async def put_permission(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "configure", "write", "read")
    copy = await api.mirror.current()
    user, vhost = request.named("user"), request.named("vhost")
    if user not in copy.users or vhost not in copy.vhosts:
        raise bad_request("vhost_or_user_not_found")
    three = {name: text(given, name) for name in ("configure", "write", "read")}
    there = (user, vhost) in copy.permissions
    await api.control.ask("set_permissions", {"user": user, "vhost": vhost, **three})
    api.access.forget()
    return put_reply(there=there)


async def delete_permission(api: "Api", request: "Request") -> Reply:
    user, vhost = request.named("user"), request.named("vhost")
    if (user, vhost) not in (await api.mirror.current()).permissions:
        raise not_found()
    await api.control.ask("clear_permissions", {"user": user, "vhost": vhost})
    api.access.forget()
    return DONE


async def put_topic_permission(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "exchange", "write", "read")
    copy = await api.mirror.current()
    user, vhost = request.named("user"), request.named("vhost")
    if user not in copy.users or vhost not in copy.vhosts:
        raise bad_request("vhost_or_user_not_found")
    three = {name: text(given, name) for name in ("exchange", "write", "read")}
    there = (user, vhost, three["exchange"]) in copy.topic_permissions
    await api.control.ask("set_topic_permissions", {"user": user, "vhost": vhost, **three})
    return put_reply(there=there)


async def delete_topic_permission(api: "Api", request: "Request") -> Reply:
    args: Given = {"user": request.named("user"), "vhost": request.named("vhost")}
    if "exchange" in request.parameters:
        args["exchange"] = request.named("exchange")
    await api.control.ask("clear_topic_permissions", args)
    return DONE


async def put_vhost_limit(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "value")
    vhost = request.named("vhost")
    before = (await api.mirror.current()).vhost_limits.get(vhost, {})
    definition = {**before, request.named("name"): given["value"]}
    await api.control.ask("set_vhost_limits", {"vhost": vhost, "definition": definition})
    return DONE


async def delete_vhost_limit(api: "Api", request: "Request") -> Reply:
    vhost = request.named("vhost")
    left = dict((await api.mirror.current()).vhost_limits.get(vhost, {}))
    left.pop(request.named("name"), None)
    await api.control.ask("set_vhost_limits", {"vhost": vhost, "definition": left})
    return DONE


# -- policies and parameters -----------------------------------------------------------------------


def put_policy(*, operator: bool) -> Handler:
    async def handler(api: "Api", request: "Request") -> Reply:
        given = await body_with(request, "pattern", "definition")
        vhost, name = request.named("vhost"), request.named("name")
        there = (vhost, operator, name) in (await api.mirror.current()).policies
        args = {
            "vhost": vhost,
            "name": name,
            "pattern": given["pattern"],
            "definition": given["definition"],
            "priority": given.get("priority", 0),
            "apply_to": given.get("apply-to", "queues" if operator else "all"),
        }
        command = "set_operator_policy" if operator else "set_policy"
        try:
            await api.control.ask(command, args)
        except RefusedError as refusal:
            escaped = refusal.message.replace("<", "&lt;").replace(">", "&gt;")
            raise bad_request(escaped) from None
        return put_reply(there=there)

    return handler


def delete_policy(*, operator: bool) -> Handler:
    async def handler(api: "Api", request: "Request") -> Reply:
        vhost, name = request.named("vhost"), request.named("name")
        if (vhost, operator, name) not in (await api.mirror.current()).policies:
            raise not_found()
        command = "clear_operator_policy" if operator else "clear_policy"
        await api.control.ask(command, {"vhost": vhost, "name": name})
        return DONE

    return handler


def _parameter(request: "Request") -> dict[str, str]:
    return {name: request.named(name) for name in ("vhost", "component", "name")}


async def put_parameter(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "value")
    place = _parameter(request)
    key = place["vhost"], place["component"], place["name"]
    there = key in (await api.mirror.current()).parameters
    try:
        await api.control.ask("set_parameter", {**place, "value": given["value"]})
    except RefusedError as refusal:
        raise bad_request(f"Validation failed\n\n{refusal.message}\n") from None
    return put_reply(there=there)


async def delete_parameter(api: "Api", request: "Request") -> Reply:
    await _or_not_found(api, "clear_parameter", _parameter(request))
    return DONE


async def put_global_parameter(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "value")
    name = request.named("name")
    there = name in (await api.mirror.current()).global_parameters
    value = given["value"]
    # A text stands for the JSON in it: that of a text is in quotes.
    sent = json.dumps(value) if isinstance(value, str) else value
    await api.control.ask("set_global_parameter", {"name": name, "value": sent})
    return put_reply(there=there)


async def delete_global_parameter(api: "Api", request: "Request") -> Reply:
    await _or_not_found(api, "clear_global_parameter", {"name": request.named("name")})
    return DONE


async def put_cluster_name(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "name")
    await api.control.ask("set_cluster_name", {"name": given["name"]})
    return DONE


async def _or_not_found(api: "Api", command: str, args: dict[str, str]) -> None:
    try:
        await api.control.ask(command, args)
    except RefusedError as refusal:
        if refusal.code == "not_found":
            raise not_found() from None
        raise


# -- connections -----------------------------------------------------------------------------------


async def delete_connection(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    name = request.named("name")
    found = [one.state for one in copy.connections.values() if one.state.name == name]
    if not found:
        raise not_found()
    if not request.identity.administrator and found[0].user != request.identity.user:
        raise not_authorised("User not authorised to access object")
    await _close(api, request, [name])
    return DONE


async def delete_connections_of(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    user = request.named("user")
    if not request.identity.administrator and user != request.identity.user:
        raise not_authorised("User not authorised to access object")
    states = [one.state for one in copy.connections.values()]
    await _close(api, request, [one.name for one in states if one.user == user])
    return DONE


async def _close(api: "Api", request: "Request", names: Sequence[str]) -> None:
    reason = request.headers.get("x-reason", "Closed via management plugin")
    for name in names:
        try:
            await api.control.ask("close_connection", {"pid": name, "reason": reason})
        except RefusedError as refusal:
            # One that has gone meanwhile is what was asked for.
            if refusal.code != "not_found":
                raise


ENDPOINTS: Final = (
    Endpoint("PUT", "/api/users/{user}", May.ADMINISTRATOR, put_user),
    Endpoint("DELETE", "/api/users/{user}", May.ADMINISTRATOR, delete_user),
    Endpoint("POST", "/api/users/bulk-delete", May.ADMINISTRATOR, delete_users),
    Endpoint("PUT", "/api/user-limits/{user}/{name}", May.ADMINISTRATOR, put_user_limit),
    Endpoint("DELETE", "/api/user-limits/{user}/{name}", May.ADMINISTRATOR, delete_user_limit),
    Endpoint("PUT", "/api/vhosts/{vhost}", May.ADMINISTRATOR, put_vhost, makes_vhost=True),
    Endpoint("DELETE", "/api/vhosts/{vhost}", May.ADMINISTRATOR, delete_vhost),
    Endpoint(
        "PUT",
        "/api/permissions/{vhost}/{user}",
        May.ADMINISTRATOR,
        put_permission,
        makes_vhost=True,
    ),
    Endpoint("DELETE", "/api/permissions/{vhost}/{user}", May.ADMINISTRATOR, delete_permission),
    Endpoint(
        "PUT",
        "/api/topic-permissions/{vhost}/{user}",
        May.ADMINISTRATOR,
        put_topic_permission,
        makes_vhost=True,
    ),
    Endpoint(
        "DELETE",
        "/api/topic-permissions/{vhost}/{user}",
        May.ADMINISTRATOR,
        delete_topic_permission,
    ),
    Endpoint(
        "DELETE",
        "/api/topic-permissions/{vhost}/{user}/{exchange}",
        May.ADMINISTRATOR,
        delete_topic_permission,
    ),
    Endpoint("PUT", "/api/vhost-limits/{vhost}/{name}", May.ADMINISTRATOR, put_vhost_limit),
    Endpoint("DELETE", "/api/vhost-limits/{vhost}/{name}", May.ADMINISTRATOR, delete_vhost_limit),
    Endpoint("PUT", "/api/policies/{vhost}/{name}", May.POLICY, put_policy(operator=False)),
    Endpoint("DELETE", "/api/policies/{vhost}/{name}", May.POLICY, delete_policy(operator=False)),
    Endpoint(
        "PUT",
        "/api/operator-policies/{vhost}/{name}",
        May.ADMINISTRATOR,
        put_policy(operator=True),
    ),
    Endpoint(
        "DELETE",
        "/api/operator-policies/{vhost}/{name}",
        May.ADMINISTRATOR,
        delete_policy(operator=True),
    ),
    Endpoint("PUT", "/api/parameters/{component}/{vhost}/{name}", May.POLICY, put_parameter),
    Endpoint("DELETE", "/api/parameters/{component}/{vhost}/{name}", May.POLICY, delete_parameter),
    Endpoint("PUT", "/api/global-parameters/{name}", May.GLOBAL_POLICY, put_global_parameter),
    Endpoint("DELETE", "/api/global-parameters/{name}", May.GLOBAL_POLICY, delete_global_parameter),
    Endpoint("PUT", "/api/cluster-name", May.ADMINISTRATOR, put_cluster_name),
    Endpoint("DELETE", "/api/connections/{name}", May.ANY, delete_connection),
    Endpoint("DELETE", "/api/connections/username/{user}", May.ANY, delete_connections_of),
)
