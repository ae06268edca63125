"""What one user has open on a node, counted as it comes and goes: what limits are compared with."""

from typing import final


@final
class Usage:
    """Open connections of a user, and open channels on all of them."""

    def __init__(self) -> None:
        self.connections = 0
        self.channels = 0
