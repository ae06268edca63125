"""How the session layer addresses a queue, wherever it lives.

`QueueRef` is the seam: `Queue` (this node) implements it now, a queue on another node will. The
session never touches a queue's fields; it hands over messages, settlements and commands.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.queues.message import Message

if TYPE_CHECKING:
    from warren.queues.confirm import ConfirmLedger
    from warren.queues.outlet import ConsumerOwner
    from warren.queues.unacked import Delivery

# What `publish` answers.
TAKEN: Final[i64] = 0  # the queue has taken responsibility
REFUSED: Final[i64] = 1  # the queue does not want it: a nack
PENDING: Final[i64] = 2  # the ledger hears later; costs credit until then
HELD: Final[i64] = 3  # waits in front of the queue; costs credit until it goes on
OVERDRAWN: Final[i64] = 4  # taken, but the store does not keep up: costs credit until it does


class QueueRef:
    """One queue as publishers and channels see it."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Whether a message that comes here counts as routed (PB-3).
        self.routed = True

    def publish(self, message: Message, ledger: "ConfirmLedger | None", number: i64) -> i64:
        """Take a message; `number` is what the ledger is told if the answer comes later."""
        raise AssertionError("a queue reference without an implementation")

    def cost(self) -> i64:
        """What the publish that was answered by `HELD` or more costs, in credit."""
        return 1

    def stores(self) -> bool:
        """Whether what was published last had to be written down."""
        return False

    def is_held_up(self) -> bool:
        """Whether messages wait here because no consumer takes them."""
        return False

    def pressure(self) -> i64:
        """Ready messages that consumers wait for; 0 without consumers."""
        return 0

    def watch(self, owner: "ConsumerOwner") -> None:
        """Have `owner` told when the publishes held now have been taken."""
        raise AssertionError("a queue reference without an implementation")

    def on_store_open(self) -> None:
        """The journal has caught up: publishers do not overdraw any more."""

    def settle(self, delivery: "Delivery") -> None:
        """A consumer has acknowledged."""
        raise AssertionError("a queue reference without an implementation")

    def discard(self, delivery: "Delivery") -> None:
        """A consumer has rejected without requeue."""
        raise AssertionError("a queue reference without an implementation")

    def requeue(self, deliveries: "list[Delivery]") -> None:
        """Deliveries come back to their old places."""
        raise AssertionError("a queue reference without an implementation")
