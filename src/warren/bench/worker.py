"""The load processes: one for each side, or one for both, driven over a pipe.

Exchange between the starting process S and a load process L:
1. L connects its side and sends `Ready`; S sends `Go` when all are ready.
2. L sends a `Tick` every `--interval`.
3. The producing L sends `ProducersResult`; S passes it to the consuming L, so that it knows what
   must still arrive; that one sends `ConsumersResult`.
4. S closes the pipes; each L closes its connections and ends. The producing L must not do so
   earlier: a broker may drop what it has read but not yet routed when a connection ends.
Instead of any of these L may send `Failure` and end.
"""

import multiprocessing
import os
import select
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from warren.bench.link import BenchError
from warren.bench.option import Options
from warren.bench.result import Failure, Go, ProducersResult, Ready
from warren.bench.side import ConsumingSide, ProducingSide
from warren.bench.stream import StreamError

# How often a loop looks for a message of the starting process.
INBOX_NS = 10_000_000

if TYPE_CHECKING:
    Pipe = Connection[object, object]
else:
    Pipe = Connection
Process = multiprocessing.context.ForkProcess


def start(options: Options, sides: tuple[str, ...]) -> tuple[Process, Pipe]:
    """Fork a load process for these sides."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(options, sides, theirs, ours), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def run(options: Options, sides: tuple[str, ...], pipe: Pipe, other_end: Pipe) -> None:
    """Life of a load process."""
    other_end.close()  # Or the end of the starting process would not be noticed.
    sharpen_timer()
    try:
        drive(options, sides, pipe)
    except (BenchError, StreamError) as error:
        pipe.send(Failure(str(error)))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        os._exit(2)
    except OSError as error:
        pipe.send(Failure(f"{error}"))
    except Exception:  # The supervisor of this process: the other side must learn of it.
        pipe.send(Failure(traceback.format_exc()))


def sharpen_timer() -> None:
    """Ask the kernel for wake-ups on time instead of within 50 µs, where it lets us."""
    try:
        Path("/proc/self/timerslack_ns").write_text("1")
    except OSError:
        return


def drive(options: Options, sides: tuple[str, ...], pipe: Pipe) -> None:
    consuming = ConsumingSide(options) if "consumers" in sides else None
    producing = ProducingSide(options) if "producers" in sides else None
    for side in sides:
        pipe.send(Ready(side))
    go = pipe.recv()
    if not isinstance(go, Go):
        return
    if consuming:
        consuming.begin(go.begin_ns)
    if producing:
        producing.loop.begin(go.begin_ns)
    time.sleep(max(0.0, (go.begin_ns - time.monotonic_ns()) / 1e9))
    if producing and consuming:
        drive_both(producing, consuming, pipe)
    elif producing:
        drive_producing(producing, pipe)
    elif consuming:
        drive_consuming(consuming, pipe)


def drive_producing(side: ProducingSide, pipe: Pipe) -> None:
    loop = side.loop
    interval_ns = int(side.options.interval * 1e9)
    tick_ns = loop.begin_ns + interval_ns
    while not loop.done:
        loop.turn(loop.wait_s())
        if time.monotonic_ns() >= tick_ns:
            pipe.send(loop.tick())
            tick_ns += interval_ns
    pipe.send(side.result())
    with suppress(EOFError):
        pipe.recv()
    side.close()


def drive_consuming(side: ConsumingSide, pipe: Pipe) -> None:
    loop = side.loop
    interval_ns = int(side.options.interval * 1e9)
    tick_ns = loop.begin_ns + interval_ns
    inbox_ns = loop.begin_ns
    while not loop.done:
        loop.turn(loop.wait_s())
        now_ns = time.monotonic_ns()
        if now_ns >= inbox_ns:
            inbox_ns = now_ns + INBOX_NS
            if pipe.poll():
                message = pipe.recv()
                if isinstance(message, ProducersResult):
                    side.expect(message.published, cut_short=message.timed_out)
        if now_ns >= tick_ns:
            pipe.send(loop.tick())
            tick_ns += interval_ns
    pipe.send(side.result())
    side.close()


def drive_both(producing: ProducingSide, consuming: ConsumingSide, pipe: Pipe) -> None:
    publish, consume = producing.loop, consuming.loop
    interval_ns = int(producing.options.interval * 1e9)
    tick_ns = publish.begin_ns + interval_ns
    while not consume.done:
        wait_s = consume.wait_s() if publish.done else min(publish.wait_s(), consume.wait_s())
        if wait_s > 0:
            select.select([publish.fileno(), consume.fileno()], [], [], wait_s)
        publishing = not publish.done
        if publishing:
            publish.turn(0.0)
            if publish.done:
                result = producing.result()
                pipe.send(result)
                consuming.expect(result.published, cut_short=result.timed_out)
        consume.turn(0.0)
        if time.monotonic_ns() >= tick_ns:
            pipe.send(publish.tick())
            pipe.send(consume.tick())
            tick_ns += interval_ns
    pipe.send(consuming.result())
    producing.close()
    consuming.close()
