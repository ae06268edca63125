"""The consuming side: all consumers of a run in one epoll loop, compiled.

Each turn reads at most one large piece per connection, walks it (`stream`), and sends the
acknowledgements it made. The end is reached when everything expected has arrived, or nothing has
for the drain timeout.
"""

import select
import socket
import ssl
import time
from typing import Final, final

from mypy_extensions import i64

from warren.bench import frame
from warren.bench.histogram import Histogram
from warren.bench.link import BenchError
from warren.bench.producer import EVENTS_MAX, cpu_seconds
from warren.bench.result import ConsumersResult, Counts, Tick
from warren.bench.stream import Stream
from warren.bench.verify import Track, Verdict

RECEIVE_OCTETS: Final = 131072
# A turn that read less than this per connection may nap (--coalesce).
SMALL_OCTETS: Final = 32768
WAIT_S: Final = 0.02
# Consumers of a limited rate look at the clock this often.
PAUSE_S: Final = 0.001
# With own binding patterns nobody knows what must still come: so long a silence is the end.
SILENCE_NS: Final = 1_000_000_000


@final
class Consumer:
    """One connection that consumes."""

    def __init__(self, sock: socket.socket, stream: Stream) -> None:
        self.sock: socket.socket = sock
        self.stream: Stream = stream
        self.unsent: bytes = b""
        self.waiting: bool = False

    def receive(self) -> int:
        """Read one piece and judge it; the number of octets."""
        try:
            chunk = self.sock.recv(RECEIVE_OCTETS)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise BenchError(f"receiving from the broker failed: {error}") from error
        if not chunk:
            raise BenchError("the broker closed a consumer's connection")
        self.take(chunk)
        return len(chunk)

    def take(self, chunk: bytes) -> None:
        stream = self.stream
        stream.feed(chunk, i64(time.monotonic_ns()))
        if len(stream.out) > 0:
            self.flush()
        if stream.events:
            self.take_events()

    def flush(self) -> None:
        """Send acknowledgements; what the socket does not take waits in `unsent`."""
        data = self.unsent + self.stream.out.getvalue()
        self.stream.out.truncate(0)
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as error:
            raise BenchError(f"sending to the broker failed: {error}") from error
        self.unsent = data[sent:]
        self.waiting = len(self.unsent) > 0

    def take_events(self) -> None:
        events = self.stream.events
        self.stream.events = []
        for payload in events:
            number = frame.method_number(payload)
            if number in (frame.CLOSE, frame.CHANNEL_CLOSE):
                raise BenchError(f"the broker closed a consumer: {frame.close_reason(payload)}")
            if number == frame.CANCEL:
                raise BenchError("the broker cancelled a consumer")


@final
class Consumers:
    """All consumers of a run. `turn` until `done`, then `result`."""

    def __init__(
        self,
        consumers: list[Consumer],
        *,
        tracks: list[list[Track]],
        verdict: Verdict,
        latency: Histogram,
        coalesce_us: int,
        timeout_s: float,
        warmup_s: float,
        rate: float = 0.0,
    ) -> None:
        self.consumers: list[Consumer] = consumers
        self.tracks: list[list[Track]] = tracks  # per consumed queue, per producer
        self.verdict: Verdict = verdict
        self.latency: Histogram = latency
        self.coalesce_s: float = coalesce_us / 1e6
        self.timeout_ns: int = int(timeout_s * 1e9)
        self.warmup_ns: int = int(warmup_s * 1e9)
        self.rate: float = rate  # deliveries per second; 0: as fast as they come
        self.poller: select.epoll = select.epoll()
        self.by_fd: dict[int, Consumer] = {}
        for consumer in consumers:
            fd = consumer.sock.fileno()
            self.by_fd[fd] = consumer
            self.poller.register(fd, select.EPOLLIN)
        self.begin_ns: int = 0
        self.last_ns: int = 0
        self.consumed: int = 0
        self.told: bool = False  # the producers are done
        self.expected: int = -1  # -1: cannot be known
        self.timed_out: bool = False
        self.done: bool = False
        self.cpu_begin_s: float = 0.0

    def fileno(self) -> int:
        return self.poller.fileno()

    def begin(self, begin_ns: int) -> None:
        self.begin_ns = begin_ns
        self.last_ns = begin_ns
        self.cpu_begin_s = cpu_seconds()
        for consumer in self.consumers:
            consumer.stream.warm_until_ns = begin_ns + self.warmup_ns

    def expect(self, total: int) -> None:
        """The producers are done: so many messages must come in all (-1: unknown)."""
        self.told = True
        self.expected = total
        self.last_ns = max(self.last_ns, time.monotonic_ns())
        self.check(time.monotonic_ns())

    def wait_s(self) -> float:
        return WAIT_S

    def is_ahead(self) -> bool:
        """Whether more has been taken than the rate allows up to now."""
        elapsed_ns = time.monotonic_ns() - self.begin_ns
        return self.consumed > elapsed_ns * self.rate / 1e9

    def turn(self, wait_s: float) -> None:
        if self.rate > 0 and self.is_ahead():
            time.sleep(PAUSE_S)
            return
        received = 0
        count = 0
        for fd, mask in self.poller.poll(wait_s, EVENTS_MAX):
            consumer = self.by_fd[fd]
            was_waiting = consumer.waiting
            if mask & select.EPOLLOUT:
                consumer.flush()
            if mask & ~select.EPOLLOUT:
                received += consumer.receive()
                count += 1
            if consumer.waiting != was_waiting:
                mask = select.EPOLLIN | (select.EPOLLOUT if consumer.waiting else 0)
                self.poller.modify(fd, mask)
        if self.told or count:
            self.check(time.monotonic_ns())
        if count and self.coalesce_s > 0 and received < count * SMALL_OCTETS and not self.done:
            time.sleep(self.coalesce_s)

    def check(self, now_ns: int) -> None:
        """Notice progress and the end."""
        consumed = 0
        for consumer in self.consumers:
            consumed += int(consumer.stream.consumed)
        if consumed != self.consumed:
            self.consumed = consumed
            self.last_ns = now_ns
        if not self.told:
            return
        quiet_ns = now_ns - self.last_ns
        if self.expected < 0:
            self.done = quiet_ns > SILENCE_NS
        elif consumed - int(self.verdict.duplicated + self.verdict.bad) >= self.expected:
            self.done = True
        elif quiet_ns > self.timeout_ns:
            self.timed_out = True
            self.done = True

    def finish(self) -> None:
        """Acknowledge what is left."""
        for consumer in self.consumers:
            stream = consumer.stream
            if stream.unacked > 0 and stream.ack_every > 0:
                stream.acknowledge()
            consumer.sock.settimeout(2.0)
            data = consumer.unsent + stream.out.getvalue()
            stream.out.truncate(0)
            if data:
                consumer.sock.sendall(data)

    def tick(self) -> Tick:
        tick = Tick("consumers")
        for consumer in self.consumers:
            tick.consumed += int(consumer.stream.consumed)
        verdict = self.verdict
        tick.faults = int(verdict.duplicated + verdict.reordered + verdict.bad)
        if self.latency.total > 0:
            tick.latency = Counts.of(self.latency)
        return tick

    def result(self, lost: int, foreign: int) -> ConsumersResult:
        octets = 0
        for consumer in self.consumers:
            octets += int(consumer.stream.body_octets)
        return ConsumersResult(
            begin_ns=self.begin_ns,
            last_ns=self.last_ns,
            consumed=self.consumed,
            octets=octets,
            expected=self.expected if self.expected >= 0 else None,
            lost=lost,
            duplicated=int(self.verdict.duplicated),
            reordered=int(self.verdict.reordered),
            bad=int(self.verdict.bad) + foreign,
            redelivered=int(self.verdict.redelivered),
            timed_out=self.timed_out,
            cpu_s=cpu_seconds() - self.cpu_begin_s,
            latency=Counts.of(self.latency),
        )
