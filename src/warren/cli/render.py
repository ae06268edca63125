"""Replies as text for people: aligned, units on numbers, no colour unless a person watches."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO, final

if TYPE_CHECKING:
    from warren.server.view import CertificateRow, ConnectionPage, Diag, Health, QueuePage, Status

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_NUMBERS: Final = frozenset({"ready", "unacked", "consumers", "channels"})


@final
class Paint:
    """Colours, or none."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def bold(self, text: str) -> str:
        return self._with("1", text)

    def bad(self, text: str) -> str:
        return self._with("31;1", text)

    def good(self, text: str) -> str:
        return self._with("32", text)

    def faint(self, text: str) -> str:
        return self._with("2", text)

    def _with(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text


def paint(stream: TextIO | None = None, env: Mapping[str, str] = os.environ) -> Paint:
    """Return colours for a terminal, unless NO_COLOR or a dumb one forbids them."""
    seen = (sys.stdout if stream is None else stream).isatty()
    return Paint(seen and not env.get("NO_COLOR") and env.get("TERM") != "dumb")


def status_text(status: "Status", colour: Paint) -> str:
    """The node on one page."""
    listens = [f"{one.protocol} {address(one.address, one.port)}" for one in status.listeners]
    rates = status.rates
    rows = [
        ("process", f"pid {status.pid}, Python {status.python}, {status.event_loop}"),
        ("compiled", f"{status.compiled_count} of {status.compiled_count_max} hot modules"),
        ("cluster", status.cluster),
        ("listens", ", ".join(listens) or "nowhere"),
        ("clients", _counted(status.connections, "connection", status.channels, "channel")),
        ("queues", _counted(status.queues, "queue", status.exchanges, "exchange")),
        ("consumers", f"{status.consumers:,}"),
        (
            "messages",
            f"{status.messages_ready:,} ready, {status.messages_unacknowledged:,} unacknowledged"
            + (f", {status.messages_delayed:,} delayed" if status.messages_delayed else ""),
        ),
        (
            "per second",
            f"{rates.publish:,.0f} published, {rates.deliver:,.0f} delivered, "
            f"{rates.ack:,.0f} acknowledged, {rates.confirm:,.0f} confirmed",
        ),
        ("memory", _share(status.memory_bytes, status.memory_limit_bytes)),
        ("disk", _disk(status)),
        ("files", f"{status.descriptors:,} of {status.descriptors_max:,} descriptors"),
        ("data", status.data_dir),
        *_certificate(status.certificate, colour),
        *(
            (
                "alarm",
                colour.bad(f"{one.source}: {one.detail}")
                + f" (on {one.node}, setting {one.setting})",
            )
            for one in status.alarms
        ),
    ]
    if not status.alarms:
        rows.append(("alarms", "none"))
    title = f"{status.product} {status.version}, up {duration(status.uptime_ms)}"
    return f"{colour.bold(status.node)}  {title}\n{_aligned(rows)}"


def _disk(status: "Status") -> str:
    limit = size(status.disk_free_limit_bytes)
    if status.disk_free_bytes is None:
        why = "not measured yet" if status.disk_monitored else "not looked at"
        return f"free space is {why}, limit {limit}"
    return f"{size(status.disk_free_bytes)} free, limit {limit}"


def _certificate(found: "CertificateRow | None", colour: Paint) -> list[tuple[str, str]]:
    if found is None:
        return []
    until = f"valid until {found.not_after} ({found.days_left:,} days)"
    if found.state != "valid":
        until = colour.bad(f"{found.state.replace('_', ' ')}: {until}")
    return [("certificate", f"{clean(found.subject)}, {until}")]


def certificate_text(found: "CertificateRow", colour: Paint) -> str:
    """What new connections are shown from now on."""
    return _aligned([("file", found.file), *_certificate(found, colour)])


def health_text(health: "Health", colour: Paint) -> str:
    """Each check, and what to do about those that failed."""
    width = max((len(check.name) for check in health.checks), default=0)
    lines = []
    for check in health.checks:
        if check.ok and not check.detail:
            lines.append(f"  {colour.good('ok  ')}  {check.name}")
            continue
        if check.ok:
            lines.append(f"  {colour.bold('warn')}  {check.name:<{width}}  {check.detail}")
            lines.append(f"        {'':<{width}}  {check.advice}")
            continue
        reason = str(check.reason or "failed")
        detail = f": {check.detail}" if check.detail else ""
        lines.append(f"  {colour.bad('FAIL')}  {check.name:<{width}}  {reason}{detail}")
        if check.advice:
            lines.append(f"        {'':<{width}}  {check.advice}")
    verdict = colour.good("healthy") if health.ok else colour.bad("not healthy")
    return "\n".join([f"{colour.bold(health.node)}  {verdict}", *lines])


def diag_text(diag: "Diag", colour: Paint) -> str:
    """Build, modules, paths, limits and settings."""
    native = sum(one.compiled for one in diag.modules)
    general = [
        ("node", diag.node),
        ("pid", str(diag.pid)),
        ("python", diag.python),
        ("platform", diag.platform),
        ("event loop", diag.event_loop),
        *diag.packages.items(),
        ("hot modules", f"{native} of {len(diag.modules)} compiled"),
        *(("  interpreted", one.module) for one in diag.modules if not one.compiled),
    ]
    settings = [(one.name, one.value, one.origin) for one in diag.settings]
    parts = [
        f"{colour.bold('Warren')} {diag.version}\n{_aligned(general)}",
        f"{colour.bold('paths')}\n{_aligned(list(diag.paths.items()))}",
        f"{colour.bold('limits')}\n"
        + _aligned([(name, f"{number:,}") for name, number in diag.limits.items()]),
        f"{colour.bold('settings')}\n" + table(("setting", "value", "from"), settings, colour),
    ]
    return "\n\n".join(parts)


def queues_text(page: "QueuePage", colour: Paint, *, offset: int) -> str:
    """A page of queues."""
    heads = ("vhost", "name", "state", "ready", "unacked", "consumers", "features")
    rows = [
        (
            one.vhost,
            one.name,
            one.state,
            f"{one.messages_ready:,}",
            f"{one.messages_unacknowledged:,}",
            f"{one.consumers:,}",
            " ".join(
                word
                for word, has in (
                    ("D", one.durable),
                    ("AD", one.auto_delete),
                    ("Excl", one.exclusive),
                )
                if has
            ),
        )
        for one in page.rows
    ]
    return table(heads, rows, colour) + _remaining(offset, len(rows), page.total)


def connections_text(page: "ConnectionPage", colour: Paint, *, offset: int) -> str:
    """A page of connections."""
    heads = ("name", "user", "vhost", "state", "channels", "tls", "client")
    rows = [
        (
            one.name,
            one.user,
            one.vhost,
            one.state,
            f"{one.channels:,}",
            "yes" if one.ssl else "no",
            one.product,
        )
        for one in page.rows
    ]
    return table(heads, rows, colour) + _remaining(offset, len(rows), page.total)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], colour: Paint) -> str:
    """Columns as wide as they need; numbers stand right."""
    if not rows:
        return "  none"
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in [heads, *cells]) for index in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        shown = [
            cell.rjust(width) if head in _NUMBERS else cell.ljust(width)
            for cell, width, head in zip(row, widths, heads, strict=True)
        ]
        return ("  " + "  ".join(shown)).rstrip()

    return "\n".join([colour.faint(line(heads)), *(line(row) for row in cells)])


def clean(text: str) -> str:
    """Make names from clients safe for a terminal: no control characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def duration(ms: int) -> str:
    """Two units at most: 3 d 4 h, 12 min 5 s, 1.2 s, 80 ms."""
    seconds = ms // 1000
    if seconds < 1:
        return f"{ms} ms"
    if seconds < 60:
        return f"{ms // 100 / 10:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600} h"


def size(octets: int) -> str:
    """Octets in the unit that leaves a number below 1024."""
    number = float(octets)
    unit = _UNITS[0]
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{octets} B" if unit == "B" else f"{number:.1f} {unit}"


def _share(used: int, limit: int) -> str:
    if limit <= 0:
        return size(used)
    return f"{size(used)} of {size(limit)} ({100 * used / limit:.1f} %)"


def _counted(first: int, first_noun: str, second: int, second_noun: str) -> str:
    pairs = ((first, first_noun), (second, second_noun))
    return ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in pairs)


def _aligned(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def _remaining(offset: int, shown: int, total: int) -> str:
    if offset + shown >= total:
        return ""
    return f"\n  {offset + 1}-{offset + shown} of {total:,}; more with --offset {offset + shown}"
