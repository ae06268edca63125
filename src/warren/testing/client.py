"""A client of the node without a socket, for the helpers: octets go into a session and come back.

The helpers go the way every client goes, so what they declare, publish and get is checked, routed
and counted like anybody's. The connection exists for one operation; it is in no list.
"""

import asyncio
from collections import deque
from typing import Final, final

from warren.protocol import FrameSplitter, Properties, RawFrame
from warren.protocol import properties as content
from warren.protocol.frame import (
    FRAME_HEADER,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    content_frames,
    frame,
)
from warren.protocol.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    decode,
)
from warren.server.hub import Link, receive
from warren.server.node import Node
from warren.session import Connection
from warren.testing.errors import RefusedError, StoppedError
from warren.testing.message import Message, headers_of, properties_of

CHANNEL: Final = 1
FRAME_MAX: Final = 131_072


@final
class LocalClient(Link):
    """One connection to a node, from inside its event loop; use it there only."""

    def __init__(self, node: Node, vhost: str) -> None:
        super().__init__(node.hub)
        self._node = node
        self._vhost = vhost
        self._splitter = FrameSplitter(1 << 29)
        self._frames: deque[RawFrame] = deque()
        self._came = asyncio.Event()
        identity = node.hub.add(self)
        node.hub.remove(identity)
        self._session = Connection(
            identity,
            "127.0.0.1",
            0,
            node.broker,
            node.listeners.session,
            node.hub.outbox,
            tls=False,
            now_ns=node.clock.monotonic_ns(),
        )
        self.connection = self._session
        self._session.output.owner = self

    async def __aenter__(self) -> "LocalClient":
        login = f"\0{self._node.settings.default_user}\0{self._node.settings.default_pass}"
        self._send(
            PROTOCOL_HEADER
            + _method(0, ConnectionStartOk(mechanism="PLAIN", response=login.encode()))
            + _method(0, ConnectionTuneOk(channel_max=1, frame_max=FRAME_MAX, heartbeat=0))
            + _method(0, ConnectionOpen(virtual_host=self._vhost))
            + _method(CHANNEL, ChannelOpen())
        )
        for expected in (ConnectionStart, ConnectionTune, ConnectionOpenOk):
            method = await self._method()
            assert isinstance(method, expected), method.NAME
        await self._method()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.abort()

    # What the hub asks of a link.

    def flush(self) -> None:
        output = self._session.output
        data = b"".join(output.take())
        output.sent(len(data))
        if output.stalled:
            self._session.drained()
        self._frames += self._splitter.feed(data)
        self._came.set()

    def abort(self) -> None:
        self._session.lost("the helper is done")
        self._session.output.owner = None
        self.connection = None
        self._came.set()

    # The operations.

    async def call(self, method: Method) -> Method:
        """Send a method and return its answer."""
        self._send(_method(CHANNEL, method))
        return await self._method()

    async def publish(self, exchange: str, routing_key: str, props: bytes, body: bytes) -> bool:
        """Publish with a confirm; False if the message reached no queue."""
        await self.call(ConfirmSelect())
        method = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True)
        self._send(content_frames(CHANNEL, method.encode(), props, body, FRAME_MAX))
        routed = True
        while True:
            answer = await self._method()
            if isinstance(answer, BasicReturn):
                routed = False
                await self._content()
            elif isinstance(answer, BasicAck):
                return routed
            elif isinstance(answer, BasicNack):
                raise RefusedError(0, f"basic.nack: {routing_key!r} was refused by its queue")

    async def get(self, queue: str) -> Message | None:
        """Take the next message of a queue, without a need to acknowledge it."""
        answer = await self.call(BasicGet(queue=queue, no_ack=True))
        if isinstance(answer, BasicGetEmpty):
            return None
        assert isinstance(answer, BasicGetOk), answer.NAME
        found, body = await self._content()
        return Message(
            body=body,
            exchange=answer.exchange,
            routing_key=answer.routing_key,
            redelivered=answer.redelivered,
            headers=headers_of(found),
            properties=properties_of(found),
        )

    def _send(self, data: bytes) -> None:
        self.hub.begin()
        receive(self._session, data)

    async def _frame(self) -> RawFrame:
        while not self._frames:
            if self._session.gone:
                raise StoppedError(f"the connection ended: {self._session.close_text}")
            self._came.clear()
            await self._came.wait()
        return self._frames.popleft()

    async def _method(self) -> Method:
        received = await self._frame()
        assert received.kind == FRAME_METHOD, received
        method = decode(received.payload, 0, len(received.payload))
        if isinstance(method, ChannelClose | ConnectionClose):
            raise RefusedError(method.reply_code, method.reply_text)
        return method

    async def _content(self) -> tuple[Properties, bytes]:
        header = await self._frame()
        assert header.kind == FRAME_HEADER, header
        size = int.from_bytes(header.payload[4:12], "big")
        parts: list[bytes] = []
        while size > 0:
            parts.append((await self._frame()).payload)
            size -= len(parts[-1])
        return content.decode(header.payload[12:]), b"".join(parts)


def _method(channel: int, method: Method) -> bytes:
    return frame(FRAME_METHOD, channel, method.encode())
