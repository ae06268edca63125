"""The publishing side: all producers of a run in one epoll loop, compiled.

Each turn takes what arrived (confirms, flow control), then lets every producer that can go on send
blocks: limited by the confirm window, the message limit, the schedule, and the socket. No exception
and no system call beyond `recv` and `send` on the way of a block.

The schedule of rate mode is absolute: message i of a producer is due at begin + i / rate. Lateness
is counted; a message more than LATE_NS late carries its planned time (see `arguments.EPILOG`).
"""

import resource
import select
import socket
import ssl
import time
from typing import Final, final

from mypy_extensions import i64

from warren.bench import frame
from warren.bench.block import BlockBuilder
from warren.bench.confirm import Ledger
from warren.bench.histogram import Histogram
from warren.bench.link import BenchError
from warren.bench.result import Counts, ProducersResult, Tick
from warren.bench.stream import Stream

RECEIVE_OCTETS: Final = 65536
# Blocks a producer may send before the others get their turn.
ROUNDS_MAX: Final = 4
LATE_NS: Final = 1_000_000
# Below this many received octets a turn counts as small and the loop may nap (--coalesce).
SMALL_OCTETS: Final = 16384
IDLE_WAIT_S: Final = 0.01
EVENTS_MAX: Final = 256


@final
class Producer:
    """One connection that publishes."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        blocks: BlockBuilder,
        block_messages: int,
        stream: Stream,
        ledger: Ledger,
        limit: int,
        window: int,
        interval_ns: float,
        stamped: bool,
        lateness: Histogram,
    ) -> None:
        self.sock: socket.socket = sock
        self.blocks: BlockBuilder = blocks
        self.block_messages: i64 = block_messages
        self.stream: Stream = stream
        self.ledger: Ledger = ledger
        self.limit: i64 = limit  # 0: until the time is over
        self.window: i64 = window  # 0: no confirms
        self.interval_ns: float = interval_ns  # 0: as fast as it goes
        self.stamped: bool = stamped
        self.lateness: Histogram = lateness
        self.begin_ns: i64 = 0
        self.sequence: i64 = 0
        self.published: i64 = 0
        self.block: bytes = b""
        self.block_offset: i64 = 0
        self.control: bytes = b""  # goes out before the next block
        self.waiting: bool = False  # for the socket to become writable
        self.finished: bool = False
        self.blocked: bool = False
        self.paused: bool = False
        self.held_since_ns: i64 = 0
        self.held_ns: i64 = 0
        self.blocked_events: i64 = 0
        self.flow_events: i64 = 0

    def pump(self) -> bool:
        """Send what may be sent; True if there is more to send at once."""
        rounds: i64 = 0
        while rounds < ROUNDS_MAX:
            rounds += 1
            if len(self.block) > 0 and not self.flush():
                return False
            if self.finished or self.blocked or self.paused:
                return False
            now_ns = i64(time.monotonic_ns())
            count = self.allowance(now_ns)
            if count <= 0:
                return False
            self.prepare(count, now_ns)
            if not self.flush():
                return False
        return True

    def allowance(self, now_ns: i64) -> i64:
        """How many messages may go now."""
        count = self.block_messages
        if self.limit > 0:
            count = min(count, self.limit - self.sequence)
            if count <= 0:
                self.finished = True
                return 0
        if self.window > 0:
            count = min(count, self.window - self.ledger.outstanding())
        if self.interval_ns > 0:
            elapsed: int = now_ns - self.begin_ns
            due = i64(int(elapsed / self.interval_ns)) + 1 if elapsed >= 0 else i64(0)
            count = min(count, due - self.sequence)
        return count

    def due_ns(self, number: i64) -> i64:
        planned: int = number
        return self.begin_ns + i64(int(planned * self.interval_ns))

    def prepare(self, count: i64, now_ns: i64) -> None:
        """Build the next block and enter it into the ledger."""
        stamp_ns = now_ns
        if self.interval_ns > 0:
            planned_ns = self.due_ns(self.sequence)
            if now_ns - planned_ns > LATE_NS and self.stamped:
                count = 1
                stamp_ns = planned_ns
            number: i64 = 0
            while number < count:
                self.lateness.add(now_ns - self.due_ns(self.sequence + number))
                number += 1
        self.block = self.control + self.blocks.build(self.sequence, count, stamp_ns)
        self.control = b""
        self.block_offset = 0
        self.sequence += count
        self.ledger.sent += count
        if self.window > 0:
            self.ledger.mark(stamp_ns)

    def flush(self) -> bool:
        """Send the rest of the block; False when the socket takes no more."""
        size: i64 = len(self.block)
        try:
            if self.block_offset == 0:
                self.block_offset = i64(self.sock.send(self.block))
            else:
                rest = memoryview(self.block)[self.block_offset :]
                self.block_offset += i64(self.sock.send(rest))
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self.waiting = True
            return False
        except OSError as error:
            raise BenchError(f"sending to the broker failed: {error}") from error
        if self.block_offset < size:
            self.waiting = True
            return False
        self.block = b""
        self.published = self.sequence
        return True

    def receive(self) -> int:
        """Take confirms and what else arrived; the number of octets."""
        try:
            chunk = self.sock.recv(RECEIVE_OCTETS)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise BenchError(f"receiving from the broker failed: {error}") from error
        if not chunk:
            raise BenchError("the broker closed a producer's connection")
        self.stream.feed(chunk, i64(time.monotonic_ns()))
        if self.stream.events:
            self.take_events()
        return len(chunk)

    def take_events(self) -> None:
        events = self.stream.events
        self.stream.events = []
        for payload in events:
            number = frame.method_number(payload)
            was_held = self.blocked or self.paused
            if number == frame.BLOCKED:
                self.blocked = True
                self.blocked_events += 1
            elif number == frame.UNBLOCKED:
                self.blocked = False
            elif number == frame.FLOW:
                self.paused = payload[4] & 1 == 0
                self.flow_events += 1
                self.control += frame.method(1, frame.FLOW_OK, payload[4:5])
            elif number in (frame.CLOSE, frame.CHANNEL_CLOSE):
                raise BenchError(f"the broker closed a producer: {frame.close_reason(payload)}")
            self.account_hold(was_held)

    def account_hold(self, was_held: bool) -> None:
        held = self.blocked or self.paused
        now_ns = i64(time.monotonic_ns())
        if held and not was_held:
            self.held_since_ns = now_ns
        elif was_held and not held:
            self.held_ns += now_ns - self.held_since_ns

    def account_end(self) -> None:
        """Count a hold that lasts until the end."""
        if self.blocked or self.paused:
            self.held_ns += i64(time.monotonic_ns()) - self.held_since_ns

    def is_settled(self) -> bool:
        return len(self.block) == 0 and (
            self.window == 0 or self.ledger.settled >= self.ledger.sent
        )


@final
class Producers:
    """All producers of a run. `turn` until `done`, then `result`."""

    def __init__(
        self,
        producers: list[Producer],
        *,
        seconds: float,
        rated: bool,
        coalesce_us: int,
        timeout_s: float,
    ) -> None:
        self.producers: list[Producer] = producers
        self.seconds: float = seconds  # 0: until every producer reached its limit
        self.rated: bool = rated
        self.coalesce_s: float = coalesce_us / 1e6
        self.timeout_ns: int = int(timeout_s * 1e9)
        self.poller: select.epoll = select.epoll()
        self.by_fd: dict[int, Producer] = {}
        for producer in producers:
            fd = producer.sock.fileno()
            self.by_fd[fd] = producer
            self.poller.register(fd, select.EPOLLIN)
        self.ready: list[Producer] = list(producers)
        self.begin_ns: int = 0
        self.end_ns: int = 0
        self.published_ns: int = 0
        self.confirmed_ns: int = 0
        self.stopping: bool = False
        self.timed_out: bool = False
        self.done: bool = False
        self.progress: int = 0
        self.progress_ns: int = 0
        self.checked_ns: int = 0
        self.cpu_begin_s: float = 0.0

    def fileno(self) -> int:
        return self.poller.fileno()

    def begin(self, begin_ns: int) -> None:
        self.begin_ns = begin_ns
        self.progress_ns = begin_ns
        self.end_ns = begin_ns + int(self.seconds * 1e9) if self.seconds > 0 else 0
        self.cpu_begin_s = cpu_seconds()
        for producer in self.producers:
            producer.begin_ns = begin_ns

    def wait_s(self) -> float:
        """How long nothing will be due."""
        if self.ready:
            return 0.0
        if not self.rated or self.stopping:
            return IDLE_WAIT_S
        next_ns = i64(time.monotonic_ns()) + 10_000_000
        now_ns = next_ns - 10_000_000
        for producer in self.producers:
            if not producer.finished and not producer.waiting and self.can_send(producer):
                next_ns = min(next_ns, producer.due_ns(producer.sequence))
        wait_ns: int = next_ns - now_ns
        return max(0.0, wait_ns / 1e9)

    def can_send(self, producer: Producer) -> bool:
        if producer.blocked or producer.paused:
            return False
        return producer.window == 0 or producer.ledger.outstanding() < producer.window

    def turn(self, wait_s: float) -> None:
        """Wait at most this long, take what arrived, send what may be sent."""
        if 0.0 < wait_s < IDLE_WAIT_S:  # epoll rounds to milliseconds, select does not
            select.select([self.poller.fileno()], [], [], wait_s)
            wait_s = 0.0
        received = 0
        pending = self.ready
        self.ready = []
        for fd, mask in self.poller.poll(wait_s, EVENTS_MAX):
            producer = self.by_fd[fd]
            if mask & ~select.EPOLLOUT:
                received += producer.receive()
            if mask & select.EPOLLOUT:
                producer.waiting = False
                self.poller.modify(fd, select.EPOLLIN)
            if not producer.waiting:
                self.pump(producer)
        for producer in pending:
            if not producer.waiting:
                self.pump(producer)
        if self.rated:
            for producer in self.producers:
                if not producer.waiting:
                    self.pump(producer)
        if 0 < received < SMALL_OCTETS and self.coalesce_s > 0 and not self.ready:
            time.sleep(self.coalesce_s)
        self.check(time.monotonic_ns())

    def pump(self, producer: Producer) -> None:
        if producer.pump():
            if not self.rated:
                self.ready.append(producer)
        elif producer.waiting:
            self.poller.modify(producer.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def check(self, now_ns: int) -> None:
        """Notice the end, and a broker that no longer moves."""
        if self.end_ns and now_ns >= self.end_ns and not self.stopping:
            self.stop()
        if not self.stopping and now_ns - self.checked_ns < 1_000_000 and self.end_ns:
            return
        self.checked_ns = now_ns
        if not self.stopping:
            for producer in self.producers:
                if not producer.finished:
                    break
            else:
                self.stop()
        if self.stopping:
            self.check_end(now_ns)
        self.check_progress(now_ns)

    def stop(self) -> None:
        self.stopping = True
        for producer in self.producers:
            producer.finished = True

    def check_end(self, now_ns: int) -> None:
        for producer in self.producers:
            if len(producer.block) > 0:
                return
        if self.published_ns == 0:
            self.published_ns = now_ns
        for producer in self.producers:
            if not producer.is_settled():
                return
        self.confirmed_ns = now_ns
        self.done = True

    def check_progress(self, now_ns: int) -> None:
        progress = 0
        held = False
        for producer in self.producers:
            progress += int(producer.sequence + producer.ledger.settled + producer.block_offset)
            held = held or producer.blocked or producer.paused
        # A hold may last as long as the run; behind its end nobody would ever say that it is over.
        if progress != self.progress or (held and not self.stopping):
            self.progress = progress
            self.progress_ns = now_ns
        elif now_ns - self.progress_ns > self.timeout_ns:
            self.stop()
            self.timed_out = True
            self.published_ns = self.published_ns or now_ns
            self.confirmed_ns = now_ns
            self.done = True

    def tick(self) -> Tick:
        tick = Tick("producers")
        for producer in self.producers:
            tick.published += int(producer.published)
            tick.confirmed += int(producer.ledger.settled)
            tick.held = tick.held or producer.blocked or producer.paused
        return tick

    def result(self) -> ProducersResult:
        result = ProducersResult(
            published=[int(producer.published) for producer in self.producers],
            begin_ns=self.begin_ns,
            published_ns=self.published_ns,
            confirmed_ns=self.confirmed_ns,
            timed_out=self.timed_out,
            cpu_s=cpu_seconds() - self.cpu_begin_s,
        )
        confirms = Histogram()
        for producer in self.producers:
            ledger = producer.ledger
            producer.account_end()
            result.confirmed += int(ledger.settled) if producer.window > 0 else 0
            result.nacked += int(ledger.nacked)
            result.returned += int(producer.stream.returned)
            result.duplicate_confirms += int(ledger.duplicates)
            result.unknown_confirms += int(ledger.unsent)
            result.blocked_ns = max(result.blocked_ns, int(producer.held_ns))
            result.blocked_events += int(producer.blocked_events)
            result.flow_events += int(producer.flow_events)
            confirms.merge(ledger.latency.counts, ledger.latency.largest, ledger.latency.sum)
        result.confirm_latency = Counts.of(confirms)
        if self.producers:
            result.lateness = Counts.of(self.producers[0].lateness)
        return result


def cpu_seconds() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
