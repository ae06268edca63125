"""A virtual host in the hands of a test: declare, publish, get, look, and wait, without a client.

The helpers are clients of the node (`client.py`); what they cannot do raises `RefusedError` with
the broker's code and text. They answer at once, so an asyncio test may call them too; what waits
for others has its awaitable form in `Broker.aio`.
"""

import json
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar, Unpack
from urllib.parse import quote

from warren.protocol.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)
from warren.protocol.value import table
from warren.testing import state
from warren.testing.aio import AsyncSide
from warren.testing.client import LocalClient
from warren.testing.message import GivenProperties, Message, encoded
from warren.testing.state import QueueState
from warren.testing.wait import WITHIN_S, Wish, wait
from warren.vhost.change import VHostDelete

if TYPE_CHECKING:
    from warren.testing.engine import Engine

R = TypeVar("R")
Arguments = dict[str, object]

# Shown of a log when a wait ends badly.
LOG_LINES_SHOWN: Final = 20


class VHost:
    """One virtual host; `url` is for clients."""

    def __init__(self, engine: "Engine", name: str, port: int) -> None:
        self._engine = engine
        self._vhost = name
        self._port = port
        self.aio: Final = AsyncSide(self, engine)

    @property
    def name(self) -> str:
        return self._vhost

    @property
    def url(self) -> str:
        """Where clients connect, as the default user."""
        return self.url_for(self._engine.settings.default_user, self._engine.settings.default_pass)

    def url_for(self, user: str, password: str) -> str:
        """Where clients connect as this user."""
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"amqp://{login}@127.0.0.1:{self._port}/{quote(self._vhost, safe='')}"

    def delete(self) -> None:
        """Delete it with all in it; its connections are closed."""
        self._engine.change(VHostDelete(name=self._vhost))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.delete()

    # Topology.

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
    ) -> str:
        """Declare a queue and return its name; the broker makes one up for an empty name."""
        answer = self._call(
            QueueDeclare(
                queue=name,
                durable=durable,
                auto_delete=auto_delete,
                arguments=table(arguments or {}),
            )
        )
        assert isinstance(answer, QueueDeclareOk), answer.NAME
        return answer.queue

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        self._call(
            ExchangeDeclare(
                exchange=name,
                type=kind,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=table(arguments or {}),
            )
        )

    def bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Bind a queue to an exchange."""
        self._call(
            QueueBind(
                queue=queue,
                exchange=exchange,
                routing_key=routing_key,
                arguments=table(arguments or {}),
            )
        )

    def bind_exchange(
        self, target: str, source: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Bind an exchange to another one that messages come from."""
        self._call(
            ExchangeBind(
                destination=target,
                source=source,
                routing_key=routing_key,
                arguments=table(arguments or {}),
            )
        )

    def delete_queue(self, name: str) -> None:
        self._call(QueueDelete(queue=name))

    def delete_exchange(self, name: str) -> None:
        self._call(ExchangeDelete(exchange=name))

    def purge(self, queue: str) -> int:
        """Drop the ready messages of a queue; return how many there were."""
        answer = self._call(QueuePurge(queue=queue))
        assert isinstance(answer, QueuePurgeOk), answer.NAME
        return answer.message_count

    # Messages.

    def publish(
        self,
        body: bytes | str | dict[str, object] | list[object],
        routing_key: str = "",
        *,
        exchange: str = "",
        headers: dict[str, object] | None = None,
        **properties: Unpack[GivenProperties],
    ) -> bool:
        """Publish, wait for the confirm, and tell whether the message reached a queue.

        A dict or a list is sent as JSON. A message that its queue refuses raises `RefusedError`.
        """
        if isinstance(body, dict | list):
            body = json.dumps(body)
            properties.setdefault("content_type", "application/json")
        octets = body.encode() if isinstance(body, str) else body
        props = encoded(headers, properties)

        async def work() -> bool:
            async with LocalClient(self._engine.node, self._vhost) as client:
                return await client.publish(exchange, routing_key, props, octets)

        return self._engine.run(work())

    def get(self, queue: str) -> Message | None:
        """Take the next ready message, or None."""
        found = self._take(queue, 1)
        return found[0] if found else None

    def get_all(self, queue: str) -> list[Message]:
        """Take every ready message."""
        return self._take(queue, -1)

    def receive(self, queue: str, *, within: float = WITHIN_S) -> Message:
        """Take the next message, waiting for it in real time."""
        return wait(self.message_wish(queue), within)

    # Looking.

    def queue(self, name: str) -> QueueState | None:
        """The queue as it is now, or None."""
        return self._engine.call(lambda: state.find_queue(self._engine.node, self._vhost, name))

    def queues(self) -> list[QueueState]:
        return self._engine.call(lambda: state.all_queues(self._engine.node, self._vhost))

    def ready(self, queue: str) -> int:
        """How many messages wait in a queue: 0 also for one that is not there."""
        found = self.queue(queue)
        return found.ready if found is not None else 0

    def unacked(self, queue: str) -> int:
        """How many messages of a queue are out with consumers."""
        found = self.queue(queue)
        return found.unacked if found is not None else 0

    def consumers(self, queue: str) -> int:
        found = self.queue(queue)
        return found.consumers if found is not None else 0

    # Waiting.

    def wait_until(
        self,
        holds: Callable[[], R | None],
        *,
        within: float = WITHIN_S,
        what: str = "the condition",
    ) -> R:
        """Return the first true value of `holds`; `NotInTimeError` shows the queues if none came.

        Time is real time, whatever the broker's clock does.
        """
        return wait(self.wish(holds, what), within)

    def wait_for_queue(
        self,
        name: str,
        *,
        ready: int | None = None,
        unacked: int | None = None,
        consumers: int | None = None,
        within: float = WITHIN_S,
    ) -> QueueState:
        """Wait until a queue is there and has exactly these numbers."""
        return wait(self.queue_wish(name, ready, unacked, consumers), within)

    def wish(self, look: Callable[[], R | None], what: str) -> Wish[R]:
        return Wish(look, what, self._told)

    def message_wish(self, queue: str) -> Wish[Message]:
        return self.wish(lambda: self.get(queue), f"a message in {queue!r}")

    def queue_wish(
        self, name: str, ready: int | None, unacked: int | None, consumers: int | None
    ) -> Wish[QueueState]:
        given = {"ready": ready, "unacked": unacked, "consumers": consumers}
        wanted = {key: number for key, number in given.items() if number is not None}

        def look() -> QueueState | None:
            found = self.queue(name)
            if found is None:
                return None
            counts = {"ready": found.ready, "unacked": found.unacked, "consumers": found.consumers}
            return found if counts | wanted == counts else None

        numbers = ", ".join(f"{number} {key}" for key, number in wanted.items())
        return self.wish(look, f"queue {name!r} with {numbers}" if numbers else f"queue {name!r}")

    def _told(self) -> str:
        """What is true now, for whoever waited in vain."""
        queues = [f"  {one}" for one in self.queues()] or ["  none"]
        log = [f"  {one}" for one in self._engine.log.events()[-LOG_LINES_SHOWN:]]
        return "\n".join(["queues:", *queues, "log:", *log])

    def _call(self, method: Method) -> Method:
        async def work() -> Method:
            async with LocalClient(self._engine.node, self._vhost) as client:
                return await client.call(method)

        return self._engine.run(work())

    def _take(self, queue: str, most: int) -> list[Message]:
        async def work() -> list[Message]:
            found: list[Message] = []
            async with LocalClient(self._engine.node, self._vhost) as client:
                while len(found) != most and (one := await client.get(queue)) is not None:
                    found.append(one)
            return found

        return self._engine.run(work())
