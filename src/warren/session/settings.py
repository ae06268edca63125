"""What the session layer must know of the node's settings; handed in frozen by the server."""

from dataclasses import dataclass, field

from warren.flow import READER_TO_CHANNEL
from warren.protocol.value import Table

# The reference's hard cap (spec PB-1), whatever is configured.
MESSAGE_SIZE_CAP = 536_870_912


@dataclass(frozen=True)
class SessionSettings:
    handshake_timeout_ms: int = 10_000
    frame_max: int = 131_072
    channel_max: int = 2047
    heartbeat_s: int = 60
    max_message_size: int = 134_217_728
    consumer_timeout_ms: int = 1_800_000
    channel_tick_ms: int = 60_000
    unsent_bytes_max: int = 262_144
    parked_bytes_max: int = 1_048_576
    default_prefetch: int = 0
    # Of a connection towards its channels, and of a channel towards each queue.
    credit_initial: int = READER_TO_CHANNEL.initial
    credit_refill: int = READER_TO_CHANNEL.refill
    server_properties: Table = field(default_factory=dict)
