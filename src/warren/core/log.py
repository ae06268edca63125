"""What the sans-IO packages need to report an event: one line of fields, never prose.

`warren.server.logs.Log` writes it; tests collect it. A reporter hands over names, numbers and
reasons, never a message body or a credential.
"""

from collections.abc import Mapping
from typing import Protocol


class EventLog(Protocol):
    """Where events go. Levels: debug, info, warning, error, critical."""

    def event(self, level: str, name: str, fields: Mapping[str, object], /) -> None: ...
