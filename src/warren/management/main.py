"""The management process: its parts, its start, and its end with the node.

The node hands over listening sockets by their descriptors. Standard input is a pipe that the node
holds: the first line is what the node tells, and when it ends, so does this process, whatever has
become of the node.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import uvicorn

from warren.management.access import Access
from warren.management.api import ENDPOINTS, METRICS
from warren.management.app import Api, App
from warren.management.control import ControlClient
from warren.management.mirror import Mirror
from warren.management.router import Router
from warren.management.tls import Renewal, TlsFiles, context_of
from warren.runtime import SystemClock, SystemRandom
from warren.runtime.loop import new_loop

# Messages come first where the processor is short.
NICENESS: Final = 5
HEADER_OCTETS_MAX: Final = 65_536
CONNECTIONS_MAX: Final = 1000
END_S_MAX: Final = 2.0
PROMETHEUS: Final = "http/prometheus"
HTTPS: Final = "https"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the node tells at the start."""

    control: str
    # Protocol and descriptor of each.
    listeners: list[tuple[str, int]]
    path_prefix: str
    interval_ms: int
    per_object: bool
    tls: TlsFiles | None = None


def main() -> None:
    options = msgspec.json.decode(_first_line(), type=Options)
    logging.basicConfig(level=logging.WARNING, format="management: %(message)s")
    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(options))


def _first_line() -> bytes:
    """Read what the node tells; it writes no more than that."""
    told = b""
    while not told.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 65_536)
        if not part:
            sys.exit(1)
        told += part
    return told


async def _serve(options: Options) -> None:
    control = ControlClient(options.control)
    clock = SystemClock()
    access = Access(control, clock, SystemRandom())
    mirror = Mirror(control, options.interval_ms, access.forget)
    api = Api(control, mirror, access, clock, options.path_prefix, options.per_object)
    plain: list[socket.socket] = []
    encrypted: list[socket.socket] = []
    metrics_ports = set()
    for protocol, descriptor in options.listeners:
        opened = socket.socket(fileno=descriptor)
        (encrypted if protocol == HTTPS else plain).append(opened)
        if protocol == PROMETHEUS:
            metrics_ports.add(int(opened.getsockname()[1]))
    app: Any = App(  # type: ignore[explicit-any]
        api, main=Router(ENDPOINTS), metrics=Router(METRICS), metrics_ports=metrics_ports
    )
    tasks = [asyncio.create_task(mirror.run())]
    servers = []
    serving = []
    if plain:
        servers.append(uvicorn.Server(_config(app)))
        serving.append(servers[-1].serve(sockets=plain))
    if encrypted and options.tls is not None:
        config = _config(app)
        config.load()
        # Not by the settings of uvicorn: a context of ours can be given another certificate.
        config.ssl = context_of(options.tls)
        tasks.append(asyncio.create_task(Renewal(options.tls, config.ssl).run()))
        servers.append(uvicorn.Server(config))
        serving.append(servers[-1].serve(sockets=encrypted))
    tasks.append(asyncio.create_task(_end_with_node(servers)))
    try:
        await asyncio.gather(*serving)
    finally:
        for task in tasks:
            task.cancel()


def _config(app: Any) -> uvicorn.Config:  # type: ignore[explicit-any]
    return uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        ws="none",
        http="h11",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEADER_OCTETS_MAX,
        timeout_graceful_shutdown=1,
    )


async def _end_with_node(servers: Sequence[uvicorn.Server]) -> None:
    """Wait until standard input ends; then end in order, or at once if that takes too long."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    reader = sys.stdin.fileno()

    def look() -> None:
        if not os.read(reader, 4096):
            loop.remove_reader(reader)
            ended.set_result(None)

    loop.add_reader(reader, look)
    await ended
    for server in servers:
        server.should_exit = True
    await asyncio.sleep(END_S_MAX)
    os._exit(1)
