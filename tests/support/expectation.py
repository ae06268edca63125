"""What a test may demand of a reply, and how a disappointed demand is reported."""

import re
from typing import Any

from tests.support.methods import METHODS

# A reply text: exactly this, or fitting this pattern as a whole.
Text = str | re.Pattern[str]


class Unexpected(AssertionError):
    """Something else came than the test waits for."""


class NothingCame(Unexpected):
    """The wait ran out."""


class PeerClosed(Unexpected):
    """The broker closed the socket while something was expected."""


def starting(text: str) -> re.Pattern[str]:
    """Return a pattern for reply texts that begin with `text`."""
    return re.compile(re.escape(text) + ".*", re.DOTALL)


def text_fits(wanted: Text, text: str) -> bool:
    return text == wanted if isinstance(wanted, str) else wanted.fullmatch(text) is not None


def check_close(
    close: Any, name: str, code: int, text: Text, method: str | tuple[int, int] | None
) -> None:
    """Demand that the event is this close method with this code, text and failed method."""
    if close.name != name:
        raise Unexpected(f"expected {name} {code} {text!r}, got {close}")
    if close.reply_code != code or not text_fits(text, close.reply_text):
        raise Unexpected(f"expected {code} {text!r}, got {close.reply_code} {close.reply_text!r}")
    if method is not None:
        signature = METHODS[method] if isinstance(method, str) else None
        ids = (signature.class_id, signature.method_id) if signature else method
        if (close.class_id, close.method_id) != ids:
            raise Unexpected(f"expected the failed method {method} {ids}, got {close}")
