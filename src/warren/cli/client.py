"""Asking a node: one request and one reply over its control socket, and finding that socket.

Plain blocking socket and JSON: importing an event loop would take longer than the question.
"""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, cast

from warren.cli.exit import FAILED, NOT_PERMITTED, TIMEOUT, UNAVAILABLE, CliError
from warren.server.place import SOCKET_NAME, default_data_dir, names_a_file

# A page of a thousand queues is under a megabyte.
REPLY_OCTETS_MAX: Final = 64 << 20
_CHUNK_OCTETS: Final = 1 << 18


class Given(Protocol):
    """Options that name a node."""

    socket: str | None
    data_dir: str | None
    config: str | None


def socket_path(given: Given, env: Mapping[str, str]) -> Path:
    """Return the control socket that the options and the environment name."""
    if given.socket:
        return Path(given.socket)
    if given.config or (names_a_file(env) and not given.data_dir):
        return _configured(given, env)
    if given.data_dir:
        return Path(given.data_dir) / SOCKET_NAME
    if env.get("WARREN_CONTROL_SOCKET"):
        return Path(env["WARREN_CONTROL_SOCKET"])
    named = env.get("WARREN_DATA_DIR")
    return (Path(named) if named else default_data_dir(env)) / SOCKET_NAME


def _configured(given: Given, env: Mapping[str, str]) -> Path:
    from warren.server.config_entry import Entry
    from warren.server.config_load import load

    options = [Entry("data_dir", given.data_dir, "--data-dir")] if given.data_dir else []
    return load(file=given.config, env=env, options=options).socket_path()


def ask(path: Path, command: str, args: Mapping[str, object], *, timeout_s: float) -> bytes:
    """Return the JSON of the node's answer; `CliError` if there is none or it is a refusal."""
    request = json.dumps({"v": 1, "id": os.getpid(), "command": command, "args": args})
    try:
        raw = _exchange(path, request.encode() + b"\n", timeout_s)
    except (FileNotFoundError, ConnectionRefusedError):
        raise CliError(_nobody(path), UNAVAILABLE) from None
    except PermissionError:
        raise CliError(f"not permitted to open {path}: be its owner", NOT_PERMITTED) from None
    except TimeoutError:
        message = f"the node did not answer within {timeout_s:g} s ({path})"
        raise CliError(message, TIMEOUT) from None
    except OSError as failure:
        raise CliError(f"{path}: {failure.strerror or failure}", UNAVAILABLE) from None
    try:
        reply = cast("dict[str, object]", json.loads(raw))
        refusal = cast("dict[str, str] | None", reply.get("error"))
    except (ValueError, AttributeError):
        raise CliError(f"{path} gave no valid reply: is it a Warren node?", UNAVAILABLE) from None
    if refusal is not None:
        fix = f"\n{refusal['fix']}" if refusal.get("fix") else ""
        raise CliError(refusal["message"] + fix, FAILED)
    return json.dumps(reply["ok"]).encode()


def _exchange(path: Path, request: bytes, timeout_s: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
        opened.settimeout(timeout_s)
        opened.connect(str(path))
        opened.sendall(request)
        chunks: list[bytes] = []
        octets = 0
        while not (chunks and chunks[-1].endswith(b"\n")):
            chunk = opened.recv(_CHUNK_OCTETS)
            octets += len(chunk)
            if not chunk:
                raise ConnectionResetError("the node closed the connection")
            if octets > REPLY_OCTETS_MAX:
                raise OSError("the reply is too large")
            chunks.append(chunk)
    return b"".join(chunks)


def _nobody(path: Path) -> str:
    return (
        f"no node answers at {path}\n"
        "start one with `warren start`, or name another with --data-dir or --socket"
    )
