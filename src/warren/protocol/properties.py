"""Content properties: the octets after the body size in a content header (WI-2, WI-4).

"Props" are those octets: two of flags, then the properties that the flags name, in flag order from
bit 15. `scan` checks them completely and says in one number what a publish must know; it builds
nothing. `Properties` is for whoever needs the values. The rewriting functions change one property
and pass every other octet through as it came (WI-5).

Bits 1 and 0 of the flags stand for no property of this class (0 announces a second flag word);
they are refused, because what would follow them cannot be understood.
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.core.reply import SYNTAX_ERROR
from warren.protocol.table import check_value, decode_table, put_table
from warren.protocol.value import Table, sorted_table
from warren.protocol.wire import (
    DecodeError,
    TruncatedError,
    check_utf8,
    long_end,
    need,
    put_short,
    put_u8,
    put_u16,
    put_u64,
    read_u16,
    read_u64,
    short_end,
    short_text,
)

__all__ = [
    "CORRELATION_ID",
    "MESSAGE_ID",
    "NO_PROPERTIES",
    "P_BAD_MODE",
    "P_EXPIRATION",
    "P_HEADERS",
    "P_PERSISTENT",
    "P_PRIORITY_MASK",
    "P_PRIORITY_SHIFT",
    "P_REPLY_TO_DIRECT",
    "P_ROUTED_HEADERS",
    "P_USER_ID",
    "TIMESTAMP_PROPERTY",
    "Properties",
    "decode",
    "expiration_of",
    "headers_of",
    "property_octets",
    "readable_headers_of",
    "scan",
    "sorted_table",
    "user_id_of",
    "with_headers",
    "with_reply_to",
    "without_expiration",
]

# What `scan` finds. Priority + 1 takes nine bits, since a priority is an octet; 0 = absent.
P_PERSISTENT: Final = 1  # delivery-mode 2
P_BAD_MODE: Final = 2  # delivery-mode neither 1 nor 2
P_ROUTED_HEADERS: Final = 4  # the headers hold a key CC or BCC
P_HEADERS: Final = 8
P_EXPIRATION: Final = 16
P_USER_ID: Final = 32
P_REPLY_TO_DIRECT: Final = 64  # reply-to is exactly the pseudo queue of direct reply-to
P_PRIORITY_SHIFT: Final = 16
P_PRIORITY_MASK: Final = 0x1FF

NO_PROPERTIES: Final = b"\x00\x00"

_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000
_DELIVERY_MODE: Final = 0x1000
_PRIORITY: Final = 0x0800
_CORRELATION_ID: Final = 0x0400
_REPLY_TO: Final = 0x0200
_EXPIRATION: Final = 0x0100
_MESSAGE_ID: Final = 0x0080
_TIMESTAMP: Final = 0x0040
_TYPE: Final = 0x0020
_USER_ID: Final = 0x0010
_APP_ID: Final = 0x0008
_CLUSTER_ID: Final = 0x0004
_NO_PROPERTY: Final = 0x0003

# For `property_octets`.
CORRELATION_ID: Final = _CORRELATION_ID
MESSAGE_ID: Final = _MESSAGE_ID
TIMESTAMP_PROPERTY: Final = _TIMESTAMP

_DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"
_DIRECT_REPLY_TO_SIZE: Final = 21
_C: Final = 67
_B: Final = 66


def scan(data: bytes, pos: i64, end: i64) -> i64:
    """Check the props data[pos:end] and return the P_ bits; raise `DecodeError` if malformed."""
    flags = _flags(data, pos, end)
    pos += 2
    found: i64 = 0
    if flags & _CONTENT_TYPE:
        pos = _checked_short(data, pos, end)
    if flags & _CONTENT_ENCODING:
        pos = _checked_short(data, pos, end)
    if flags & _HEADERS:
        after = long_end(data, pos, end)
        found |= _scan_headers(data, pos + 4, after)
        pos = after
    if flags & _DELIVERY_MODE:
        need(pos, 1, end)
        mode: i64 = data[pos]
        if mode == 2:
            found |= P_PERSISTENT
        elif mode != 1:
            found |= P_BAD_MODE
        pos += 1
    if flags & _PRIORITY:
        need(pos, 1, end)
        priority: i64 = data[pos]
        found |= (priority + 1) << P_PRIORITY_SHIFT
        pos += 1
    if flags & 0x07FC:
        found |= _scan_rare(data, pos, end, flags)
    elif pos != end:
        raise TruncatedError()
    return found


def _scan_rare(data: bytes, pos: i64, end: i64, flags: i64) -> i64:
    found: i64 = 0
    if flags & _CORRELATION_ID:
        pos = _checked_short(data, pos, end)
    if flags & _REPLY_TO:
        after = _checked_short(data, pos, end)
        if after - pos - 1 == _DIRECT_REPLY_TO_SIZE and data[pos + 1 : after] == _DIRECT_REPLY_TO:
            found |= P_REPLY_TO_DIRECT
        pos = after
    if flags & _EXPIRATION:
        found |= P_EXPIRATION
        pos = _checked_short(data, pos, end)
    if flags & _MESSAGE_ID:
        pos = _checked_short(data, pos, end)
    if flags & _TIMESTAMP:
        need(pos, 8, end)
        pos += 8
    if flags & _TYPE:
        pos = _checked_short(data, pos, end)
    if flags & _USER_ID:
        found |= P_USER_ID
        pos = _checked_short(data, pos, end)
    if flags & _APP_ID:
        pos = _checked_short(data, pos, end)
    if flags & _CLUSTER_ID:
        pos = _checked_short(data, pos, end)
    if pos != end:
        raise TruncatedError()
    return found


def _scan_headers(data: bytes, pos: i64, end: i64) -> i64:
    found: i64 = P_HEADERS
    while pos < end:
        key_end = short_end(data, pos, end)
        check_utf8(data, pos + 1, key_end)
        size = key_end - pos - 1
        if size <= 3 and _is_routed(data, pos + 1, size):
            found |= P_ROUTED_HEADERS
        pos = check_value(data, key_end, end, 1)
    return found


def _is_routed(data: bytes, pos: i64, size: i64) -> bool:
    """Tell whether the key is CC or BCC."""
    if size == 3:
        return data[pos] == _B and data[pos + 1] == _C and data[pos + 2] == _C
    return size == 2 and data[pos] == _C and data[pos + 1] == _C


def _flags(data: bytes, pos: i64, end: i64) -> i64:
    if end - pos < 2:
        raise TruncatedError()
    flags = read_u16(data, pos)
    if flags & _NO_PROPERTY:
        raise DecodeError(SYNTAX_ERROR, "property flags name unknown properties")
    return flags


def _checked_short(data: bytes, pos: i64, end: i64) -> i64:
    after = short_end(data, pos, end)
    check_utf8(data, pos + 1, after)
    return after


@final
class Properties:
    """The values of one content's properties; None where the flag is not set."""

    def __init__(
        self,
        *,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,  # noqa: A002 - the name in the specification
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type: str | None = content_type
        self.content_encoding: str | None = content_encoding
        self.headers: Table | None = headers
        self.delivery_mode: int | None = delivery_mode
        self.priority: int | None = priority
        self.correlation_id: str | None = correlation_id
        self.reply_to: str | None = reply_to
        self.expiration: str | None = expiration
        self.message_id: str | None = message_id
        self.timestamp: int | None = timestamp
        self.type: str | None = type
        self.user_id: str | None = user_id
        self.app_id: str | None = app_id
        self.cluster_id: str | None = cluster_id

    def encode(self) -> bytes:
        """Return the props; headers in the order of the dict."""
        out = BytesWriter()
        flags = _put_short(out, _CONTENT_TYPE, self.content_type)
        flags |= _put_short(out, _CONTENT_ENCODING, self.content_encoding)
        headers = self.headers
        if headers is not None:
            put_table(out, headers)
            flags |= _HEADERS
        flags |= _put_octet(out, _DELIVERY_MODE, self.delivery_mode)
        flags |= _put_octet(out, _PRIORITY, self.priority)
        flags |= _put_short(out, _CORRELATION_ID, self.correlation_id)
        flags |= _put_short(out, _REPLY_TO, self.reply_to)
        flags |= _put_short(out, _EXPIRATION, self.expiration)
        flags |= _put_short(out, _MESSAGE_ID, self.message_id)
        timestamp = self.timestamp
        if timestamp is not None:
            put_u64(out, timestamp)
            flags |= _TIMESTAMP
        flags |= _put_short(out, _TYPE, self.type)
        flags |= _put_short(out, _USER_ID, self.user_id)
        flags |= _put_short(out, _APP_ID, self.app_id)
        flags |= _put_short(out, _CLUSTER_ID, self.cluster_id)
        return _flag_octets(flags) + out.getvalue()


def _put_short(out: BytesWriter, flag: i64, text: str | None) -> i64:
    if text is None:
        return 0
    put_short(out, text)
    return flag


def _put_octet(out: BytesWriter, flag: i64, number: int | None) -> i64:
    if number is None:
        return 0
    put_u8(out, number)
    return flag


def _flag_octets(flags: i64) -> bytes:
    out = BytesWriter()
    put_u16(out, flags)
    return out.getvalue()


def decode(props: bytes) -> Properties:
    """Decode all properties; raise `DecodeError` if they are malformed."""
    end: i64 = len(props)
    flags = _flags(props, 0, end)
    found = Properties()
    pos: i64 = 2
    bit: i64 = _CONTENT_TYPE
    while bit >= _CLUSTER_ID:
        if flags & bit:
            after = _property_end(props, pos, end, bit)
            _set_property(found, bit, props, pos, after)
            pos = after
        bit >>= 1
    if pos != end:
        raise TruncatedError()
    return found


def _property_end(props: bytes, pos: i64, end: i64, bit: i64) -> i64:
    if bit == _HEADERS:
        return long_end(props, pos, end)
    if bit in (_DELIVERY_MODE, _PRIORITY):
        need(pos, 1, end)
        return pos + 1
    if bit == _TIMESTAMP:
        need(pos, 8, end)
        return pos + 8
    return short_end(props, pos, end)


def _set_property(found: Properties, bit: i64, props: bytes, pos: i64, after: i64) -> None:
    if bit == _HEADERS:
        found.headers = decode_table(props, pos, after)
    elif bit == _DELIVERY_MODE:
        found.delivery_mode = props[pos]
    elif bit == _PRIORITY:
        found.priority = props[pos]
    elif bit == _TIMESTAMP:
        found.timestamp = read_u64(props, pos)
    else:
        _set_text(found, bit, short_text(props, pos, after))


def _set_text(found: Properties, bit: i64, text: str) -> None:
    if bit == _CONTENT_TYPE:
        found.content_type = text
    elif bit == _CONTENT_ENCODING:
        found.content_encoding = text
    elif bit == _CORRELATION_ID:
        found.correlation_id = text
    elif bit == _REPLY_TO:
        found.reply_to = text
    elif bit == _EXPIRATION:
        found.expiration = text
    elif bit == _MESSAGE_ID:
        found.message_id = text
    elif bit == _TYPE:
        found.type = text
    elif bit == _USER_ID:
        found.user_id = text
    elif bit == _APP_ID:
        found.app_id = text
    else:
        found.cluster_id = text


def headers_of(props: bytes) -> Table | None:
    """Decode only the headers; None if there are none."""
    end: i64 = len(props)
    flags = _flags(props, 0, end)
    if not flags & _HEADERS:
        return None
    return decode_table(props, _property_start(props, flags, end, _HEADERS), end)


def readable_headers_of(props: bytes) -> Table:
    """Decode the headers for a rewriting; what cannot be decoded is no reason to fail."""
    try:
        return headers_of(props) or {}
    except DecodeError:
        return {}


def expiration_of(props: bytes) -> str | None:
    """Return only the expiration."""
    return _short_of(props, _EXPIRATION)


def user_id_of(props: bytes) -> str | None:
    """Return only the user-id."""
    return _short_of(props, _USER_ID)


def _short_of(props: bytes, bit: i64) -> str | None:
    end: i64 = len(props)
    flags = _flags(props, 0, end)
    if not flags & bit:
        return None
    start = _property_start(props, flags, end, bit)
    return short_text(props, start, short_end(props, start, end))


def property_octets(props: bytes, flag: i64) -> bytes:
    """Return the octets of one property without its length; none at all when it is not there.

    `props` may be empty, for a message nobody knows the properties of.
    """
    end: i64 = len(props)
    if end == 0:
        return b""
    flags = _flags(props, 0, end)
    if not flags & flag:
        return b""
    start = _property_start(props, flags, end, flag)
    after = _property_end(props, start, end, flag)
    return props[start:after] if flag == _TIMESTAMP else props[start + 1 : after]


def with_headers(props: bytes, headers: Table | None) -> bytes:
    """Return the props with these headers, or without any; all else stays octet for octet."""
    if headers is None:
        return _replaced(props, _HEADERS, b"")
    out = BytesWriter()
    put_table(out, headers)
    return _replaced(props, _HEADERS, out.getvalue())


def with_reply_to(props: bytes, reply_to: str) -> bytes:
    """Return the props with this reply-to; all else stays octet for octet."""
    out = BytesWriter()
    put_short(out, reply_to)
    return _replaced(props, _REPLY_TO, out.getvalue())


def without_expiration(props: bytes) -> bytes:
    """Return the props without expiration; all else stays octet for octet."""
    return _replaced(props, _EXPIRATION, b"")


def _property_start(props: bytes, flags: i64, end: i64, wanted: i64) -> i64:
    """Return where a property lies, or where it would be inserted."""
    pos: i64 = 2
    bit: i64 = _CONTENT_TYPE
    while bit > wanted:
        if flags & bit:
            pos = _property_end(props, pos, end, bit)
        bit >>= 1
    return pos


def _replaced(props: bytes, bit: i64, raw: bytes) -> bytes:
    end: i64 = len(props)
    flags = _flags(props, 0, end)
    start = _property_start(props, flags, end, bit)
    after = start
    if flags & bit:
        after = _property_end(props, start, end, bit)
        flags -= bit
    if raw:
        flags |= bit
    return _flag_octets(flags) + props[2:start] + raw + props[after:]
