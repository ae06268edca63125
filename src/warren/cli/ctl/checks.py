"""Checks in the manner of `rabbitmq-diagnostics`: exit 0 and a sentence, or 69 and what failed."""

import socket
from typing import TYPE_CHECKING, Final, cast

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import CtlError
from warren.cli.reply import as_reply

if TYPE_CHECKING:
    from warren.server.view import Status

_CONNECT_S: Final = 5.0
# An address that stands for all is reached by this one.
_REACHED_BY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _passed(call: Call, text: str) -> None:
    if call.formatter == "json":
        call.value({"result": "ok"})
    elif not call.silent:
        print(text)


def _status(call: Call) -> "Status":
    return cast("Status", as_reply(call.ask("status")))


def _told(call: Call, *, local: bool = False) -> list[str]:
    """Return a line for each alarm, or for each of this node."""
    return [
        f"{one.source.capitalize()} alarm on node {one.node}: {one.detail}"
        for one in _status(call).alarms
        if not local or one.node == call.name
    ]


def check_running(call: Call) -> None:
    call.banner(f"Checking if RabbitMQ is running on node {call.name} ...")
    if not call.node["running"]:
        raise CtlError(f"Error:\nRabbitMQ on node {call.name} is not running or has not started")
    _passed(call, f"RabbitMQ on node {call.name} is fully booted and running")


def check_local_alarms(call: Call) -> None:
    call.banner(f"Asking node {call.name} to report any local resource alarm ...")
    found = "\n".join(_told(call, local=True))
    if found:
        raise CtlError(f"Error:\nNode {call.name} reported the following local alarms:\n{found}")
    _passed(call, f"Node {call.name} reported no local alarms")


def check_alarms(call: Call) -> None:
    call.banner(f"Asking node {call.name} to report any known resource alarm ...")
    found = "\n".join(_told(call))
    if found:
        raise CtlError(f"Error:\nNode {call.name} reported the following alarms:\n{found}")
    _passed(call, f"Node {call.name} reported no alarms, local or clusterwide")


def check_port_connectivity(call: Call) -> None:
    call.banner(f"Testing TCP connections to all active listeners on node {call.name} ...")
    for one in _status(call).listeners:
        host = _REACHED_BY.get(one.address, one.address)
        try:
            socket.create_connection((host, one.port), _CONNECT_S).close()
        except OSError as failure:
            why = failure.strerror or failure
            raise CtlError(f"Error:\n{host}:{one.port}: {why}") from None
    _passed(call, f"Successfully connected to ports on node {call.name}.")


def check_port_listener(call: Call) -> None:
    port = call.arguments[0]
    call.banner(f"Asking node {call.name} if there's an active listener on port {port} ...")
    if port not in {str(one.port) for one in _status(call).listeners}:
        raise CtlError(f"Error:\nNo listener on port {port} on node {call.name}")
    _passed(call, f"A listener for port {port} is running on node {call.name}.")


def check_virtual_hosts(call: Call) -> None:
    call.banner(f"Checking if all vhosts are running on node {call.name} ...")
    call.ask("status")
    _passed(call, f"Node {call.name} reported all vhosts as running")


def node_health_check(call: Call) -> None:
    check_local_alarms(call)
    _passed(call, "Health check passed")


def alarms(call: Call) -> None:
    call.banner(f"Asking node {call.name} to report any known resource alarm ...")
    found = _told(call)
    if call.formatter == "json":
        local = _told(call, local=True)
        call.value({"local": local, "global": found, "message": "", "node": call.name})
        return
    none = f"Node {call.name} reported no alarms, local or clusterwide"
    print("\n".join(found or [none]))


def listeners(call: Call) -> None:
    from warren.cli.ctl import status

    call.banner(f"Asking node {call.name} to report its protocol listeners ...")
    found = _status(call)
    if call.formatter == "json":
        every = status.listeners(call, found)
        call.value({"listeners": every, "node": call.name, "result": "ok"})
        return
    for one in status.places(call, found):
        print(one[:1].upper() + one[1:])


def is_running(call: Call) -> None:
    call.banner(f"Asking node {call.name} for its status ...")
    word = "is fully booted and running" if call.node["running"] else "is not running"
    print(f"RabbitMQ on node {call.name} {word}")


def server_version(call: Call) -> None:
    call.banner(f"Asking node {call.name} for its RabbitMQ version...")
    print(call.node["compatible_version"])
