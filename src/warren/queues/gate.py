"""The bits of a queue's gate: why its publishes, or what it hands out, take the long way.

Zero is a queue without anything special: one comparison for each message.
"""

from typing import Final

# Deleted: nothing is taken or handed out any more.
GATE_DEAD: Final = 1
# It stands still: publishes wait in front.
GATE_SUSPENDED: Final = 2
# Each message is looked at (`QueueRules.look_at_publishes`).
GATE_RULES: Final = 4
# Something in it expires.
GATE_EXPIRY: Final = 8
# What is handed out is told to the keeper.
GATE_TRACED: Final = 16
# Persistent messages are written to the store: only publishes look at this one.
GATE_STORE: Final = 32
# Everything for which handing out takes the long way, or none.
GATE_LONG: Final = GATE_DEAD | GATE_SUSPENDED | GATE_RULES | GATE_EXPIRY | GATE_TRACED
