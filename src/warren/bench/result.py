"""What the load processes report to the process that started them: plain values that pickle."""

from dataclasses import dataclass, field

from warren.bench.histogram import Histogram


@dataclass(slots=True)
class Counts:
    """A histogram on its way between processes."""

    counts: list[int] = field(default_factory=list)
    largest: int = 0
    sum: int = 0

    @classmethod
    def of(cls, histogram: Histogram) -> "Counts":
        return cls(list(histogram.counts), int(histogram.largest), int(histogram.sum))

    def restore(self) -> Histogram:
        histogram = Histogram()
        histogram.merge(self.counts, self.largest, self.sum)
        return histogram


@dataclass(slots=True)
class Ready:
    """The connections of one side stand."""

    side: str


@dataclass(slots=True)
class Go:
    """All sides begin at this monotonic time."""

    begin_ns: int


@dataclass(slots=True)
class Tick:
    """Progress of one side, every `--interval`."""

    side: str
    published: int = 0
    confirmed: int = 0
    consumed: int = 0
    faults: int = 0  # duplicated + reordered + bad
    held: bool = False  # the broker holds at least one producer back
    latency: Counts | None = None


@dataclass(slots=True)
class Failure:
    """A side could not go on."""

    text: str


@dataclass(slots=True)
class ProducersResult:
    published: list[int]  # per producer
    begin_ns: int
    published_ns: int  # when the last message was handed over (publish-only: taken by the queue)
    confirmed_ns: int
    confirmed: int = 0
    nacked: int = 0
    returned: int = 0
    duplicate_confirms: int = 0
    unknown_confirms: int = 0
    blocked_ns: int = 0
    blocked_events: int = 0
    flow_events: int = 0
    timed_out: bool = False
    cpu_s: float = 0.0
    confirm_latency: Counts = field(default_factory=Counts)
    lateness: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class ConsumersResult:
    begin_ns: int
    last_ns: int
    consumed: int
    octets: int
    expected: int | None  # None: cannot be known (own binding patterns)
    lost: int
    duplicated: int
    reordered: int
    bad: int
    redelivered: int
    timed_out: bool
    cpu_s: float
    latency: Counts
