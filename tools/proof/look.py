"""Looking at all messages of some queues in their order, without taking any away."""

import struct
import time
from dataclasses import dataclass, field
from typing import Final

from tools.proof.message import ident_in
from tools.proof.peer import Delivery, Peer, pump
from warren.bench import frame

# How long a dead letter may be on its way from one queue to another.
UNDER_WAY_S: Final = 5.0


@dataclass(slots=True)
class Sight:
    """What was seen: by queue in its order, and how many bodies were not what they should be."""

    found: dict[str, list[int]] = field(default_factory=dict)
    spoilt: int = 0

    def all(self) -> list[int]:
        return [ident for found in self.found.values() for ident in found]


def look(
    port: int, queues: tuple[str, ...], wanted: set[int], *, empty: bool, timeout_s: float = 120.0
) -> Sight:
    """Have everything delivered unacknowledged; `empty` acknowledges it at the end.

    Complete when no queue has anything ready and all that is `wanted` has come; what is still
    missing then gets `UNDER_WAY_S` to arrive.
    """
    sight = Sight({queue: [] for queue in queues})
    peer = Peer(port)
    try:
        for queue in queues:
            peer.consume(queue)
        end_s = time.monotonic() + timeout_s
        patience_s = 0.0
        missing = set(wanted)
        while True:
            ready = sum(ready_in(peer, queue) for queue in queues)
            tag = take(peer, sight, missing)
            now_s = time.monotonic()
            if ready:
                patience_s = 0.0
            elif not missing:
                break
            else:
                patience_s = patience_s or now_s + UNDER_WAY_S
                if now_s > patience_s:
                    break
                pump([peer], 0.05)
            if now_s > end_s:
                break
        if empty and tag:
            peer.ack(tag, multiple=True)
            ready_in(peer, queues[0])  # Its answer comes behind the ack.
    finally:
        peer.close()
    return sight


def take(peer: Peer, sight: Sight, missing: set[int]) -> int:
    """Enter what was delivered; the highest delivery tag so far."""
    for event in peer.take():
        if isinstance(event, Delivery):
            peer.last_tag = event.tag
            ident = ident_in(event.body)
            if ident is None:
                sight.spoilt += 1
            else:
                sight.found[event.consumer].append(ident)
                missing.discard(ident)
    return peer.last_tag


def ready_in(peer: Peer, queue: str) -> int:
    """Ready messages, by a passive declare: its answer comes behind what was delivered."""
    arguments = b"\0\0" + frame.short_string(queue) + b"\x01" + frame.table({})
    payload = peer.call(frame.QUEUE_DECLARE, arguments, frame.QUEUE_DECLARE_OK)
    (count,) = struct.unpack_from(">I", payload, 5 + payload[4])
    return int(count)
