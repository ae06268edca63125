"""Process ids, the way RabbitMQ's tools name connections and channels: `<node.creation.id.serial>`.

Here a connection's id is its identity in the hub and its serial is 0; a channel has the id of its
connection and its own number. The creation is when the node started: an id that was noted down
before a restart names nobody after it.
"""

import re
from dataclasses import dataclass
from typing import Final

_WRITTEN: Final = re.compile(r"<(.+)\.(\d{1,20})\.(\d{1,20})\.(\d{1,20})>")


@dataclass(frozen=True, slots=True)
class Pid:
    node: str
    creation: int
    identity: int
    serial: int = 0

    def __str__(self) -> str:
        return f"<{self.node}.{self.creation}.{self.identity}.{self.serial}>"


def read_pid(written: str) -> Pid | None:
    """Return the process id that this is, None if it is none."""
    found = _WRITTEN.fullmatch(written)
    if found is None:
        return None
    node, creation, identity, serial = found.groups()
    return Pid(node, int(creation), int(identity), int(serial))
