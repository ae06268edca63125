"""The one way to change metadata: vhosts, users, permissions, topology, policies, parameters.

`apply` makes changes true in memory, at once, through `effect.perform`, and hands those that
outlive the node to a `Backend`, in the same order. It returns a *ticket*: the backend's number of
the commit that will hold them. Nobody waits here; whoever promises durability to a client holds the
promise back until that ticket is committed (`Output.hold`, `server/hub.py`).

What follows from something else (a queue that goes with its last consumer, an exchange with its
last binding, an exclusive queue with its connection) comes through `follow`: it cannot be refused.

Invariant: memory is never behind the store. It is ahead by what is not committed yet; while the
backend fails, changes that it would have to store are refused (506) before anything is done.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

import msgspec

from warren.core import AmqpError
from warren.core.reply import RESOURCE_ERROR
from warren.routing.delayed import DELAYED_MESSAGE
from warren.security import PatternError
from warren.vhost.change import BindingPut, Change, ExchangePut, QueuePut
from warren.vhost.effect import kept, needless, perform

if TYPE_CHECKING:
    from warren.vhost.broker import Broker
    from warren.vhost.vhost import VHost


def has_incarnation(change: QueuePut | ExchangePut) -> bool:
    """Whether the store may have messages of this queue or exchange."""
    if isinstance(change, ExchangePut):
        return change.durable and change.kind == DELAYED_MESSAGE
    return change.durable and change.owner == 0


NO_LIMITS: Final[Mapping[str, int]] = {}
UNLIMITED: Final = -1


class Backend(Protocol):
    """Where changes are kept."""

    @property
    def failure(self) -> str:
        """Why nothing can be stored at the moment; empty when it can."""

    def put(self, changes: Sequence[Change]) -> int:
        """Take changes over, behind those of earlier calls; return their ticket, 0 for none.

        Tickets rise; a committed ticket means that all earlier ones are committed as well.
        """


@final
class MemoryBackend:
    """Keeps nothing: what is in memory is all there is."""

    failure: Final = ""

    def put(self, changes: Sequence[Change]) -> int:
        return 0


class Sessions(Protocol):
    """What changes ask of those who hold the connections."""

    def end_vhost(self, vhost: "VHost") -> None:
        """Close the connections of a vhost that is deleted, soon (VH-6)."""

    def end_user(self, name: str) -> None:
        """Close the connections of a user that is deleted, soon (VH-6)."""

    def name_of(self, identity: int) -> str:
        """What people call a connection: the addresses of both ends."""


@final
class Metadata:
    def __init__(self, broker: "Broker", backend: Backend) -> None:
        self.broker = broker
        self.backend = backend
        # The ticket given last.
        self.ticket = 0
        # What the changes at hand have made true so far, with what followed from them.
        self._batch: list[Change] = []
        self._applying = False
        # Who hears of each change that has become true, stored or not.
        self.watcher: Callable[[Change], None] | None = None
        # What was handed over and is not committed, by ticket.
        self._open: deque[tuple[int, Sequence[Change]]] = deque()
        # While the backend fails: queues and exchanges by name, and bindings, that only memory has.
        self._doubtful: set[tuple[str, str] | Change] = set()

    def apply(self, changes: Iterable[Change]) -> int:
        """Make changes true, in order; return the ticket of those to be stored, 0 for none.

        An `AmqpError` ends the list: the changes before it are done and stored. A change that was
        true before is not stored again, but its ticket is that of whoever made it true.
        """
        begun = self._begin()
        keeping = False
        try:
            for one in changes:
                change = self._numbered(one)
                if kept(self.broker, change):
                    if self.backend.failure and not self._told_again(change):
                        self._check_backend()
                    keeping = True
                    if perform(self.broker, change):
                        self._batch.append(change)
                        self.note(change)
                elif perform(self.broker, change):
                    self.note(change)
        finally:
            self._end(begun)
        return self.ticket if keeping and not self.backend.failure else 0

    def _numbered(self, change: Change) -> Change:
        """What keeps messages in the store gets its incarnation before anybody hears of it."""
        if isinstance(change, QueuePut | ExchangePut) and has_incarnation(change):
            number = self.broker.next_incarnation()
            if number and not change.incarnation:
                return msgspec.structs.replace(change, incarnation=number)
        return change

    def check(self, change: Change) -> None:
        """Refuse (506) a change that would have to be stored and cannot be, before its answer."""
        if kept(self.broker, change):
            self._check_backend()

    def follow(self, changes: Sequence[Change]) -> None:
        """Make changes true that follow from others; they are not refused."""
        begun = self._begin()
        for change in changes:
            keeping = kept(self.broker, change)
            if perform(self.broker, change):
                if keeping:
                    self._batch.append(change)
                self.note(change)
        self._end(begun)

    def note(self, change: Change) -> None:
        """Tell the watcher of a change that is true now."""
        if self.watcher is not None:
            self.watcher(change)

    def restore(self, changes: Iterable[Change]) -> list[str]:
        """Make true what the backend has stored; return what could not be, in words."""
        problems = []
        for change in changes:
            try:
                perform(self.broker, change)
            except (AmqpError, PatternError, ValueError) as failure:
                problems.append(f"{type(change).__name__}: {failure}")
        return problems

    def followed(self, changes: Sequence[Change]) -> None:
        """Store what has already become true in memory by itself."""
        begun = self._begin()
        self._batch.extend(changes)
        for change in changes:
            self.note(change)
        self._end(begun)

    def _begin(self) -> bool:
        """Collect changes for the backend; True for the outermost, which hands them over."""
        begun = not self._applying
        self._applying = True
        return begun

    def _end(self, begun: bool) -> None:
        if not begun:
            return
        self._applying = False
        batch, self._batch = self._batch, []
        if not batch:
            return
        ticket = self.backend.put(batch)
        if ticket:
            self.ticket = ticket
            self._open.append((ticket, batch))

    def _check_backend(self) -> None:
        failure = self.backend.failure
        if failure:
            raise AmqpError(RESOURCE_ERROR, f"metadata cannot be stored: {failure}")

    # -- what the backend has done -----------------------------------------------------------------

    def committed(self, ticket: int) -> None:
        """Everything up to this ticket is stored."""
        opened = self._open
        while opened and opened[0][0] <= ticket:
            opened.popleft()
        self._doubtful.clear()

    def failed(self) -> None:
        """What is not committed now may never be."""
        for _, changes in self._open:
            for change in changes:
                if isinstance(change, QueuePut | ExchangePut):
                    self._doubtful.add((change.vhost, change.name))
                elif isinstance(change, BindingPut):
                    self._doubtful.add(change)

    def _told_again(self, change: Change) -> bool:
        return needless(self.broker, change) and change not in self._doubtful

    def ticket_of(self, vhost: str, name: str) -> int:
        """The ticket to wait for before a durable queue or exchange is said to be there.

        While the backend fails, what was stored before may be told at once; for the rest: 506.
        """
        if not self.backend.failure:
            return self.ticket
        if (vhost, name) in self._doubtful:
            self._check_backend()
        return 0

    # -- limits ------------------------------------------------------------------------------------

    def limits_of_vhost(self, name: str) -> Mapping[str, int]:
        """The limits of a vhost by name (VH-2): absent or negative is none, 0 allows nothing."""
        vhost = self.broker.vhosts.get(name)
        return NO_LIMITS if vhost is None else vhost.limits

    def limits_of_user(self, name: str) -> Mapping[str, int]:
        """The limits of a user by name (VH-2): absent or negative is none, 0 allows nothing."""
        return self.broker.user_limits.get(name, NO_LIMITS)
