"""`/api/definitions`: all metadata as one document, out and in (O-7.1 to O-7.4).

An export is made of the copy. An import is taken apart here, sent to the node as changes, part by
part, and made true there as a whole: one transaction, or nothing.
"""

import asyncio
import email.parser
import email.policy
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from warren.management import view
from warren.management.access import May
from warren.management.answer import HttpError, Reply, bad_request
from warren.management.api.overview import VERSION
from warren.management.control import NodeGoneError, RefusedError
from warren.management.copy import Copy
from warren.management.listing import Shown
from warren.management.router import Endpoint
from warren.vhost.change import Change, VHostPut
from warren.vhost.definition import RESERVED, DefinitionError, read

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

# What a request to the node may hold besides its changes, and at most.
PART_OCTETS: Final = 60_000
SLICE: Final = 1000
# A disk that is busy with others may take its time.
APPLY_S_MAX: Final = 300.0


# -- out -------------------------------------------------------------------------------------------


def _without(shown: Shown, *names: str) -> Shown:
    return {key: value for key, value in shown.items() if key not in names}


def _exported(copy: Copy, vhost: str | None) -> Shown:
    def wanted(name: str) -> bool:
        return vhost in (None, name)

    # A document for one virtual host does not name it.
    left_out = () if vhost is None else ("vhost",)
    queues = {
        place: one for place, one in copy.queues.items() if wanted(place[0]) and one.owner == 0
    }
    return {
        "parameters": [
            _without(one, *left_out) for one in view.parameters(copy) if wanted(_home(one))
        ],
        "policies": [
            _without(view.policy(one), *left_out)
            for one in copy.policies.values()
            if wanted(one.vhost) and not one.operator
        ],
        "queues": [
            _without(
                {
                    "name": one.name,
                    "vhost": one.vhost,
                    "durable": one.durable,
                    "auto_delete": one.auto_delete,
                    "arguments": view.arguments(one.arguments),
                },
                *left_out,
            )
            for one in queues.values()
        ],
        "exchanges": [
            _without(
                {
                    "name": one.name,
                    "vhost": one.vhost,
                    "type": one.kind,
                    "durable": one.durable,
                    "auto_delete": one.auto_delete,
                    "internal": one.internal,
                    "arguments": view.arguments(one.arguments),
                },
                *left_out,
            )
            for one in copy.exchanges.values()
            if wanted(one.vhost) and one.name and not one.name.startswith(RESERVED)
        ],
        "bindings": [
            _without(view.binding(one), "properties_key", *left_out)
            for one in copy.bindings.values()
            if wanted(one.vhost) and (not one.to_queue or (one.vhost, one.destination) in queues)
        ],
    }


def _home(shown: Shown) -> str:
    return str(shown["vhost"])


def _vhost(one: VHostPut) -> Shown:
    shown: Shown = {"name": one.name}
    if one.description:
        shown["description"] = one.description
    if one.tags:
        shown["tags"] = list(one.tags)
    if one.default_queue_type:
        shown["default_queue_type"] = one.default_queue_type
    return shown


def document(copy: Copy, vhost: str | None = None) -> Shown:
    """Return everything, or all that is in one virtual host, as one document."""
    found: Shown = {"rabbit_version": VERSION}
    if vhost is None:
        found |= {
            "rabbitmq_version": VERSION,
            "product_name": "RabbitMQ",
            "product_version": VERSION,
            "users": [view.user(copy, one) for one in copy.users.values()],
            "vhosts": [_vhost(one) for one in copy.vhosts.values()],
            "permissions": [view.permission(one) for one in copy.permissions.values()],
            "topic_permissions": [
                view.topic_permission(one) for one in copy.topic_permissions.values()
            ],
            "global_parameters": [
                {"name": one.name, "value": view.value(one.value)}
                for one in copy.global_parameters.values()
            ],
        }
    return found | _exported(copy, vhost)


async def exported(api: "Api", request: "Request") -> Reply:
    found = document(await api.mirror.current(), request.parameters.get("vhost"))
    headers = {}
    name = request.query.get("download")
    if name and name.isprintable() and name.isascii():
        headers["content-disposition"] = f"attachment; filename={name}"
    return Reply(200, msgspec.json.encode(found), headers=headers)


# -- in --------------------------------------------------------------------------------------------


async def imported(api: "Api", request: "Request") -> Reply:
    raw = await request.body()
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        raw = _field(raw, kind)
    try:
        document = msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("failed_to_parse_json") from None
    vhost = request.parameters.get("vhost")
    changes: list[Change] = []
    try:
        for change in read(document, vhost):
            changes.append(change)
            if len(changes) % SLICE == 0:
                await asyncio.sleep(0)
    except DefinitionError as refusal:
        raise bad_request(str(refusal)) from None
    copy = await api.mirror.current()
    _check_vhosts(copy, changes)
    await send(api, changes)
    return Reply(204)


def _check_vhosts(copy: Copy, changes: list[Change]) -> None:
    """Every virtual host that is named is there, or comes with the document."""
    known = {*copy.vhosts, *(one.name for one in changes if isinstance(one, VHostPut))}
    for one in changes:
        vhost: object = getattr(one, "vhost", None)
        if isinstance(vhost, str) and vhost not in known:
            raise bad_request(f'["no_such_vhost","{vhost}"]')


async def send(api: "Api", changes: list[Change]) -> None:
    """Have the node make changes true as a whole."""
    number = (await api.control.ask("import_begin"))["id"]
    try:
        for part in parts(changes):
            told = msgspec.Raw(b"[" + b",".join(part) + b"]")
            await api.control.ask("import_part", {"id": number, "changes": told})
    except BaseException:
        # Otherwise nobody else could import until the node has given it up by itself.
        with suppress(RefusedError, NodeGoneError):
            await api.control.ask("import_drop", {"id": number})
        raise
    await api.control.ask("import_apply", {"id": number}, timeout_s=APPLY_S_MAX)


def parts(changes: Iterable[Change]) -> Iterator[list[bytes]]:
    """Yield changes as JSON, as many at a time as one request may hold."""
    part: list[bytes] = []
    octets = 0
    for change in changes:
        encoded = msgspec.json.encode(change)
        if len(encoded) > PART_OCTETS:
            raise HttpError(400, "bad_request", "an object of the document is too large")
        if octets + len(encoded) > PART_OCTETS:
            yield part
            part, octets = [], 0
        part.append(encoded)
        octets += len(encoded) + 1
    if part:
        yield part


def _field(raw: bytes, kind: str) -> bytes:
    """Return the field `file` of a form."""
    head = b"content-type: " + kind.encode("latin-1") + b"\r\n\r\n"
    form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + raw)
    for part in form.iter_parts() if form.is_multipart() else ():
        if part.get_param("name", header="content-disposition") == "file":
            found = part.get_payload(decode=True)
            if isinstance(found, bytes):
                return found
    raise bad_request("the form has no field 'file'")


ENDPOINTS: Final = tuple(
    Endpoint(method, path, May.ADMINISTRATOR, handler)
    for path in ("/api/definitions", "/api/all-configuration", "/api/definitions/{vhost}")
    for method, handler in (("GET", exported), ("POST", imported))
)
