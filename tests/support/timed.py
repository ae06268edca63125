"""A broker for tests of what happens by the clock: on Warren time is advanced, else it is waited.

`pass_time` returns when everything the broker does in that time is done: at once on a broker in
this process whose clock stands still otherwise, after that time on the reference.
"""

import time
from typing import Any, Final

import warren.testing
from tests.support.broker import Broker, Settings
from tests.support.wire import Client

# What the reference does late, it does within this.
LATENESS: Final = 0.3


class Timed:
    """A broker, and the time that passes for it."""

    def __init__(self, settings: Settings) -> None:
        self.broker = warren.testing.Broker(**settings).start()
        self.broker.clock.stop()
        self.clients: list[Client] = []

    def raw(self, **options: Any) -> Client:
        """Return a client that is connected by TCP and has sent nothing."""
        self.clients.append(Client(self.broker.host, self.broker.port, **options))
        return self.clients[-1]

    def connect(self, **options: Any) -> Client:
        """Return a client whose connection is open; `options` are those of `Client.open`."""
        return self.raw().open(**options)

    def pass_time(self, seconds: float) -> None:
        self.broker.clock.advance(seconds)

    def stop(self) -> None:
        for each in self.clients:
            each.drop()
        self.broker.close()


class TimedReference(Timed):
    """The same in real time."""

    def __init__(self, started: Broker) -> None:
        self.started = started
        self.clients = []

    def raw(self, **options: Any) -> Client:
        self.clients.append(self.started.raw(**options))
        return self.clients[-1]

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds + LATENESS)

    def stop(self) -> None:
        """The fixture that started it stops it."""
        for each in self.clients:
            each.drop()
