"""The operator of the broker under test: control commands on Warren, rabbitmqctl on the reference.

Commands have the same names on both; arguments are those of Warren's, by keyword.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.broker import Broker, reference_named
from tests.support.wire import Client

Arguments = dict[str, Any]


def _in_vhost(*names: str) -> Callable[[Arguments], list[str]]:
    """A vhost, then these arguments in order."""
    return lambda given: ["-p", given.get("vhost", "/"), *(_text(given[name]) for name in names)]


def _plain(*names: str) -> Callable[[Arguments], list[str]]:
    return lambda given: [_text(given[name]) for name in names]


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _delete_queue(given: Arguments) -> list[str]:
    switches = [
        f"--{name.replace('_', '-')}" for name in ("if_empty", "if_unused") if name in given
    ]
    return [*_in_vhost("queue")(given), *switches]


def _close_all(given: Arguments) -> list[str]:
    where = ["--global"] if given.get("vhost") is None else ["-p", given["vhost"]]
    return [*where, "--limit", str(given.get("limit", 0)), given["reason"]]


_REFERENCE: Final[dict[str, Callable[[Arguments], list[str]]]] = {
    "add_vhost": _plain("vhost"),
    "delete_vhost": _plain("vhost"),
    "add_user": _plain("user", "password"),
    "delete_user": _plain("user"),
    "set_permissions": _in_vhost("user", "configure", "write", "read"),
    "set_vhost_limits": _in_vhost("definition"),
    "clear_vhost_limits": _in_vhost(),
    "trace_on": _in_vhost(),
    "trace_off": _in_vhost(),
    "set_user_limits": _plain("user", "definition"),
    "clear_user_limits": _plain("user", "limit"),
    "close_connection": _plain("pid", "reason"),
    "close_all_connections": _close_all,
    "close_all_user_connections": _plain("user", "reason"),
    "delete_queue": _delete_queue,
    "purge_queue": _in_vhost("queue"),
}


def operate(broker: Broker, command: str, **arguments: Any) -> Any:
    """Run a command; on the reference the reply is what it printed."""
    if broker.log is None:
        pytest.skip("an external broker has no operator here")
    if not broker.is_reference:
        return broker.control(command, **arguments)
    return _ctl(broker, command, *_REFERENCE[command](arguments))


def _ctl(broker: Broker, *words: str) -> str:
    reference = reference_named()
    assert reference is not None
    tool = str(Path(reference).with_name("rabbitmqctl"))
    node = broker.environment["RABBITMQ_NODENAME"]
    done = subprocess.run(
        [tool, "-q", "-n", node, *words],
        env=broker.environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pid_of(broker: Broker, client: Client) -> str:
    """What `close_connection` calls this client's connection."""
    port = client.socket.getsockname()[1]
    if not broker.is_reference:
        return f"127.0.0.1:{port}"
    rows = _ctl(broker, "list_connections", "peer_port", "pid").splitlines()
    return next(row.split("\t")[1] for row in rows if row.startswith(f"{port}\t"))


def tenant(broker: Broker, name: str) -> Arguments:
    """Make a vhost and a user of this name with all permissions in it; how the user logs in."""
    operate(broker, "add_vhost", vhost=name)
    operate(broker, "add_user", user=name, password="secret")
    operate(broker, "set_permissions", vhost=name, user=name, configure=".*", write=".*", read=".*")
    return {"vhost": name, "user": name, "password": "secret"}
