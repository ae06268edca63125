"""Errors of frames in the reference's words (spec 3.1): what came, what was expected."""

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.frame import snippet_text


class FatalFrameError(AmqpError):
    """Octets that cannot be framed any more: close, then read nothing on (EX-5)."""

    def __init__(self, detail: str) -> None:
        super().__init__(reply.FRAME_ERROR, detail)


def frame_text(kind: i64, data: bytes, pos: i64, end: i64) -> str:
    """Describe a frame whose payload begins 7 octets behind `pos`."""
    payload = data[pos + 7 : end - 1] if end - pos > 8 else b""
    return snippet_text(int(kind), payload)


def unknown_frame(kind: i64, data: bytes, pos: i64, end: i64) -> AmqpError:
    return AmqpError(reply.FRAME_ERROR, frame_text(kind, data, pos, end) + ": unknown_frame")


def misplaced_frame(kind: i64, data: bytes, pos: i64, end: i64) -> AmqpError:
    return AmqpError(reply.UNEXPECTED_FRAME, frame_text(kind, data, pos, end))


def content_error(header_wanted: bool, kind: i64, class_id: i64) -> AmqpError:
    """Content out of order; `class_id` is set when a header of another class came."""
    if not header_wanted:
        return AmqpError(
            reply.UNEXPECTED_FRAME,
            "expected content body, got non content body frame instead",
            60,
            40,
        )
    got = f"one for class {class_id}" if class_id else "non content header frame"
    return AmqpError(
        reply.UNEXPECTED_FRAME,
        f"expected content header for class 60, got {got} instead",
        60,
        40,
    )
