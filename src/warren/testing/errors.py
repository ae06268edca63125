"""What goes wrong in a test that uses the broker: each kind says what was wanted and what is."""

from typing import final


@final
class RefusedError(Exception):
    """The broker refused an operation of a helper, as it would refuse a client's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


@final
class CommandError(Exception):
    """A control command was refused."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@final
class NotInTimeError(AssertionError):
    """What was waited for did not come true in time; the text says what is true instead."""


@final
class StoppedError(RuntimeError):
    """The broker is not running, or does not answer."""
