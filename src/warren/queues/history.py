"""The last messages that passed through an exchange of type x-recent-history.

Kept in memory up to a number of messages and of octets, the newest always within both; a message
with the header `x-recent-history-no-store` of true passes by. The messages are those that the
queues have: nothing is copied.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.protocol.header import header_at
from warren.protocol.properties import P_HEADERS
from warren.protocol.value import BOOL
from warren.queues.confirm import ConfirmLedger
from warren.queues.message import Message
from warren.queues.ref import TAKEN, QueueRef

# What one exchange keeps at most, whatever length its argument asks for.
HISTORY_OCTETS_MAX: Final = 67_108_864
# What a message costs besides its octets: the object, its two strings, its place.
_OVERHEAD: Final = 200
_NO_STORE: Final = b"x-recent-history-no-store"
# Forgotten places at the front of the list before it is cut.
_SLACK: Final = 1024


@final
class History(QueueRef):
    """Stands behind the exchange; takes messages as a queue does, and hands out none."""

    def __init__(self, name: str, length: int) -> None:
        super().__init__(name)
        self.routed = False
        self.length: int = length
        self.octets: i64 = 0
        self.items: list[Message | None] = []
        self.head: i64 = 0

    def publish(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        if message.traits & P_HEADERS:
            at = header_at(message.props, _NO_STORE)
            if at >= 0 and message.props[at] == BOOL and message.props[at + 1]:
                return TAKEN
        self.items.append(message)
        self.octets += _cost(message)
        while len(self.items) - self.head > self.length or self.octets > HISTORY_OCTETS_MAX:
            self._forget()
        return TAKEN

    def _forget(self) -> None:
        oldest = self.items[self.head]
        assert oldest is not None
        self.octets -= _cost(oldest)
        self.items[self.head] = None
        self.head += 1
        if self.head > _SLACK and 2 * self.head > len(self.items):
            del self.items[: self.head]
            self.head = 0

    def messages(self) -> list[Message]:
        """Return what is kept, oldest first."""
        return [message for message in self.items[self.head :] if message is not None]

    def close(self) -> None:
        """Forget everything: the exchange is gone."""
        self.items = []
        self.head = 0
        self.octets = 0


def _cost(message: Message) -> i64:
    return message.size + len(message.props) + len(message.tail) + _OVERHEAD
