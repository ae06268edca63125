"""The two kinds of error: the world failed (`AmqpError`), or we failed (`InvariantError`).

An `AmqpError` carries what the peer is told; the session layer turns it into channel.close or
connection.close. The scope follows from the code (`core.reply`), except on channel 0.
"""

from warren.core.reply import CHANNEL_CODES, reply_text


class AmqpError(Exception):
    """A refusal in the protocol's own terms: code, detail, and the method that failed."""

    def __init__(self, code: int, detail: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.class_id = class_id
        self.method_id = method_id

    def closes_channel_only(self) -> bool:
        return self.code in CHANNEL_CODES

    def text(self) -> str:
        return reply_text(self.code, self.detail)


class InvariantError(Exception):
    """A broken invariant: the smallest unit that can be trusted again must stop."""


def invariant(holds: bool, what: str) -> None:
    """Stop the smallest unit when something that must be true is not. Stays on in production."""
    if not holds:
        raise InvariantError(what)
