"""Where dead letters go in tests, and a way to let time pass at the broker.

A `Grave` is a queue with a consumer that waits, so a test learns of a death by an event and never
by looking again and again. `lapse` measures time by the broker's own clock: a message elsewhere
that has this long to live has died.
"""

from typing import Any

from tests.support.channel import Channel
from tests.support.wire import WAIT


class Grave:
    """A queue for dead letters and its consumer, on a channel of its own."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel.client.channel()
        self.name: str = self.channel.queue_declare(exclusive=True).queue
        self.tag = self.channel.consume(self.name, no_ack=True)

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Arguments of a queue whose dead come here; underscores in names stand for dashes."""
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.name}
        return arguments | {name.replace("_", "-"): value for name, value in more.items()}

    def take(self, *, within: float | None = None) -> Any:
        """Return the next dead letter."""
        return self.channel.recv_delivery(within=within)

    def bodies(self, count: int) -> list[bytes]:
        return [self.take().body for _ in range(count)]

    def expect_nothing(self, *, within: float = 0.3) -> None:
        self.channel.expect_nothing(within=within)


def lapse(channel: Channel, milliseconds: int) -> None:
    """Return when this time has passed for the broker."""
    grave = Grave(channel)
    clock = grave.channel.queue_declare(exclusive=True, arguments=grave.arguments()).queue
    grave.channel.publish(routing_key=clock, expiration=str(milliseconds))
    grave.take(within=milliseconds / 1000 + WAIT)
    grave.channel.cancel(grave.tag)
    for queue in (clock, grave.name):
        grave.channel.queue_delete(queue)
    grave.channel.close()


def reason_of(letter: Any) -> str:
    """Return why a dead letter died last."""
    reason: str = letter.headers["x-death"][0]["reason"]
    return reason
