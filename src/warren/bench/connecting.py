"""Runs without messages: idle connections and their memory; connections opened and closed."""

import os
import time

from warren import __version__
from warren.bench.histogram import Histogram
from warren.bench.link import Link
from warren.bench.option import Options
from warren.bench.procfs import ProcessTree
from warren.bench.report import Report, describe, percentiles
from warren.bench.result import Counts

# How long the broker may settle after the last connection before its memory is read.
SETTLE_S = 2.0


def run_idle(options: Options) -> Report:
    """Open connections with one channel each, hold them, read the broker's memory."""
    tree = ProcessTree(options.pids)
    before, cpu_begin_s = tree.memory(), tree.cpu_s()
    begin_s = time.monotonic()
    links = [Link(options.address, options.tls) for _ in range(options.connections)]
    connect_s = time.monotonic() - begin_s
    tree.scan()
    connect_cpu_s = tree.cpu_s() - cpu_begin_s
    time.sleep(SETTLE_S)
    tree.scan()
    held, cpu_held_s = tree.memory(), tree.cpu_s()
    time.sleep(options.seconds)
    later, idle_cpu_s = tree.memory(), tree.cpu_s() - cpu_held_s
    for link in links:
        link.close()
    count = options.connections
    return header(options) | {
        "connections": count,
        "connect_s": round(connect_s, 3),
        "connect_rate": round(count / connect_s, 1),
        "connect_cpu_s": round(connect_cpu_s, 3),
        "rss_begin_mib": round(before.rss, 1),
        "rss_held_mib": round(held.rss, 1),
        "kib_per_connection": round((held.rss - before.rss) * 1024 / count, 2),
        "anonymous_kib_per_connection": round(
            (held.anonymous - before.anonymous) * 1024 / count, 2
        ),
        "later_kib_per_connection": round((later.rss - before.rss) * 1024 / count, 2),
        "idle_cpu_percent": round(idle_cpu_s / max(options.seconds, 0.001) * 100, 2),
    }


def run_connect(options: Options) -> Report:
    """Open a connection with a channel and close it, one after the other."""
    tree = ProcessTree(options.pids)
    latency = Histogram()
    cpu_begin_s = tree.cpu_s()
    load_begin = os.times()
    begin_ns = time.monotonic_ns()
    end_ns = begin_ns + int(options.seconds * 1e9)
    interval_ns = 1e9 / options.connect_rate if options.connect_rate else 0.0
    count = 0
    while (now_ns := time.monotonic_ns()) < end_ns and count != (options.messages or -1):
        due_ns = begin_ns + int(count * interval_ns)
        if interval_ns and due_ns > now_ns:
            time.sleep((due_ns - now_ns) / 1e9)
        opened_ns = time.monotonic_ns()
        Link(options.address, options.tls).close()
        latency.add(time.monotonic_ns() - opened_ns)
        count += 1
    elapsed_s = (time.monotonic_ns() - begin_ns) / 1e9
    tree.scan()
    load_end = os.times()
    memory = tree.memory()
    return header(options) | {
        "connections": count,
        "connect_rate": round(count / elapsed_s, 1),
        "connect_us": percentiles(Counts.of(latency)),
        "connect_cpu_us": round((tree.cpu_s() - cpu_begin_s) * 1e6 / max(count, 1), 1),
        "load_cpu_s": round(
            load_end.user + load_end.system - load_begin.user - load_begin.system, 3
        ),
        "rss_end_mib": round(memory.rss, 1),
    }


def header(options: Options) -> Report:
    return {
        "tool": "warren bench",
        "version": __version__,
        "mode": options.mode,
        "options": describe(options),
        "ok": True,
    }


def to_text(report: Report) -> str:
    skipped = ("tool", "version", "options", "connect_us", "ok")
    lines = [f"  {name:<30} {value}" for name, value in report.items() if name not in skipped]
    latency = report.get("connect_us")
    if isinstance(latency, dict):
        shown = "  ".join(f"{name} {value:,.0f}" for name, value in latency.items() if name != "n")
        lines.append(f"  open and close (µs)            {shown}")
    return "\n".join(lines)
