"""What happens to delayed messages, as values: hold, cancel, release, drop.

They are the instruction stream of one exchange, in the order in which they took effect. Times are
in them, so whoever applies them reads no clock: a store that replays them after a restart, or a
mirror, holds the same messages as the original. A release names the last record that went, not
each: records go in one order. Read docs/decisions/0040-delayed-messages.md.
"""

from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from warren.queues.message import Message


@dataclass(frozen=True, slots=True)
class Hold:
    """A message is held; `apart` when its content is not in the record."""

    record: bytes
    apart: Message | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    due_ms: int
    seq: int


@dataclass(frozen=True, slots=True)
class Release:
    """Everything up to this record, and this one, has been handed on."""

    due_ms: int
    seq: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Everything held is dropped."""


Instruction = Hold | Cancel | Release | Drop


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayJournal:
    """Whoever wants to know of each instruction: nobody yet."""

    def note(self, instruction: Instruction) -> None:
        """An instruction has taken effect."""
