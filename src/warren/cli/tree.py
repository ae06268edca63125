"""The explained wait as a tree: who waits at the top, what it waits for below, the root cause last.

A subject is drawn in full once; where it comes again (two channels that wait for one queue) it is
named only. A circle of waits ends the same way.
"""

import os
import textwrap
from typing import TYPE_CHECKING, Final

from warren.cli.render import Paint, clean, duration

if TYPE_CHECKING:
    from warren.server.view import WhyReply, WhyStep

_WIDTH_MIN: Final = 40
_WIDTH_UNKNOWN: Final = 100
_WIDTH_MAX: Final = 120
# Chains have a handful of links; beyond this the text would be all margin.
_DEPTH_MAX: Final = 30


def why_text(reply: "WhyReply", colour: Paint, *, width: int = 0) -> str:
    """Return the tree of a reply."""
    wide = width or _terminal_width()
    steps: dict[str, list[WhyStep]] = {}
    for step in reply.steps:
        steps.setdefault(step.subject, []).append(step)
    if not steps:
        return f"{clean(reply.subject)} does not wait." if reply.subject else "Nothing waits."
    causes = {step.cause for step in reply.steps}
    # Without one subject, the tops are those nobody waits for; a circle has none: take its first.
    own = reply.subject in steps
    tops = [reply.subject] if own else [one for one in steps if one not in causes]
    drawing = _Drawing(steps, colour, min(max(wide, _WIDTH_MIN), _WIDTH_MAX))
    if reply.subject and not own:
        drawing.lines.append(f"{clean(reply.subject)} does not wait. What waits around it:")
    for top in tops or list(steps)[:1]:
        drawing.subject(top, "", "")
    if reply.bottlenecks:
        names = ", ".join(clean(one) for one in reply.bottlenecks)
        drawing.lines.append(f"Bottleneck: {colour.bold(names)}")
    if reply.unlisted:
        drawing.lines.append(f"and {reply.unlisted:,} more that are counted but not listed")
    return "\n".join(drawing.lines)


def _terminal_width() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size().columns or _WIDTH_UNKNOWN
    except OSError:
        return _WIDTH_UNKNOWN


class _Drawing:
    def __init__(self, steps: dict[str, list["WhyStep"]], colour: Paint, width: int) -> None:
        self.lines: list[str] = []
        self._steps = steps
        self._colour = colour
        self._width = width
        self._drawn: set[str] = set()

    def subject(self, name: str, lead: str, margin: str) -> None:
        """Draw a subject with its waits: `lead` before its name, `margin` before the rest."""
        again = name in self._drawn and name in self._steps
        note = " (see above)" if again else ""
        self.lines.append(f"{lead}{self._colour.bold(clean(name))}{note}")
        if again:
            return
        if len(margin) > 3 * _DEPTH_MAX:
            self.lines.append(f"{margin}... (use --json for the rest)")
            return
        self._drawn.add(name)
        waits = self._steps.get(name, [])
        for index, step in enumerate(waits):
            last = index == len(waits) - 1
            self._step(step, margin, last)

    def _step(self, step: "WhyStep", margin: str, last: bool) -> None:
        beam = "└─ " if last else "├─ "
        below = margin + ("   " if last else "│  ")
        head = f"{step.state} {duration(step.since_ms)}, {step.reason}"
        self.lines.append(f"{margin}{beam}{self._colour.bad(head)}")
        detail = f" ({step.detail})" if step.detail else ""
        fact = step.fact[:1].upper() + step.fact[1:]
        self._text(f"{fact}{detail}.", below)
        root = step.cause not in self._steps
        if root:
            self._text(f"{step.advice}", below)
        if step.setting:
            self._text(f"Setting: {step.setting}", below)
        if step.cause and (not root or step.cause != step.subject):
            self.subject(step.cause, f"{below}waits for ", below)

    def _text(self, text: str, margin: str) -> None:
        room = max(self._width - len(margin), 20)
        self.lines += [margin + line for line in textwrap.wrap(clean(text), room)]
