"""Results as JSON and as text. The JSON's keys are an interface: `tools/bench` and users read them.

Rates: `publish_rate` counts until the last message was handed over (publish-only: until the queue
had taken it), `confirm_rate` until the last confirm, `consume_rate` until the last delivery, so it
contains the drain after the producers stopped.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict

from warren import __version__
from warren.bench.option import Options
from warren.bench.result import ConsumersResult, Counts, ProducersResult
from warren.bench.run import Outcome

PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999))

Report = dict[str, object]


def build(options: Options, outcome: Outcome) -> Report:
    """The result of a load run."""
    producers, consumers = outcome.producers, outcome.consumers
    report: Report = {
        "tool": "warren bench",
        "version": __version__,
        "mode": options.mode,
        "options": describe(options),
        "ok": is_ok(options, outcome),
        "timed_out": any(side.timed_out for side in (producers, consumers) if side),
        "elapsed_s": round(outcome.machine.elapsed_s, 3),
        "left_in_queues": outcome.left_in_queues,
    }
    report |= describe_producers(options, producers)
    report |= describe_consumers(consumers)
    report["consume_rate_while_publishing"] = rate_while_publishing(options, outcome)
    report["publish_tenths"] = tenths(options, outcome)
    report |= describe_machine(options, outcome)
    report["per_second"] = {
        "published": per_second(options, outcome, "producers", "published"),
        "consumed": per_second(options, outcome, "consumers", "consumed"),
    }
    report["series"] = series(options, outcome)
    report |= describe_declared(options, outcome)
    return report


def describe(options: Options) -> Report:
    """Options as JSON, without the password."""
    fields: Report = asdict(options)
    address = options.address
    fields["address"] = {
        "host": address.host,
        "port": address.port,
        "vhost": address.vhost,
        "tls": address.tls,
    }
    if len(set(options.sizes)) == 1:
        fields["sizes"] = [options.sizes[0]]
    return fields


def is_ok(options: Options, outcome: Outcome) -> bool:
    """Nothing lost, doubled, reordered, spoilt or refused, and everything in time."""
    producers, consumers = outcome.producers, outcome.consumers
    ok = True
    if producers:
        ok = not producers.timed_out and producers.nacked == producers.unknown_confirms == 0
        ok = ok and producers.duplicate_confirms == 0
        if options.confirm:
            ok = ok and producers.confirmed == sum(producers.published)
    if consumers:
        faults = consumers.lost + consumers.duplicated + consumers.reordered + consumers.bad
        ok = ok and faults == 0 and not consumers.timed_out
    return ok


def describe_producers(options: Options, side: ProducersResult | None) -> Report:
    if side is None:
        return {"published": 0, "publish_rate": 0.0, "confirmed": 0, "confirm_rate": 0.0}
    published = sum(side.published)
    return {
        "published": published,
        "publish_rate": per_time(published, side.published_ns - side.begin_ns),
        "confirmed": side.confirmed,
        "confirm_rate": per_time(side.confirmed, side.confirmed_ns - side.begin_ns),
        "nacked": side.nacked,
        "returned": side.returned,
        "duplicate_confirms": side.duplicate_confirms,
        "unknown_confirms": side.unknown_confirms,
        "blocked_s": side.blocked_ns / 1e9,
        "blocked_events": side.blocked_events,
        "flow_events": side.flow_events,
        "confirm_us": percentiles(side.confirm_latency) if options.confirm else None,
        "send_late_us": percentiles(side.lateness) if options.rate else None,
    }


def describe_consumers(side: ConsumersResult | None) -> Report:
    if side is None:
        return {
            "consumed": 0,
            "consume_rate": 0.0,
            "lost": 0,
            "duplicated": 0,
            "reordered": 0,
            "bad": 0,
            "redelivered": 0,
            "latency_us": None,
        }
    elapsed_ns = side.last_ns - side.begin_ns
    return {
        "consumed": side.consumed,
        "consume_rate": per_time(side.consumed, elapsed_ns),
        "bytes_per_s": per_time(side.octets, elapsed_ns),
        "expected": side.expected,
        "lost": side.lost,
        "duplicated": side.duplicated,
        "reordered": side.reordered,
        "bad": side.bad,
        "redelivered": side.redelivered,
        "latency_us": percentiles(side.latency) if side.latency.sum else None,
    }


def describe_machine(options: Options, outcome: Outcome) -> Report:
    machine = outcome.machine
    load_s = sum(side.cpu_s for side in (outcome.producers, outcome.consumers) if side)
    if options.single and outcome.producers and outcome.consumers:
        load_s = outcome.consumers.cpu_s
    published = sum(outcome.producers.published) if outcome.producers else 0
    consumed = outcome.consumers.consumed if outcome.consumers else 0
    handled = max(published, consumed)
    report: Report = {
        "load": {"cpu_s": round(load_s, 3), "cpu_us_per_message": micro(load_s, handled)},
        "load_average": machine.load_average,
        "broker": None,
        "other_cores": None,
    }
    if options.pids:
        other_s = machine.busy_s - machine.broker_cpu_s - load_s
        report["other_cores"] = round(other_s / max(machine.elapsed_s, 0.001), 3)
        report["broker"] = {
            "cpu_s": round(machine.broker_cpu_s, 3),
            "cpu_us_per_published": micro(machine.broker_cpu_s, published),
            "cpu_us_per_consumed": micro(machine.broker_cpu_s, consumed),
            "written_bytes": machine.written_octets,
            "rss_begin_mib": round(machine.memory_begin.rss, 1),
            "rss_peak_mib": round(machine.memory_peak.rss, 1),
            "anonymous_peak_mib": round(machine.memory_peak.anonymous, 1),
            "rss_end_mib": round(machine.memory_end.rss, 1),
        }
    return report


def rate_while_publishing(options: Options, outcome: Outcome) -> float:
    """Deliveries per second up to the consumers' last tick before the producers stopped."""
    producers, consumers = outcome.producers, outcome.consumers
    if not producers or not consumers:
        return 0.0
    seconds = int((producers.published_ns - producers.begin_ns) / 1e9)
    counts = per_second(options, outcome, "consumers", "consumed")[:seconds]
    return round(sum(counts) / len(counts), 1) if counts else 0.0


def totals_of(outcome: Outcome, side: str, name: str) -> list[int]:
    """What had been done at each tick."""
    return [getattr(tick, name) for tick in outcome.ticks if tick.side == side]


def per_second(options: Options, outcome: Outcome, side: str, name: str) -> list[int]:
    """What was done in each second; in each interval when that is longer."""
    every = max(1, round(1.0 / options.interval))
    totals = totals_of(outcome, side, name)[every - 1 :: every]
    return [now - before for before, now in zip([0, *totals], totals, strict=False)]


def tenths(options: Options, outcome: Outcome) -> Report | None:
    """The rate of the first and of the last tenth of what was published, in messages per second.

    Between two ticks the rate is taken as even, so a run wants some ticks in each tenth.
    """
    producers = outcome.producers
    if producers is None:
        return None
    count = sum(producers.published)
    end_s = (producers.published_ns - producers.begin_ns) / 1e9
    points = [(0.0, 0)]
    for number, total in enumerate(totals_of(outcome, "producers", "published"), 1):
        points.append((min(number * options.interval, end_s), total))
    points.append((end_s, count))
    first_s = reached(points, count * 0.1)
    last_s = end_s - reached(points, count * 0.9)
    return {
        "first": round(count * 0.1 / first_s, 1) if first_s > 0 else None,
        "last": round(count * 0.1 / last_s, 1) if last_s > 0 else None,
    }


def reached(points: list[tuple[float, int]], count: float) -> float:
    """When so many had been done."""
    for (before_s, before), (now_s, now) in itertools.pairwise(points):
        if now >= count and now > before:
            return before_s + (now_s - before_s) * (count - before) / (now - before)
    return points[-1][0]


def series(options: Options, outcome: Outcome) -> Report:
    """Progress and memory over time: totals at every interval, memory with its own times."""
    memory = outcome.machine.series if options.pids else []
    return {
        "interval_s": options.interval,
        "published": totals_of(outcome, "producers", "published"),
        "confirmed": totals_of(outcome, "producers", "confirmed"),
        "consumed": totals_of(outcome, "consumers", "consumed"),
        "held": totals_of(outcome, "producers", "held"),
        "memory_s": [round(at_s, 2) for at_s, _ in memory],
        "rss_mib": [round(each.rss, 1) for _, each in memory],
        "anonymous_mib": [round(each.anonymous, 1) for _, each in memory],
    }


def describe_declared(options: Options, outcome: Outcome) -> Report:
    """What making the queues took; with --pid the memory of each."""
    declared = outcome.declared
    if not declared.queues:
        return {"declared": None}
    grown_mib = declared.memory_after.rss - declared.memory_before.rss
    return {
        "declared": {
            "queues": declared.queues,
            "seconds": round(declared.elapsed_s, 3),
            "rate": round(declared.queues / max(declared.elapsed_s, 1e-6), 1),
            "rss_before_mib": round(declared.memory_before.rss, 1),
            "rss_after_mib": round(declared.memory_after.rss, 1),
            "kib_per_queue": round(grown_mib * 1024 / declared.queues, 2) if options.pids else None,
        }
    }


def per_time(count: int, elapsed_ns: int) -> float:
    return round(count * 1e9 / elapsed_ns, 1) if elapsed_ns > 0 else 0.0


def micro(seconds: float, count: int) -> float | None:
    """Microseconds per message."""
    return round(seconds * 1e6 / count, 4) if count else None


def percentiles(counts: Counts) -> Report:
    """Microseconds."""
    histogram = counts.restore()
    result: Report = {"n": int(histogram.total)}
    for name, part in PERCENTILES:
        result[name] = histogram.percentile(part) / 1000
    result["max"] = histogram.largest / 1000
    result["mean"] = round(counts.sum / max(1, sum(counts.counts)) / 1000, 1)
    return result


def to_json(report: Report) -> str:
    return json.dumps(report, ensure_ascii=False)


def to_text(report: Report) -> str:
    """The summary people read."""
    lines = [f"{report['mode']}: {'ok' if report['ok'] else 'NOT OK'}, {report['elapsed_s']} s"]
    if report["published"]:
        lines.append(f"  published  {report['published']:>13,}  {report['publish_rate']:>13,.0f}/s")
    if report["confirmed"]:
        lines.append(f"  confirmed  {report['confirmed']:>13,}  {report['confirm_rate']:>13,.0f}/s")
    if report["consumed"]:
        lines.append(f"  consumed   {report['consumed']:>13,}  {report['consume_rate']:>13,.0f}/s")
        lines.append(
            "  lost {lost}  duplicated {duplicated}  reordered {reordered}  bad {bad}"
            "  redelivered {redelivered}".format(**report)
        )
    refused = {
        name: report.get(name)
        for name in ("nacked", "returned", "duplicate_confirms", "unknown_confirms", "blocked_s")
    }
    if any(refused.values()):
        lines.append("  " + "  ".join(f"{name} {value}" for name, value in refused.items()))
    for name, title in (
        ("latency_us", "latency"),
        ("confirm_us", "confirm"),
        ("send_late_us", "sent late"),
    ):
        values = report.get(name)
        if isinstance(values, Mapping):
            shown = "  ".join(f"{key} {value:,.0f}" for key, value in values.items() if key != "n")
            lines.append(f"  {title:<10} {shown}  (µs)")
    broker = report["broker"]
    if isinstance(broker, Mapping):
        lines.append("  broker     {cpu_s} CPU s  RSS peak {rss_peak_mib} MiB".format(**broker))
        per_message = broker["cpu_us_per_consumed"] or broker["cpu_us_per_published"]
        lines.append(f"             {per_message} µs per message")
    load = report["load"]
    assert isinstance(load, Mapping)
    lines.append("  load       {cpu_s} CPU s, {cpu_us_per_message} µs per message".format(**load))
    if report["timed_out"]:
        lines.append("  gave up: no progress for the drain timeout")
    return "\n".join(lines)
