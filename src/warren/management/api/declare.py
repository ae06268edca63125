"""Queues, exchanges and bindings made and deleted over HTTP, with the rights of who asks."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from warren.management import view
from warren.management.access import May
from warren.management.answer import (
    HttpError,
    Reply,
    bad_request,
    bad_value,
    not_authorised,
    not_found,
)
from warren.management.api.change import DONE, Given, put_reply, text
from warren.management.api.objects import binding_named, exchange_named, queue_named
from warren.management.control import RefusedError
from warren.management.router import Endpoint
from warren.protocol.value import table
from warren.vhost.change import BindingPut, encoded

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

# The reply code of AMQP for what a user may not.
ACCESS_REFUSED: Final = "403"
KINDS: Final = {"q": "queue", "e": "exchange"}


def flag(given: Given, name: str) -> bool:
    """A flag as JSON or as text has it."""
    value = given.get(name, False)
    if value in (True, "true"):
        return True
    if value in (False, None, "false", ""):
        return False
    raise bad_value("not_boolean", value)


def table_of(given: Given) -> Given:
    found = given.get("arguments") or {}
    if not isinstance(found, dict):
        raise bad_request("arguments should be an object")
    return found


async def ask(api: "Api", request: "Request", command: str, args: Given) -> None:
    """Have the node do something as the user who asks."""
    place = {"user": request.identity.user, "vhost": request.named("vhost")}
    try:
        await api.control.ask(command, {**place, **args})
    except RefusedError as refusal:
        if refusal.fix == ACCESS_REFUSED:
            own = "reserved" in refusal.message or "system" in refusal.message
            raise not_authorised("Access refused." if own else refusal.message) from None
        if refusal.code == "not_found":
            raise HttpError(404, "not_found", refusal.message) from None
        raise bad_request(refusal.message) from None


async def put_queue(api: "Api", request: "Request") -> Reply:
    given = await request.json_object()
    name = request.named("name")
    there = (request.named("vhost"), name) in (await api.mirror.current()).queues
    args: Given = {
        "name": name,
        "durable": flag(given, "durable"),
        "auto_delete": flag(given, "auto_delete"),
        "arguments": table_of(given),
    }
    await ask(api, request, "declare_queue", args)
    return put_reply(there=there)


async def delete_queue(api: "Api", request: "Request") -> Reply:
    found = queue_named(await api.mirror.current(), request)
    args: Given = {
        "name": found.name,
        "if_unused": request.flag("if-unused"),
        "if_empty": request.flag("if-empty"),
    }
    await ask(api, request, "remove_queue", args)
    return DONE


async def purge_queue(api: "Api", request: "Request") -> Reply:
    found = queue_named(await api.mirror.current(), request)
    await ask(api, request, "empty_queue", {"name": found.name})
    return DONE


async def put_exchange(api: "Api", request: "Request") -> Reply:
    given = await request.json_object()
    name = request.named("name")
    there = (request.named("vhost"), name) in (await api.mirror.current()).exchanges
    args: Given = {
        "name": name,
        "type": text(given, "type", "direct"),
        "durable": flag(given, "durable"),
        "auto_delete": flag(given, "auto_delete"),
        "internal": flag(given, "internal"),
        "arguments": table_of(given),
    }
    await ask(api, request, "declare_exchange", args)
    return put_reply(there=there)


async def delete_exchange(api: "Api", request: "Request") -> Reply:
    found = exchange_named(await api.mirror.current(), request)
    args: Given = {"name": found.name, "if_unused": request.flag("if-unused")}
    await ask(api, request, "remove_exchange", args)
    return DONE


async def post_binding(api: "Api", request: "Request") -> Reply:
    given = await request.json_object()
    kind = KINDS.get(request.named("kind"))
    if kind is None:
        raise not_found()
    source = exchange_named(await api.mirror.current(), request, "source")
    key, arguments = text(given, "routing_key"), table_of(given)
    args: Given = {
        "source": source.name,
        "destination": request.named("destination"),
        "kind": kind,
        "routing_key": key,
        "arguments": arguments,
    }
    await ask(api, request, "bind", args)
    made = BindingPut(
        vhost=source.vhost,
        source=source.name,
        destination=request.named("destination"),
        to_queue=kind == "queue",
        key=key,
        arguments=encoded(table(arguments)),
    )
    place = f"{quote(made.destination, safe='')}/{quote(view.properties_key(made), safe='~')}"
    return Reply(201, headers={"location": place})


async def delete_binding(api: "Api", request: "Request") -> Reply:
    found = binding_named(await api.mirror.current(), request)
    args: Given = {
        "source": found.source,
        "destination": found.destination,
        "kind": "queue" if found.to_queue else "exchange",
        "routing_key": found.key,
        "arguments": view.arguments(found.arguments),
    }
    await ask(api, request, "unbind", args)
    return DONE


BINDINGS: Final = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
ENDPOINTS: Final = (
    Endpoint("PUT", "/api/queues/{vhost}/{name}", May.VHOST, put_queue),
    Endpoint("DELETE", "/api/queues/{vhost}/{name}", May.VHOST, delete_queue),
    Endpoint("DELETE", "/api/queues/{vhost}/{name}/contents", May.VHOST, purge_queue),
    Endpoint("PUT", "/api/exchanges/{vhost}/{name}", May.VHOST, put_exchange),
    Endpoint("DELETE", "/api/exchanges/{vhost}/{name}", May.VHOST, delete_exchange),
    Endpoint("POST", BINDINGS, May.VHOST, post_binding),
    Endpoint("DELETE", BINDINGS + "/{properties}", May.VHOST, delete_binding),
)
