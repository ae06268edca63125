"""Protocol: bytes <-> frames <-> methods, field tables and content properties.

Owns the wire format of AMQP 0-9-1 with RabbitMQ's extensions (WI-1 to WI-6) and nothing else.
Must never decide what a method does, nor touch a socket, a clock or a file.
Start reading at `wire.py`, `table.py`, `frame.py`, `properties.py`; `methods.py` is generated.
"""

from warren.protocol.frame import FrameSplitter, RawFrame, content_frames
from warren.protocol.methods import Method, UnknownMethod
from warren.protocol.properties import Properties
from warren.protocol.table import TABLE_DEPTH_MAX, decode_table, encode_table, skip_table
from warren.protocol.value import (
    Decimal_,
    Field,
    Table,
    field,
    kind_name,
    plain,
    same_value,
    sorted_table,
    term_text,
)
from warren.protocol.wire import DecodeError

# `frame()` and `table()` stay in their modules, which have the same names.
__all__ = [
    "TABLE_DEPTH_MAX",
    "Decimal_",
    "DecodeError",
    "Field",
    "FrameSplitter",
    "Method",
    "Properties",
    "RawFrame",
    "Table",
    "UnknownMethod",
    "content_frames",
    "decode_table",
    "encode_table",
    "field",
    "kind_name",
    "plain",
    "same_value",
    "skip_table",
    "sorted_table",
    "term_text",
]
