"""A well-behaved client that goes on publishing and consuming while a test misbehaves elsewhere."""

import threading
import time
from types import TracebackType
from typing import Final, Self

from tests.support.broker import Broker

# A round trip takes under a millisecond on an idle broker; a peer that stalls the broker's loop
# for longer than this is a defect even on a slow, shared machine.
ROUND_TRIP_SECONDS_MAX: Final = 2.0


class Bystander:
    """Publishes, is confirmed, gets the delivery, acks; over and over until the block ends."""

    def __init__(self, broker: Broker) -> None:
        self.client = broker.connect()
        self.channel = self.client.channel()
        self.queue = self.channel.queue_declare(exclusive=True).queue
        self.channel.confirm_select()
        self.channel.consume(self.queue)
        self.rounds = 0
        self.slowest = 0.0
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander")

    def __enter__(self) -> Self:
        self._round()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            if self.failure is not None:
                raise AssertionError("the well-behaved client suffered") from self.failure
            self._round()
            assert self.slowest < ROUND_TRIP_SECONDS_MAX, f"a round trip took {self.slowest} s"
            self.client.close()
        self.client.drop()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.005):
                self._round()
        except BaseException as failure:
            self.failure = failure

    def _round(self) -> None:
        began = time.monotonic()
        body = b"round %d" % self.rounds
        self.channel.publish(body, routing_key=self.queue)
        confirm = self.channel.wait_for("basic.ack")
        delivery = self.channel.wait_for("basic.deliver")
        assert confirm.delivery_tag == self.rounds + 1
        assert delivery.body == body
        self.channel.ack(delivery.delivery_tag)
        self.rounds += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
