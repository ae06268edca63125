"""Exit codes: 0 to 2 as shells expect, the rest as in sysexits.h (spec rule O-1.3)."""

from typing import Final

OK: Final = 0
# The node is unhealthy, refused the command, or could not start.
FAILED: Final = 1
USAGE: Final = 2
# EX_UNAVAILABLE: no node runs there.
UNAVAILABLE: Final = 69
# EX_TEMPFAIL: the node did not answer in time.
TIMEOUT: Final = 75
# EX_NOPERM: the control socket belongs to somebody else.
NOT_PERMITTED: Final = 77
# EX_CONFIG: the configuration was refused.
CONFIG: Final = 78
INTERRUPTED: Final = 130


class CliError(Exception):
    """What ends a command: a message for people and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
