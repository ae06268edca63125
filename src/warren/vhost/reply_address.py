"""Direct reply-to: an address that is a consumer on one channel, never a queue (spec DR-1 to DR-6).

A reply is written straight to the requesting channel if it lives; nothing is stored. The token in
the address is random, so that a forged or outdated one leads nowhere.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.protocol.output import deliver_method
from warren.queues import TAKEN, ConfirmLedger, Message, Outlet, QueueRef

PSEUDO_QUEUE: Final = "amq.rabbitmq.reply-to"
PREFIX: Final = "amq.rabbitmq.reply-to."


@final
class ReplyAddress(QueueRef):
    def __init__(self, token: str, consumer_tag: str, outlet: Outlet) -> None:
        super().__init__(PREFIX + token)
        self.token = token
        self.consumer_tag = consumer_tag
        self.outlet = outlet
        self.alive = True

    def publish(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        """Pass a reply on; its delivery tag does not advance the channel's counter (DR-5)."""
        if not self.alive:
            return TAKEN
        outlet = self.outlet
        outlet.output.deliver_chunks(
            deliver_method(self.consumer_tag),
            outlet.next_tag,
            False,
            outlet.number,
            message.tail,
            message.props,
            message.chunks(),
        )
        return TAKEN
