"""The management process: its parts, its start, and its end with the node.

The node hands over listening sockets by their descriptors. Standard input is a pipe that the node
holds: when it ends, so does this process, whatever has become of the node.
"""

import asyncio
import logging
import os
import socket
import sys
from typing import Any, Final

import msgspec
import uvicorn

from warren.management.access import Access
from warren.management.api import ENDPOINTS, METRICS
from warren.management.app import Api, App
from warren.management.control import ControlClient
from warren.management.mirror import Mirror
from warren.management.router import Router
from warren.runtime import SystemClock, SystemRandom
from warren.runtime.loop import new_loop

# Messages come first where the processor is short.
NICENESS: Final = 5
HEADER_OCTETS_MAX: Final = 65_536
CONNECTIONS_MAX: Final = 1000
END_S_MAX: Final = 2.0
PROMETHEUS: Final = "http/prometheus"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the node tells at the start."""

    control: str
    # Protocol and descriptor of each.
    listeners: list[tuple[str, int]]
    path_prefix: str
    interval_ms: int
    per_object: bool


def main(argument: str) -> None:
    options = msgspec.json.decode(argument, type=Options)
    logging.basicConfig(level=logging.WARNING, format="management: %(message)s")
    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(options))


async def _serve(options: Options) -> None:
    control = ControlClient(options.control)
    clock = SystemClock()
    access = Access(control, clock, SystemRandom())
    mirror = Mirror(control, options.interval_ms, access.forget)
    api = Api(control, mirror, access, clock, options.path_prefix, options.per_object)
    sockets = []
    metrics_ports = set()
    for protocol, descriptor in options.listeners:
        opened = socket.socket(fileno=descriptor)
        sockets.append(opened)
        if protocol == PROMETHEUS:
            metrics_ports.add(int(opened.getsockname()[1]))
    app: Any = App(  # type: ignore[explicit-any]
        api, main=Router(ENDPOINTS), metrics=Router(METRICS), metrics_ports=metrics_ports
    )
    server = uvicorn.Server(
        uvicorn.Config(
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
    )
    reading = asyncio.create_task(mirror.run())
    watching = asyncio.create_task(_end_with_node(server))
    try:
        await server.serve(sockets=sockets)
    finally:
        reading.cancel()
        watching.cancel()


async def _end_with_node(server: uvicorn.Server) -> None:
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
    server.should_exit = True
    await asyncio.sleep(END_S_MAX)
    os._exit(1)
