"""A bar chart as plain SVG: one group of bars per row, on a logarithmic scale."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

COLOURS = {"Warren": "#2563eb", "Warren uncompiled": "#93b4f5", "RabbitMQ": "#f97316"}
LABEL_WIDTH = 330
PLOT_WIDTH = 520
BAR_HEIGHT = 12
GROUP_GAP = 10
TOP = 56


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: a label and a value per series; 0 is not drawn."""

    label: str
    values: dict[str, float]


def bars_svg(title: str, bars: list[Bar]) -> str:
    values = [value for bar in bars for value in bar.values.values() if value > 0]
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(values, default=10.0))))
    height = TOP + sum(len(bar.values) * BAR_HEIGHT + GROUP_GAP for bar in bars) + 30
    width = LABEL_WIDTH + PLOT_WIDTH + 110
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="22" font-size="15" font-weight="bold" fill="#1f2937">'
        f"{escape(title)}</text>",
        *legend(bars),
        *grid(low, high, height),
        *groups(bars, low, high),
        "</svg>\n",
    ]
    return "\n".join(parts)


def legend(bars: list[Bar]) -> Iterator[str]:
    x = 10
    for name in dict.fromkeys(name for bar in bars for name in bar.values):
        yield f'<rect x="{x}" y="32" width="12" height="12" fill="{COLOURS.get(name, "#6b7280")}"/>'
        yield f'<text x="{x + 17}" y="42" fill="#1f2937">{escape(name)}</text>'
        x += 40 + 8 * len(name)


def grid(low: int, high: int, height: int) -> Iterator[str]:
    for power in range(low, high + 1):
        x = position(10.0**power, low, high)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height - 22}" stroke="#e5e7eb"/>'
        yield (
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#6b7280">'
            f"{10**power if power < 0 else int(10**power):,}</text>"
        )


def groups(bars: list[Bar], low: int, high: int) -> Iterator[str]:
    y = TOP
    for bar in bars:
        middle = y + len(bar.values) * BAR_HEIGHT / 2 + 4
        yield (
            f'<text x="{LABEL_WIDTH - 8}" y="{middle:.1f}" text-anchor="end" fill="#1f2937">'
            f"{escape(bar.label)}</text>"
        )
        for name, value in bar.values.items():
            if value > 0:
                end = position(value, low, high)
                yield (
                    f'<rect x="{LABEL_WIDTH}" y="{y}" width="{max(1.0, end - LABEL_WIDTH):.1f}" '
                    f'height="{BAR_HEIGHT - 2}" fill="{COLOURS.get(name, "#6b7280")}"/>'
                )
                yield (
                    f'<text x="{end + 5:.1f}" y="{y + 9}" font-size="10" fill="#374151">'
                    f"{value:,.0f}</text>"
                )
            y += BAR_HEIGHT
        y += GROUP_GAP


def position(value: float, low: int, high: int) -> float:
    return LABEL_WIDTH + (math.log10(value) - low) / (high - low) * PLOT_WIDTH


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: its name, and points of rising x."""

    name: str
    points: list[tuple[float, float]]


LINE_COLOURS = ("#2563eb", "#93b4f5", "#f97316", "#fdba74", "#16a34a", "#6b7280")
LINE_LEFT = 70
LINE_HEIGHT = 280
# More points than these are thinned: nobody sees them.
LINE_POINTS = 400


def lines_svg(title: str, lines: list[Line]) -> str:
    """Curves over a linear x, on a logarithmic y."""
    values = [y for line in lines for _, y in line.points if y > 0]
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(values, default=10.0))))
    last = max((x for line in lines for x, _ in line.points), default=1.0) or 1.0
    width, height = LINE_LEFT + PLOT_WIDTH + 210, TOP + LINE_HEIGHT + 40

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(max(y, 10.0**low)) - low) / (high - low)
        return LINE_LEFT + x / last * PLOT_WIDTH, TOP + LINE_HEIGHT * (1 - share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="22" font-size="15" font-weight="bold" fill="#1f2937">'
        f"{escape(title)}</text>",
    ]
    for power in range(low, high + 1):
        left, y = place(0.0, 10.0**power)
        parts.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{left + PLOT_WIDTH}" y2="{y:.1f}" '
            f'stroke="#e5e7eb"/><text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="#6b7280">{10.0**power:,.10g}</text>'
        )
    for quarter in range(5):
        x, y = place(last * quarter / 4, 10.0**low)
        parts.append(
            f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle" fill="#6b7280">'
            f"{last * quarter / 4:.3g}</text>"
        )
    for number, line in enumerate(lines):
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        step = max(1, len(line.points) // LINE_POINTS)
        thinned = [*line.points[::step], line.points[-1]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in thinned))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{LINE_LEFT + PLOT_WIDTH + 20}" y="{TOP + 22 * number}" width="12" '
            f'height="12" fill="{colour}"/><text x="{LINE_LEFT + PLOT_WIDTH + 38}" '
            f'y="{TOP + 22 * number + 10}" fill="#1f2937">{escape(line.name)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])
