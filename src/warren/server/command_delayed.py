"""Commands about delayed messages: how many, which, and what is not to be delivered after all.

A message is named by when it is due and by its number, `1790000000000-17`, which is also how pages
go on (`after`). A list in order of time looks at no more of an exchange than it must, in slices;
a page of messages that are due soon costs little, one from a far and full span costs that span.
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta, Struct

from warren.queues.calendar import between, due_of, seq_of
from warren.queues.delayed import CANCELLED, ENDS, Delayed, unpack
from warren.routing import Exchange
from warren.routing.delayed import TYPE_ARGUMENT
from warren.server.changing import Args, Name, vhost_named
from warren.server.commits import NotStoredError
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost.delayed_exchange import delayed_of

if TYPE_CHECKING:
    from warren.server.node import Node
    from warren.vhost import VHost

PAGE_MAX: Final = 1000
# Later than anything that can be held.
NEVER_MS: Final = (1 << 62) - 1
Milliseconds = Annotated[int, Meta(ge=0, le=NEVER_MS)]


class ExchangesArgs(Args, frozen=True, kw_only=True):
    """Without a vhost, those of all."""

    vhost: str | None = None
    columns: tuple[str, ...] = ()


class DelayedArgs(Args, frozen=True, kw_only=True):
    """Those due from `due_from` to before `due_to`, epoch milliseconds, behind the id `after`."""

    vhost: str = "/"
    exchange: Name
    due_from: Milliseconds = 0
    due_to: Milliseconds = NEVER_MS
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    columns: tuple[str, ...] = ()


class CancelArgs(Args, frozen=True, kw_only=True):
    vhost: str = "/"
    exchange: Name
    ids: Annotated[tuple[str, ...], Meta(min_length=1, max_length=PAGE_MAX)]


class CancelAllArgs(Args, frozen=True, kw_only=True):
    vhost: str = "/"
    exchange: Name


class Cancelled(Struct, frozen=True, kw_only=True):
    """How many went, and the ids of those that did not: not there, or about to be delivered."""

    count: int
    missed: tuple[str, ...] = ()


@final
class _Row:
    """One message in a list; ids are in the exchange's time, what is shown is the time of day."""

    def __init__(self, delayed: Delayed, record: bytes, ahead_ms: int, now_ms: int) -> None:
        self.due_ms = int(due_of(record))
        self.seq = int(seq_of(record))
        self.ahead_ms = ahead_ms
        self.now_ms = now_ms
        self.message = delayed.apart.get(self.seq) or unpack(record)


_CELLS: Final[dict[str, Cell[_Row]]] = {
    "id": lambda one: f"{one.due_ms}-{one.seq}",
    "due": lambda one: one.due_ms - one.ahead_ms,
    "left_ms": lambda one: one.due_ms - one.now_ms,
    "exchange": lambda one: one.message.exchange().decode(errors="backslashreplace"),
    "routing_key": lambda one: one.message.routing_key().decode(errors="backslashreplace"),
    "bytes": lambda one: int(one.message.size),
}


_EXCHANGE_CELLS: Final[dict[str, Cell[tuple["VHost", Exchange, Delayed]]]] = {
    "name": lambda one: one[1].name,
    "vhost": lambda one: one[0].name,
    "routes_as": lambda one: _type_of(one[1]),
    "durable": lambda one: one[1].durable,
    # Its persistent messages do.
    "survives_restart": lambda one: one[2].store is not None,
    "loading": lambda one: one[2].store is not None and one[2].store.loading,
    "messages_delayed": lambda one: int(one[2].held.count),
    "memory": lambda one: int(one[2].held.octets),
    **{
        name: lambda one, at=at: one[2].held.ended[at]  # type: ignore[misc]
        for at, name in enumerate(ENDS)
    },
}
_EXCHANGE_COLUMNS: Final = ("name", "vhost", "messages_delayed", "memory", "survives_restart")


def _type_of(exchange: Exchange) -> str:
    value = exchange.arguments[TYPE_ARGUMENT].value
    return value.decode() if isinstance(value, bytes) else ""


@final
class _Delays:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.broker = node.broker

    def exchanges(self, view: NodeView, args: ExchangesArgs) -> Slices:
        made = cells(_EXCHANGE_CELLS, args.columns or _EXCHANGE_COLUMNS)
        every = self.broker.vhosts
        names = sorted(every) if args.vhost is None else [vhost_named(self.node, args.vhost).name]

        def steps() -> Iterator[list[object] | None]:
            for vhost in [every[name] for name in names if name in every]:
                for exchange in list(vhost.routing.exchanges.values()):
                    delayed = delayed_of(exchange)
                    yield None if delayed is None else row(made, (vhost, exchange, delayed))

        return sliced(steps(), self.broker.clock)

    def messages(self, view: NodeView, args: DelayedArgs) -> Slices:
        made = cells(_CELLS, args.columns or tuple(_CELLS))
        delayed = self._named(args.vhost, args.exchange)
        # Ids are in the time that never goes back; people ask in the time of day.
        keeper = delayed.keeper
        assert keeper is not None
        now_ms = int(keeper.now_ms())
        ahead_ms = now_ms - int(keeper.wall_ms())
        # A step of the clock's rounding is no difference.
        ahead_ms = 0 if abs(ahead_ms) <= 1 else ahead_ms
        after = _key(max(0, args.due_from + ahead_ms), 0)
        if args.after:
            after = max(after, _key(*_id(args.after)))
        before = _key(min(NEVER_MS, args.due_to + ahead_ms), 0)

        def steps() -> Iterator[list[object] | None]:
            found: list[bytes] = []
            for begin, blocks in delayed.calendar.sources():
                # A full page bounds what can still come before its end.
                bound = found[-1] if len(found) == args.limit else before
                if _key(begin, 0) >= bound:
                    break
                for block in blocks:
                    for part in range(0, len(block), PAGE_MAX):
                        some = between(block[part : part + PAGE_MAX], after, bound)
                        if some:
                            found = nsmallest(args.limit, found + some)
                            bound = found[-1] if len(found) == args.limit else before
                        yield None
            for record in found:
                yield row(made, _Row(delayed, record, ahead_ms, now_ms))

        return sliced(steps(), self.broker.clock)

    async def cancel(self, view: NodeView, args: CancelArgs) -> Cancelled:
        delayed = self._named(args.vhost, args.exchange)
        wanted = [(text, *_id(text)) for text in args.ids]
        missed = tuple(text for text, due, seq in wanted if not delayed.cancel(due, seq))
        return await self._told(args.vhost, args.exchange, len(wanted) - len(missed), missed)

    async def cancel_all(self, view: NodeView, args: CancelAllArgs) -> Cancelled:
        delayed = self._named(args.vhost, args.exchange)
        count = delayed.drop_all(CANCELLED)
        self.node.hub.begin()
        return await self._told(args.vhost, args.exchange, count, ())

    async def _told(
        self, vhost: str, exchange: str, count: int, missed: tuple[str, ...]
    ) -> Cancelled:
        """Reply when it is stored: what was cancelled does not come back."""
        messages = self.node.messages
        if count and messages is not None:
            try:
                await messages.stored()
            except NotStoredError as failure:
                message = f"done in memory, but it could not be stored: {failure}"
                raise ControlError(Code.REFUSED, message, "see `warren health`") from None
        if count:
            facts = {"exchange": exchange, "vhost": vhost, "count": count, "reason": "cancelled"}
            self.broker.log.event("info", "delayed.dropped", facts)
        return Cancelled(count=count, missed=missed)

    def _named(self, vhost: str, name: str) -> Delayed:
        exchange = vhost_named(self.node, vhost).routing.exchanges.get(name)
        delayed = None if exchange is None else delayed_of(exchange)
        if delayed is None:
            message = f"there is no exchange '{name}' of type x-delayed-message in vhost '{vhost}'"
            raise ControlError(Code.NOT_FOUND, message, "list_delayed_exchanges lists them")
        return delayed


def _id(text: str) -> tuple[int, int]:
    due, _, seq = text.partition("-")
    # Longer numbers than any id has are no ids.
    if not (due.isascii() and due.isdigit() and seq.isascii() and seq.isdigit()) or len(text) > 36:
        raise ControlError(
            Code.BAD_ARGUMENTS,
            f"{text[:64]!r} is no id of a delayed message",
            "as list_delayed has",
        )
    if max(int(due), int(seq)) > NEVER_MS:
        raise ControlError(Code.BAD_ARGUMENTS, f"{text[:64]!r} is no id of a delayed message")
    return int(due), int(seq)


def _key(due_ms: int, seq: int) -> bytes:
    """What sorts behind every record up to this one: at `after` it is left out itself."""
    key = due_ms.to_bytes(8, "big") + seq.to_bytes(8, "big")
    return key + b"\xff" * 8 if seq else key


def commands(node: "Node") -> Iterator[Command]:
    delays = _Delays(node)
    yield listing(
        "list_delayed_exchanges",
        "List the exchanges that delay messages, and what became of those.",
        ExchangesArgs,
        delays.exchanges,
    )
    yield listing("list_delayed", "List delayed messages by time.", DelayedArgs, delays.messages)
    yield command("cancel_delayed", "Drop some of them.", CancelArgs, Cancelled, delays.cancel)
    yield command(
        "cancel_all_delayed", "Drop all of them.", CancelAllArgs, Cancelled, delays.cancel_all
    )
