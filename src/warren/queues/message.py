"""A message as all queues share it: property bytes, body bytes and sizes, never framed.

Immutable once published, but for its place in the message store; a rewrite (x-death, CC removal)
makes a new `Message` that shares the body. `tail` is the deliver method's last two fields (exchange
and routing key as short strings), ready-made once per route.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr


# Not seen by the cycle collector: it holds bytes only, and millions of them may wait.
@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Message:
    def __init__(
        self,
        tail: bytes,
        props: bytes,
        body: bytes,
        more: list[bytes] | None,
        size: i64,
        traits: i64,
        expires_at: i64 = 0,
        hidden_keys: list[bytes] | None = None,
    ) -> None:
        self.tail = tail
        self.props = props
        # The whole body, unless it came in several frames: then `more` has all of its chunks.
        self.body = body
        self.more = more
        self.size = size
        # The bits that `protocol.properties.scan` found.
        self.traits = traits
        # When it expires in the queue that holds it, on the node's clock; 0 is never.
        self.expires_at = expires_at
        # The keys of BCC, which no consumer sees: a dead letter goes to them too (DL-3).
        self.hidden_keys = hidden_keys
        # Where the message store has the body, for all queues that store it; 0 is nowhere.
        self.place: i64 = 0

    def exchange(self) -> bytes:
        return self.tail[1 : 1 + self.tail[0]]

    def routing_key(self) -> bytes:
        return self.tail[2 + self.tail[0] :]

    def expiring(self, at_ns: i64) -> "Message":
        """The same message as one queue holds it: with an expiry of its own."""
        copy = Message(
            self.tail,
            self.props,
            self.body,
            self.more,
            self.size,
            self.traits,
            at_ns,
            self.hidden_keys,
        )
        copy.place = self.place
        return copy

    def with_props(self, props: bytes, traits: i64) -> "Message":
        """The same message with other properties."""
        copy = Message(
            self.tail,
            props,
            self.body,
            self.more,
            self.size,
            traits,
            self.expires_at,
            self.hidden_keys,
        )
        copy.place = self.place
        return copy

    def chunks(self) -> list[bytes]:
        if self.more is not None:
            return self.more
        return [self.body] if self.body else []

    def whole_body(self) -> bytes:
        return self.body if self.more is None else b"".join(self.more)


def compose_tail(exchange: bytes, routing_key: bytes) -> bytes:
    """Return exchange and routing key as the two short strings that end a deliver method."""
    return bytes((len(exchange),)) + exchange + bytes((len(routing_key),)) + routing_key
