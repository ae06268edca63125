"""Imports: many changes of metadata made true as a whole, in slices, or not at all.

The changes come in parts and wait here until all are there. Then they are applied in order, a slice
of SLICE_NS at a time, so messages move on meanwhile; for the store they are one group, which is one
transaction. A change that is refused ends the import: what was done is undone, newest first, in the
same group, so the store keeps none of it and clients find what was there before.

Bounded: one import at a time, of CHANGES_MAX changes; one that nobody goes on with is given up.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

from warren.core import AmqpError
from warren.routing import alternate_of, check_kind
from warren.security import PatternError
from warren.server.commits import NotStoredError
from warren.server.control import Code, ControlError
from warren.server.inverse import inverse
from warren.vhost.change import Change, ExchangePut, PolicyPut, QueuePut, decoded
from warren.vhost.policy import PolicyError
from warren.vhost.policy_check import checked, read_definition
from warren.vhost.queue_argument import QUORUM, validate, validate_quorum
from warren.vhost.queue_rules import type_of

if TYPE_CHECKING:
    from warren.server.node import Node

SLICE_NS: Final = 1_000_000
CHANGES_MAX: Final = 2_000_000
IDLE_NS_MAX: Final = 60_000_000_000


@final
class Import:
    """One import that is being gathered."""

    def __init__(self, number: int, now_ns: int) -> None:
        self.number = number
        self.used_ns = now_ns
        self.changes: list[Change] = []


@final
class Importer:
    """The imports of a node, one after the other."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.current: Import | None = None
        self.applying = False
        self.count = 0

    def begin(self) -> int:
        now = self.node.clock.monotonic_ns()
        current = self.current
        if self.applying or (current is not None and now - current.used_ns < IDLE_NS_MAX):
            raise ControlError(Code.BUSY, "another import is under way", "try later")
        self.count += 1
        self.current = Import(self.count, now)
        return self.count

    def _named(self, number: int) -> Import:
        current = self.current
        if current is None or current.number != number or self.applying:
            raise ControlError(Code.NOT_FOUND, "there is no such import", "begin anew")
        current.used_ns = self.node.clock.monotonic_ns()
        return current

    def add(self, number: int, changes: tuple[Change, ...]) -> int:
        """Take in some more changes; return how many there are."""
        current = self._named(number)
        if len(current.changes) + len(changes) > CHANGES_MAX:
            self.current = None
            raise ControlError(Code.TOO_LARGE, f"an import has at most {CHANGES_MAX} changes")
        current.changes.extend(changes)
        return len(current.changes)

    def drop(self, number: int) -> None:
        """Give an import up."""
        self._named(number)
        self.current = None

    async def apply(self, number: int) -> int:
        """Make all changes true and wait until they are stored; return how many there were."""
        current = self._named(number)
        self.applying = True
        try:
            return await self._apply(current.changes)
        finally:
            self.applying = False
            self.current = None

    async def _apply(self, changes: list[Change]) -> int:
        node = self.node
        began_ns = node.clock.monotonic_ns()
        undo: list[Change] = []
        metadata = node.broker.metadata
        if node.store is not None:
            node.store.begin_group()
        try:
            await self._in_slices(changes, undo)
            ticket = metadata.ticket if node.store is not None else 0
        except ControlError:
            await self._undo(undo)
            raise
        finally:
            if node.store is not None:
                node.store.end_group()
        try:
            await node.commits.durable(ticket)
        except NotStoredError as failure:
            message = f"done in memory, but it could not be stored: {failure}"
            raise ControlError(Code.REFUSED, message, "see `warren health`") from None
        took_ms = (node.clock.monotonic_ns() - began_ns) // 1_000_000
        facts = {"changes": len(changes), "ms": took_ms}
        node.log.event("info", "definitions.imported", facts)
        return len(changes)

    async def _in_slices(self, changes: list[Change], undo: list[Change]) -> None:
        metadata = self.node.broker.metadata
        steps = iter(changes)
        failing: list[Change] = []
        while True:
            try:
                metadata.apply(self._slice(steps, undo, failing))
            except (AmqpError, PatternError, PolicyError, ValueError) as refusal:
                detail = refusal.detail if isinstance(refusal, AmqpError) else str(refusal)
                raise ControlError(Code.REFUSED, detail, "nothing was imported") from None
            if not failing:
                return
            # Whoever has messages is served between two slices.
            await asyncio.sleep(0)

    def _slice(
        self, steps: Iterator[Change], undo: list[Change], begun: list[Change]
    ) -> Iterator[Change]:
        """Yield changes for about SLICE_NS, each with what takes it back noted; `begun` has one
        while there may be more."""
        broker, clock = self.node.broker, self.node.clock
        until = clock.monotonic_ns() + SLICE_NS
        begun.clear()
        for change in steps:
            _check(change)
            back = inverse(broker, change)
            yield change
            if back is not None:
                undo.append(back)
            if clock.monotonic_ns() >= until:
                begun.append(change)
                return

    async def _undo(self, undo: list[Change]) -> None:
        metadata, clock = self.node.broker.metadata, self.node.clock
        while undo:
            until = clock.monotonic_ns() + SLICE_NS
            taken: list[Change] = []
            while undo and clock.monotonic_ns() < until:
                taken = [undo.pop()]
                metadata.follow(taken)
            await asyncio.sleep(0)


def _check(change: Change) -> None:
    """What a declare would have been refused for; the effect itself does not look (`effect.py`)."""
    if isinstance(change, QueuePut):
        arguments = decoded(change.arguments)
        validate(arguments, change.name, change.vhost)
        if type_of(arguments) == QUORUM:
            validate_quorum(
                change.name,
                change.vhost,
                durable=change.durable,
                exclusive=False,
                auto_delete=change.auto_delete,
                generated=False,
            )
    elif isinstance(change, ExchangePut):
        check_kind(change.kind)
        alternate_of(decoded(change.arguments), change.name, change.vhost)
    elif isinstance(change, PolicyPut):
        checked(
            vhost=change.vhost,
            name=change.name,
            pattern=change.pattern,
            definition=read_definition(change.definition.decode()),
            priority=change.priority,
            apply_to=change.apply_to,
            operator=change.operator,
        )
