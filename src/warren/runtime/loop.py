"""The event loop and listening sockets of the real machine.

uvloop where it is installed, asyncio's own loop otherwise; both carry raw non-blocking sockets by
`add_reader` and `add_writer`, so that octets are received and sent without a layer in between.
"""

import asyncio
import socket
from typing import Final

# Received in one go at most; also the most that one peer's octets cost the others in a turn.
RECEIVE_MAX: Final = 131_072
# Received at a time while large bodies come in: what counts then is the number of system calls.
LARGE_READ: Final = 524_288


def new_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def loop_name(loop: asyncio.AbstractEventLoop) -> str:
    return "uvloop" if type(loop).__module__.startswith("uvloop") else "asyncio"


def listening_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Open every address a host name stands for; with port 0 the first one's port serves all."""
    opened: list[socket.socket] = []
    seen: set[object] = set()
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, address in found:
            if address in seen:
                continue
            seen.add(address)
            one = socket.socket(family, kind, protocol)
            opened.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(opened) > 1:
                address = (address[0], opened[0].getsockname()[1], *address[2:])
            one.setblocking(False)
            one.bind(address)
            one.listen(backlog)
    except OSError as error:
        for one in opened:
            one.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return opened
