"""Commands about cursors: durable positions that hold the history of a queue (PL-5).

Whoever owns a cursor has its `epoch`, the fencing token. A put without an epoch takes the cursor
over and is told the next one; a put or a deletion with an older one is refused (`fenced`). An
answer is sent when the change is stored, so a position that was told survives whatever happens.
Positions belong to one incarnation of the queue; they go with it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal, final

from msgspec import Meta, Struct

from warren.queues import Queue
from warren.queues.retention import BEHIND, Cursor, held_from, indexes_of, lag_of
from warren.server.changing import Args, Done, Name, make, vhost_named
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.store.keeping import first_floor
from warren.vhost.change import CursorDelete, CursorPut

if TYPE_CHECKING:
    from warren.server.node import Node

NUMBER_MAX: Final = (1 << 62) - 1
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]


class CursorArgs(Args, frozen=True, kw_only=True):
    vhost: Annotated[str, Meta(max_length=255)] = "/"
    queue: Name
    name: Name


class CursorPutArgs(CursorArgs, frozen=True, kw_only=True):
    """Make a cursor or move it to `seq`; without, a new one is made `at`, another one stays.

    Without an epoch it is taken over from whoever has it.
    """

    seq: Number | None = None
    at: Literal["earliest", "next"] = "earliest"
    epoch: Number | None = None
    incarnation: int | None = None


class CursorPlace(Struct, frozen=True, kw_only=True):
    """Where a cursor is now, the token to move it with, and from where on messages are kept."""

    seq: int
    epoch: int
    incarnation: int
    kept_from: int
    next_seq: int


class CursorDeleteArgs(CursorArgs, frozen=True, kw_only=True):
    """Without an epoch it goes whoever has it."""

    epoch: Number | None = None
    incarnation: int | None = None


class CursorsArgs(Args, frozen=True, kw_only=True):
    """Without a vhost or a queue, those of all."""

    vhost: str | None = None
    queue: str | None = None
    columns: tuple[str, ...] = ()


@final
class _Row:
    def __init__(self, queue: Queue, cursor: Cursor, now_ms: int) -> None:
        self.queue = queue
        self.cursor = cursor
        self.now_ms = now_ms
        behind = cursor.seq < (held_from(queue) or 0)
        self.lost = cursor.lost or (BEHIND if behind else "")


_CELLS: Final[dict[str, Cell[_Row]]] = {
    "vhost": lambda one: one.queue.vhost,
    "queue": lambda one: one.queue.name,
    "name": lambda one: one.cursor.name,
    "seq": lambda one: one.cursor.seq,
    "epoch": lambda one: one.cursor.epoch,
    "incarnation": lambda one: int(one.queue.incarnation),
    "kept_from": lambda one: held_from(one.queue),
    "next_seq": lambda one: int(one.queue.next_seq),
    "lag": lambda one: max(0, int(one.queue.next_seq) - one.cursor.seq),
    "lag_bytes": lambda one: lag_of(indexes_of(one.queue), one.cursor.seq),
    "age_ms": lambda one: max(0, one.now_ms - one.cursor.at_ms),
    "state": lambda one: "lost" if one.lost else "holds",
    "reason": lambda one: one.lost or None,
}


@final
class _Cursors:
    def __init__(self, node: "Node") -> None:
        self.node = node

    async def put(self, view: NodeView, args: CursorPutArgs) -> CursorPlace:
        node = self.node
        queue = self._queue(args, args.incarnation)
        cursor = self._found(queue, args.name)
        _check_epoch(args.name, cursor, args.epoch)
        epoch = args.epoch
        if epoch is None:
            epoch = 1 if cursor is None else cursor.epoch + 1
        change = CursorPut(
            vhost=args.vhost,
            queue=args.queue,
            name=args.name,
            seq=_position(queue, args, cursor),
            epoch=epoch,
            incarnation=int(queue.incarnation),
            at_ms=node.clock.wall_ns() // 1_000_000,
        )
        await make(node, change)
        return CursorPlace(
            seq=change.seq,
            epoch=epoch,
            incarnation=change.incarnation,
            kept_from=held_from(queue) or 0,
            next_seq=int(queue.next_seq),
        )

    async def delete(self, view: NodeView, args: CursorDeleteArgs) -> Done:
        queue = self._queue(args, args.incarnation)
        cursor = self._found(queue, args.name)
        if cursor is None:
            message = f"queue '{args.queue}' has no cursor '{args.name}'"
            raise ControlError(Code.NOT_FOUND, message, "cursor_list lists them")
        _check_epoch(args.name, cursor, args.epoch)
        return await make(
            self.node, CursorDelete(vhost=args.vhost, queue=args.queue, name=args.name)
        )

    def list(self, view: NodeView, args: CursorsArgs) -> Slices:
        made = cells(_CELLS, args.columns or tuple(_CELLS))
        storage = self.node.broker.turn.storage
        every = [] if storage is None else list(storage.retention.queues.values())
        now_ms = self.node.clock.wall_ns() // 1_000_000

        def steps() -> Iterator[list[object] | None]:
            for held in every:
                queue = held.queue
                if args.vhost not in {None, queue.vhost} or args.queue not in {None, queue.name}:
                    yield None
                    continue
                for cursor in sorted(held.cursors.values(), key=lambda one: one.name):
                    yield row(made, _Row(queue, cursor, now_ms))

        return sliced(steps(), self.node.clock)

    def _queue(self, args: CursorArgs, incarnation: int | None) -> Queue:
        queue = vhost_named(self.node, args.vhost).queues.get(args.queue)
        if queue is None:
            message = f"there is no queue '{args.queue}' in vhost '{args.vhost}'"
            raise ControlError(Code.NOT_FOUND, message, "list_queues lists them")
        if queue.index is None:
            message = f"queue '{args.queue}' is not durable: nothing of it is kept"
            raise ControlError(Code.REFUSED, message, "cursors are for durable queues")
        if incarnation is not None and incarnation != queue.incarnation:
            message = f"queue '{args.queue}' is not {incarnation} but {queue.incarnation}"
            fix = "it was deleted and made anew, and its cursors went with it"
            raise ControlError(Code.WRONG_INCARNATION, message, fix)
        return queue

    def _found(self, queue: Queue, name: str) -> Cursor | None:
        storage = self.node.broker.turn.storage
        return None if storage is None else storage.retention.cursors(queue).get(name)


def _check_epoch(name: str, cursor: Cursor | None, epoch: int | None) -> None:
    if cursor is not None and epoch is not None and epoch < cursor.epoch:
        message = f"cursor '{name}' is at epoch {cursor.epoch}, and {epoch} is older"
        fix = "somebody else has taken it over; stop, or take it over without an epoch"
        raise ControlError(Code.FENCED, message, fix)


def _position(queue: Queue, args: CursorPutArgs, cursor: Cursor | None) -> int:
    """Where the cursor is to be."""
    next_seq = int(queue.next_seq)
    kept = held_from(queue)
    if kept is None:
        # The history begins with the cursor: what lives is part of it.
        kept = min(int(first_floor(index, queue.next_seq)) for index in indexes_of(queue))
    seq = args.seq
    if seq is None:
        fresh = kept if args.at == "earliest" else next_seq
        seq = fresh if cursor is None else cursor.seq
    if seq > next_seq:
        message = f"the next message of queue '{queue.name}' gets the id {next_seq}"
        raise ControlError(Code.BAD_ARGUMENTS, message, f"{seq} is behind it")
    if seq < kept:
        message = f"of queue '{queue.name}' messages are kept from {kept} on, and not from {seq}"
        raise ControlError(Code.GONE, message, "they were settled, and the history let them go")
    return seq


def commands(node: "Node") -> Iterator[Command]:
    made = _Cursors(node)
    yield command(
        "cursor_put",
        "Make a cursor, move it, or take it over.",
        CursorPutArgs,
        CursorPlace,
        made.put,
    )
    yield command("cursor_delete", "Delete a cursor.", CursorDeleteArgs, Done, made.delete)
    yield listing("cursor_list", "List cursors.", CursorsArgs, made.list)
