"""Telling systemd how the node is: READY=1, STOPPING=1, WATCHDOG=1, STATUS=... (spec rule O-9.3).

One datagram per message to the socket named by NOTIFY_SOCKET; a name that starts with `@` is in the
abstract namespace. Without the variable nothing is sent. A supervisor that does not listen never
stops the node: a failed message is reported by the return value only.
"""

import os
import socket
from collections.abc import Mapping
from typing import Final, final

STATUS_CHARS_MAX: Final = 200


@final
class Notifier:
    """The way to the service manager; does nothing when there is none."""

    def __init__(self, address: str = "") -> None:
        usable = address[:1] in {"/", "@"} and len(address) > 1
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._usable = usable

    def ready(self, status: str = "") -> bool:
        """Say that clients may connect."""
        return self._send("READY=1", self._status(status))

    def status(self, status: str) -> bool:
        """Show a line in `systemctl status`."""
        return self._send(self._status(status))

    def stopping(self, status: str = "") -> bool:
        """Say that an orderly stop began."""
        return self._send("STOPPING=1", self._status(status))

    def watchdog(self) -> bool:
        """Say that the event loop still turns."""
        return self._send("WATCHDOG=1")

    @staticmethod
    def _status(status: str) -> str:
        return "STATUS=" + " ".join(status.split())[:STATUS_CHARS_MAX]

    def _send(self, *lines: str) -> bool:
        if not self._usable:
            return False
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        try:
            with socket.socket(socket.AF_UNIX, kind) as opened:
                opened.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
        except OSError:
            return False
        return True


def notifier(env: Mapping[str, str] = os.environ) -> Notifier:
    """Return the way to the service manager that started this process."""
    return Notifier(env.get("NOTIFY_SOCKET", ""))


def watchdog_interval_ns(env: Mapping[str, str] = os.environ, *, pid: int | None = None) -> int:
    """Return how often to call `watchdog`: half of what systemd allows; 0: it does not watch."""
    wanted = env.get("WATCHDOG_PID", "")
    if wanted and wanted != str(os.getpid() if pid is None else pid):
        return 0
    allowed = env.get("WATCHDOG_USEC", "")
    return int(allowed) * 1000 // 2 if allowed.isascii() and allowed.isdigit() else 0
