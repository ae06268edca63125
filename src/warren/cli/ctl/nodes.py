"""Verbs about the life of a node: is it there, does it serve, take it down, bring it back."""

import time
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import OK, TIMEOUT, CtlError, Misuse

_POLL_S: Final = 0.05
_START_S: Final = 300.0
_WAIT_S: Final = 10.0


def ping(call: Call) -> None:
    seconds = call.timeout_s()
    wait = "infinity" if seconds is None else f"{seconds * 1000:g} ms"
    call.banner(
        f"Will ping {call.name}. This only checks if the process is running and answers. "
        f"Timeout: {wait}."
    )
    call.done("Ping succeeded")


def start_app(call: Call) -> None:
    call.banner(f"Starting node {call.name} ...")
    call.ask("start_app")
    call.done()


def stop_app(call: Call) -> None:
    call.banner(f"Stopping rabbit application on node {call.name} ...")
    call.ask("stop_app")
    call.done()


def await_startup(call: Call) -> None:
    _await(call, _START_S)
    call.done()


def wait(call: Call) -> None:
    """Wait for a node whose process is known, or is told in a file."""
    from pathlib import Path

    if call.arguments:
        file = Path(call.arguments[0])
        deadline = time.monotonic() + _seconds(call, _WAIT_S)
        while not file.is_file():
            _pause(deadline, f"there is no pid file {file}")
    elif "pid" not in call.options:
        raise Misuse("No pid or pidfile specified")
    call.banner("Waiting for the node to start")
    _await(call, _WAIT_S)
    call.banner(f"Applications 'rabbit_and_plugins' are running on node '{call.name}'")


def await_online_nodes(call: Call) -> None:
    if call.arguments[0] != "1":
        raise Misuse("this node is alone: there is 1 node to wait for")
    call.banner("Will wait for at least 1 nodes to join the cluster of this node")


def _seconds(call: Call, default: float) -> float:
    given = call.options.get("timeout")
    return default if given is None else float(given)


def _pause(deadline: float, why: str) -> None:
    if time.monotonic() > deadline:
        raise CtlError(f"Error:\n{why}", TIMEOUT)
    time.sleep(_POLL_S)


def _await(call: Call, seconds: float) -> None:
    deadline = time.monotonic() + _seconds(call, seconds)
    while True:
        try:
            call.connect(app=True)
            return
        except (CtlError, Misuse) as failure:
            if call.link is not None:
                call.link.close()
            _pause(deadline, f"the node has not started: {failure.text}")


def stop(call: Call) -> int:
    """Stop the node and wait until its process is gone."""
    try:
        call.connect(app=False)
    except CtlError:
        if call.flag("idempotent"):
            return OK
        raise
    call.banner(f"Stopping and halting node {call.name} ...")
    _stop(call, waiting=True)
    return OK


def shutdown(call: Call) -> int:
    call.connect(app=False)
    call.banner(f"Shutting down node {call.name} running at PID {call.node['pid']}")
    _stop(call, waiting=not call.flag("no-wait"))
    call.banner(f"Node {call.name} is no longer running")
    return OK


def _stop(call: Call, *, waiting: bool) -> None:
    from warren.cli.question import lives

    reply = call.ask("stop", reason="rabbitmqctl stop")
    pid = int(str(reply["pid"]))
    deadline = time.monotonic() + _seconds(call, 60)
    while waiting and lives(pid):
        _pause(deadline, f"process {pid} still runs")
