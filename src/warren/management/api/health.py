"""Health checks (O-9.1): asked of the node at that moment, at a cost that no object adds to."""

from typing import TYPE_CHECKING, Final

import msgspec

from warren.management.access import May
from warren.management.answer import Reply, bad_request, not_found, said
from warren.management.feed import NodeState
from warren.management.router import Endpoint

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

# Names under which RabbitMQ's users know the protocol.
AMQP: Final = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp10": "amqp", "amqps": "amqp/ssl"}
DAYS: Final = {"days": 1, "weeks": 7, "months": 28, "years": 365}
ALONE: Final = {"status": "ok", "reason": "single node cluster"}


async def _node(api: "Api") -> NodeState:
    told = await api.control.ask("node_state")
    return msgspec.convert({**told, "change": "NodeState"}, NodeState)


def _failed(reason: str, **facts: object) -> Reply:
    return said({"status": "failed", "reason": reason, **facts}, 503)


async def alarms(api: "Api", request: "Request") -> Reply:
    node = await _node(api)
    if not node.alarms:
        return said({"status": "ok"})
    found = [{"node": node.name, "resource": source} for source in node.alarms]
    return _failed("There are alarms in effect in the cluster", alarms=found)


async def port(api: "Api", request: "Request") -> Reply:
    try:
        wanted = int(request.named("port"))
    except ValueError:
        raise bad_request("Invalid port") from None
    node = await _node(api)
    ports = sorted({one.port for one in node.listeners})
    if wanted in ports:
        return said({"status": "ok", "port": wanted})
    return _failed("No active listener", missing=wanted, ports=ports)


async def protocol(api: "Api", request: "Request") -> Reply:
    wanted = request.named("protocol")
    wanted = AMQP.get(wanted, wanted)
    node = await _node(api)
    protocols = sorted({one.protocol for one in node.listeners})
    if wanted in protocols:
        return said({"status": "ok", "protocol": wanted})
    return _failed("No active listener", missing=wanted, protocols=protocols)


async def certificate(api: "Api", request: "Request") -> Reply:
    days = DAYS.get(request.named("unit"))
    if days is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    try:
        within = int(request.named("within")) * days
    except ValueError:
        raise bad_request("Invalid expiration value.") from None
    node = await _node(api)
    left = node.certificate_days_left
    if left is None or left >= within:
        return said({"status": "ok"})
    expired = [{"node": node.name, "file": node.certificate_file, "days_left": left}]
    return _failed("Certificates expiring", expired=expired)


async def running(api: "Api", request: "Request") -> Reply:
    node = await _node(api)
    return said({"status": "ok"}) if node.running else _failed("the node is stopping")


async def running_named(api: "Api", request: "Request") -> Reply:
    node = await _node(api)
    if request.named("node") != node.name:
        raise not_found()
    return await running(api, request)


async def alone(api: "Api", request: "Request") -> Reply:
    await _node(api)
    return said(ALONE)


CHECKS: Final = "/api/health/checks"
ENDPOINTS: Final = (
    Endpoint("GET", f"{CHECKS}/virtual-hosts", May.ANY, running),
    Endpoint("GET", f"{CHECKS}/node-is-mirror-sync-critical", May.ANY, alone),
    Endpoint("GET", f"{CHECKS}/node-is-quorum-critical", May.ANY, alone),
    Endpoint("GET", f"{CHECKS}/alarms", May.ANY, alarms),
    Endpoint("GET", f"{CHECKS}/local-alarms", May.ANY, alarms),
    Endpoint("GET", f"{CHECKS}/port-listener/{{port}}", May.ANY, port),
    Endpoint("GET", f"{CHECKS}/protocol-listener/{{protocol}}", May.ANY, protocol),
    Endpoint("GET", f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}", May.ANY, certificate),
    Endpoint("GET", "/api/healthchecks/node", May.ANY, running),
    Endpoint("GET", "/api/healthchecks/node/{node}", May.ANY, running_named),
)
