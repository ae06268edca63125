"""One run of load from the outside: declares, starts the load processes, watches, gathers.

The starting process samples the broker's processes and shows progress; it carries no load.
"""

import contextlib
import time
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from warren.bench import topology
from warren.bench.link import BenchError, Link
from warren.bench.live import Display
from warren.bench.option import Options
from warren.bench.procfs import Memory, ProcessTree, load_average, machine_busy_s
from warren.bench.result import ConsumersResult, Failure, Go, ProducersResult, Ready, Tick
from warren.bench.worker import Pipe, Process, start

SAMPLE_S = 0.05
SCAN_S = 2.0
READY_TIMEOUT_S = 120.0
# Time between `Go` and the begin, so that all sides have read it.
HEAD_START_NS = 20_000_000
NO_MEMORY = Memory(0.0, 0.0)


@dataclass(slots=True)
class Declared:
    """What making the queues took."""

    queues: int = 0
    elapsed_s: float = 0.0
    memory_before: Memory = NO_MEMORY
    memory_after: Memory = NO_MEMORY


@dataclass(slots=True)
class Machine:
    """What broker and machine used meanwhile."""

    broker_cpu_s: float = 0.0
    busy_s: float = 0.0
    elapsed_s: float = 0.0
    written_octets: int = 0
    memory_begin: Memory = NO_MEMORY
    memory_peak: Memory = NO_MEMORY
    memory_end: Memory = NO_MEMORY
    load_average: float = 0.0
    # Seconds since the begin, and the memory then, every `--interval`.
    series: list[tuple[float, Memory]] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """Everything a report needs."""

    producers: ProducersResult | None = None
    consumers: ConsumersResult | None = None
    machine: Machine = field(default_factory=Machine)
    declared: Declared = field(default_factory=Declared)
    left_in_queues: int | None = None
    ticks: list[Tick] = field(default_factory=list)


class Sampler:
    """Watches the broker's processes while the load runs."""

    def __init__(self, pids: tuple[int, ...], interval_s: float) -> None:
        self.tree = ProcessTree(pids)
        self.interval_s = interval_s
        self.machine = Machine(load_average=load_average())
        self.machine.memory_begin = self.machine.memory_peak = self.tree.memory()
        self.cpu_begin_s = self.tree.cpu_s()
        self.written_begin = self.tree.written_octets()
        self.busy_begin_s = machine_busy_s()
        self.begin_s = self.scanned_s = time.monotonic()

    def sample(self) -> None:
        now_s = time.monotonic()
        if now_s - self.scanned_s > SCAN_S:
            self.tree.scan()
            self.scanned_s = now_s
        memory, peak = self.tree.memory(), self.machine.memory_peak
        self.machine.memory_peak = Memory(
            max(memory.rss, peak.rss), max(memory.anonymous, peak.anonymous)
        )
        elapsed_s = now_s - self.begin_s
        if elapsed_s >= len(self.machine.series) * self.interval_s:
            self.machine.series.append((elapsed_s, memory))

    def finish(self) -> Machine:
        self.sample()
        self.machine.memory_end = self.tree.memory()
        self.machine.broker_cpu_s = self.tree.cpu_s() - self.cpu_begin_s
        self.machine.written_octets = self.tree.written_octets() - self.written_begin
        self.machine.busy_s = machine_busy_s() - self.busy_begin_s
        self.machine.elapsed_s = time.monotonic() - self.begin_s
        return self.machine


def run_load(options: Options, display: Display) -> Outcome:
    """Run producers and consumers; the broker is left as it was found, unless told to keep."""
    control = Link(options.address, options.tls)
    outcome = Outcome()
    if options.mode != "drain":
        outcome.declared = declare(control, options)
    workers = start_workers(options)
    try:
        gather(options, workers, outcome, display)
    finally:
        for _, pipe in workers:
            pipe.close()
        for process, _ in workers:
            process.join(10.0)
            if process.is_alive():
                process.kill()
    with contextlib.suppress(OSError, BenchError):
        outcome.left_in_queues = sum(
            topology.count_messages(control, options, queue) for queue in range(options.queues)
        )
        if not options.keep and options.mode == "both":
            topology.delete(control, options)
    control.close()
    return outcome


def declare(control: Link, options: Options) -> Declared:
    """Make the queues, and note what they take."""
    tree = ProcessTree(options.pids)
    before = tree.memory()
    begin_s = time.monotonic()
    topology.declare(control, options)
    elapsed_s = time.monotonic() - begin_s
    tree.scan()
    return Declared(options.queues, elapsed_s, before, tree.memory())


def start_workers(options: Options) -> list[tuple[Process, Pipe]]:
    if options.mode == "drain":
        return [start(options, ("consumers",))]
    if options.mode == "publish-only":
        return [start(options, ("producers",))]
    if options.single:
        return [start(options, ("consumers", "producers"))]
    # Consumers first: a queue without one would hold the first messages.
    return [start(options, ("consumers",)), start(options, ("producers",))]


def gather(
    options: Options,
    workers: list[tuple[Process, Pipe]],
    outcome: Outcome,
    display: Display,
) -> None:
    """Let the load run and collect what it reports."""
    pipes = [pipe for _, pipe in workers]
    wait_ready(options, pipes)
    sampler = Sampler(options.pids, options.interval)
    begin_ns = time.monotonic_ns() + HEAD_START_NS
    for pipe in pipes:
        pipe.send(Go(begin_ns))
    needs = ({"producers"} if options.mode != "drain" else set()) | (
        {"consumers"} if options.consumers else set()
    )
    while needs:
        for pipe in arrived(pipes, SAMPLE_S if options.pids else 1.0):
            message = receive(pipe)
            if isinstance(message, Tick):
                outcome.ticks.append(message)
                display.show(message)
            elif isinstance(message, ProducersResult):
                outcome.producers = message
                needs.discard("producers")
                if not options.single and options.consumers:
                    pipes[0].send(message)
                pipes = [other for other in pipes if other is not pipe or options.single]
            elif isinstance(message, ConsumersResult):
                outcome.consumers = message
                needs.discard("consumers")
        sampler.sample()
    outcome.machine = sampler.finish()


def wait_ready(options: Options, pipes: list[Pipe]) -> None:
    missing = 2 if options.mode == "both" else 1
    end_s = time.monotonic() + READY_TIMEOUT_S
    while missing:
        ready = arrived(pipes, max(0.0, end_s - time.monotonic()))
        if not ready:
            raise BenchError("the connections could not be opened in time")
        for pipe in ready:
            if isinstance(receive(pipe), Ready):
                missing -= 1


def arrived(pipes: list[Pipe], timeout_s: float) -> list[Pipe]:
    """Pipes with a message, or whose process ended."""
    ready = wait(pipes, timeout_s)
    return [pipe for pipe in pipes if pipe in ready]


def receive(pipe: Pipe) -> object:
    try:
        message: object = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise BenchError("a load process ended unexpectedly") from None
    if isinstance(message, Failure):
        raise BenchError(message.text)
    return message
