"""What a queue asks of whoever keeps it: to bury its dead messages, to delete it, to tell of it.

The vhost implements this; queues know neither exchanges nor each other. A `Witness` is told of what
it could not see otherwise while it reads a queue in slices.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from warren.queues.message import Message
    from warren.queues.outlet import ConsumerOwner
    from warren.queues.queue import Queue
    from warren.queues.unacked import Delivery


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueKeeper:
    def bury(self, queue: "Queue", message: "Message", reason: i64) -> None:
        """A message died in a queue that has a dead-letter exchange (DL-1)."""

    def retire(self, queue: "Queue") -> None:
        """A queue was unused for its time: it is to be deleted (QD-7)."""

    def keys_full(self, queue: "Queue") -> None:
        """A queue forgets keys of messages before their time, from now on."""

    def handed_out(
        self, queue: "Queue", owner: "ConsumerOwner | None", message: "Message", again: bool
    ) -> None:
        """A queue that is traced has handed a message out (O-10.1)."""


@final
class Witness:
    """What has come back to a queue since its owner looked: final, and no class of a reader's."""

    def __init__(self) -> None:
        self.returned: list[Delivery] = []
