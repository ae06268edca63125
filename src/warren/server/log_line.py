"""A log line: time, level, event and fields, as text or as JSON.

Invariants: no payload and no credential is written (a field is masked by its name, octets are never
shown, user information is cut from URLs); a line has no control characters, so that a client cannot
forge lines; a line is bounded by its number of fields.
"""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

FIELD_CHARS_MAX: Final = 512

_SECRET: Final = re.compile(
    r"passw|(^|_)pass($|_)|secret|token|credential|authorization|cookie|api_?key"
)
_CONTENT: Final = re.compile(r"(^|_)(body|payload|content|response|challenge)$")
_USERINFO: Final = re.compile(r"://[^/\s@]+@")
_PLAIN: Final = re.compile(r"[^\s\"'=\\]+\Z")
# json leaves these alone; some viewers break lines at them.
_LINE_BREAKS: Final = re.compile("[\x7f-\x9f\u2028\u2029]")


def _safe(name: str, value: object) -> object:
    """Return what may be written of a field's value."""
    lower = name.lower()
    if _SECRET.search(lower):
        return "***"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} octets>"
    if _CONTENT.search(lower) and isinstance(value, str):
        return f"<{len(value)} characters>"
    if isinstance(value, float):
        # JSON has no word for infinity.
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        value = (
            "{" + ", ".join(f"{key}: {_safe(str(key), one)}" for key, one in value.items()) + "}"
        )
    elif isinstance(value, list | tuple):
        value = ", ".join(str(_safe(name, one)) for one in value)
    text = _USERINFO.sub("://***@", str(value))
    return text if len(text) <= FIELD_CHARS_MAX else text[: FIELD_CHARS_MAX - 3] + "..."


def _quoted(text: str) -> str:
    shown = json.dumps(text, ensure_ascii=False)
    return _LINE_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


def _time(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1000 % 1_000_000:06d}Z"


def text_line(wall_ns: int, level: str, name: str, fields: Mapping[str, object]) -> str:
    words = [_time(wall_ns), f"{level:<8}", name]
    for key, value in fields.items():
        safe = _safe(key, value)
        shown = str(safe).lower() if isinstance(safe, bool) else str(safe)
        plain = _PLAIN.match(shown) and shown.isprintable()
        words.append(f"{key}={shown if plain else _quoted(shown)}")
    return " ".join(words)


def json_line(wall_ns: int, level: str, name: str, fields: Mapping[str, object]) -> str:
    line: dict[str, object] = {"time": _time(wall_ns), "level": level, "msg": name}
    for key, value in fields.items():
        # A field may not pose as one of ours.
        line[key if key not in line else key + "_"] = _safe(key, value)
    shown = json.dumps(
        line, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
    )
    return _LINE_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)
