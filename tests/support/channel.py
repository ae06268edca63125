"""One channel of a test client: every method that a client may send, and its waits.

Calls that have a reply wait for it and return it, unless `nowait=True` is given; the reply must be
the next event of the channel. To send a method without waiting, use `send(name, ...)`.
"""

from typing import TYPE_CHECKING, Any

from tests.support.expectation import Text, Unexpected, check_close

if TYPE_CHECKING:
    from tests.support.wire import Client


class Channel:
    """A channel number on a `Client`."""

    def __init__(self, client: "Client", number: int) -> None:
        self.client = client
        self.number = number

    def send(self, name: str, **arguments: Any) -> None:
        self.client.send(self.number, name, **arguments)

    def call(self, name: str, **arguments: Any) -> Any:
        self.send(name, **arguments)
        if arguments.get("nowait"):
            return None
        return self.expect(f"{name}-ok")

    def expect(self, name: str, *, within: float | None = None, **wanted: Any) -> Any:
        return self.client.expect(name, channel=self.number, within=within, **wanted)

    def wait_for(self, name: str, *, within: float | None = None) -> Any:
        return self.client.wait_for(name, channel=self.number, within=within)

    def expect_nothing(self, *, within: float = 0.3) -> None:
        self.client.expect_nothing(channel=self.number, within=within)

    def expect_close(
        self,
        code: int,
        text: Text,
        *,
        method: str | tuple[int, int] | None = None,
        within: float | None = None,
        answer: bool = True,
    ) -> Any:
        """Demand `channel.close` as the next event of this channel; answer it."""
        close = self.client.next_event(
            channel=self.number, within=within, reason=f"channel.close {code}"
        )
        check_close(close, "channel.close", code, text, method)
        if answer:
            self.send("channel.close-ok")
        return close

    def sync(self) -> None:
        """Return once the broker has dealt with everything sent on this channel so far."""
        self.send("channel.flow", active=True)
        self.wait_for("channel.flow-ok")

    # Channel.

    def flow(self, active: bool) -> Any:
        return self.call("channel.flow", active=active)

    def close(self) -> None:
        self.send("channel.close", reply_text="bye")
        self.wait_for("channel.close-ok")

    def reopen(self) -> "Channel":
        return self.client.channel(self.number)

    # Exchanges and queues.

    def exchange_declare(self, exchange: str, kind: str = "direct", **options: Any) -> Any:
        return self.call("exchange.declare", exchange=exchange, type=kind, **options)

    def exchange_delete(self, exchange: str, **options: Any) -> Any:
        return self.call("exchange.delete", exchange=exchange, **options)

    def exchange_bind(
        self, destination: str, source: str, routing_key: str = "", **options: Any
    ) -> Any:
        return self.call(
            "exchange.bind",
            destination=destination,
            source=source,
            routing_key=routing_key,
            **options,
        )

    def exchange_unbind(
        self, destination: str, source: str, routing_key: str = "", **options: Any
    ) -> Any:
        return self.call(
            "exchange.unbind",
            destination=destination,
            source=source,
            routing_key=routing_key,
            **options,
        )

    def queue_declare(self, queue: str = "", **options: Any) -> Any:
        return self.call("queue.declare", queue=queue, **options)

    def queue_delete(self, queue: str = "", **options: Any) -> Any:
        return self.call("queue.delete", queue=queue, **options)

    def queue_purge(self, queue: str = "", **options: Any) -> Any:
        return self.call("queue.purge", queue=queue, **options)

    def queue_bind(self, queue: str, exchange: str, routing_key: str = "", **options: Any) -> Any:
        return self.call(
            "queue.bind", queue=queue, exchange=exchange, routing_key=routing_key, **options
        )

    def queue_unbind(self, queue: str, exchange: str, routing_key: str = "", **options: Any) -> Any:
        return self.call(
            "queue.unbind", queue=queue, exchange=exchange, routing_key=routing_key, **options
        )

    # Messages.

    def publish(
        self,
        body: bytes = b"",
        *,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
        raw_properties: bytes | None = None,
        part_size: int | None = None,
        **properties: Any,
    ) -> None:
        """Publish; further keywords are basic properties (`headers=...`, `delivery_mode=2`)."""
        self.send(
            "basic.publish",
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
        )
        content = properties if raw_properties is None else raw_properties
        self.client.send_content(self.number, body, content, part_size=part_size)

    def qos(self, count: int, *, size: int = 0, shared: bool = False) -> Any:
        return self.call("basic.qos", prefetch_size=size, prefetch_count=count, global_=shared)

    def consume(self, queue: str = "", tag: str = "", **options: Any) -> str:
        """Start a consumer and return its tag."""
        reply = self.call("basic.consume", queue=queue, consumer_tag=tag, **options)
        return tag if reply is None else reply.consumer_tag

    def cancel(self, tag: str, *, nowait: bool = False) -> None:
        """Cancel a consumer; deliveries that came before the reply stay in the inbox."""
        self.send("basic.cancel", consumer_tag=tag, nowait=nowait)
        if not nowait:
            self.wait_for("basic.cancel-ok")

    def get(self, queue: str = "", *, no_ack: bool = False) -> Any:
        """Return the message, or None for `basic.get-empty`."""
        self.send("basic.get", queue=queue, no_ack=no_ack)
        event = self.client.next_event(channel=self.number, reason="basic.get-ok or get-empty")
        if event.name == "basic.get-empty":
            return None
        if event.name != "basic.get-ok":
            raise Unexpected(f"expected basic.get-ok or get-empty, got {event}")
        return event

    def recv_delivery(self, *, within: float | None = None, **wanted: Any) -> Any:
        return self.expect("basic.deliver", within=within, **wanted)

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self.send("basic.ack", delivery_tag=delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send("basic.nack", delivery_tag=delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, *, requeue: bool = True) -> None:
        self.send("basic.reject", delivery_tag=delivery_tag, requeue=requeue)

    def recover(self, *, requeue: bool = True) -> Any:
        return self.call("basic.recover", requeue=requeue)

    # Confirms and transactions.

    def confirm_select(self, **options: Any) -> Any:
        return self.call("confirm.select", **options)

    def wait_confirms(
        self, last: int, *, first: int = 1, within: float | None = None
    ) -> dict[int, str]:
        """Take confirms until `first` to `last` have their answers: {number: "ack" or "nack"}."""
        answers: dict[int, str] = {}
        while len(answers) < last - first + 1:
            event = self.client.next_event(channel=self.number, within=within, reason="a confirm")
            if event.name not in ("basic.ack", "basic.nack"):
                raise Unexpected(f"expected a confirm, got {event}")
            numbers = (
                [n for n in range(first, event.delivery_tag + 1) if n not in answers]
                if event.multiple
                else [event.delivery_tag]
            )
            for number in numbers:
                assert first <= number <= last, f"confirm of {number}, not in {first} to {last}"
                assert number not in answers, f"second answer for {number}"
                answers[number] = event.name.removeprefix("basic.")
        return answers

    def tx_select(self) -> Any:
        return self.call("tx.select")

    def tx_commit(self) -> Any:
        return self.call("tx.commit")

    def tx_rollback(self) -> Any:
        return self.call("tx.rollback")
