"""What ends a verb, and with which exit code (O-1.3)."""

from typing import Final

OK: Final = 0
CRASHED: Final = 1
USAGE: Final = 64
DATA: Final = 65
NO_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
TIMEOUT: Final = 75
NOT_PERMITTED: Final = 77


class CtlError(Exception):
    """A message for stderr and the exit code."""

    def __init__(self, text: str, code: int = UNAVAILABLE) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Misuse(Exception):
    """Arguments that cannot be: told together with the usage of the verb."""

    def __init__(
        self, text: str, code: int = USAGE, head: str = "Error (argument validation): "
    ) -> None:
        super().__init__(text)
        self.text = head + text
        self.code = code


def failed(text: str, code: int = UNAVAILABLE) -> CtlError:
    """Return the error of an operation that the node did not carry out."""
    return CtlError(f"Error:\n{text}", code)
