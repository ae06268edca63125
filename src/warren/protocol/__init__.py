"""Protocol: bytes <-> frames <-> methods, field tables and content properties.

Owns the wire format of AMQP 0-9-1 with RabbitMQ's extensions (WI-1 to WI-6) and nothing else.
Must never decide what a method does, nor touch a socket, a clock or a file.
Start reading at `wire.py`, then `table.py`, `methods.py` (generated) and `properties.py`.
"""

from warren.protocol.table import TABLE_DEPTH_MAX, decode_table, encode_table, skip_table
from warren.protocol.value import Decimal_, Field, Table, field, kind_name, plain, same_value, table
from warren.protocol.wire import DecodeError

__all__ = [
    "TABLE_DEPTH_MAX",
    "DecodeError",
    "Decimal_",
    "Field",
    "Table",
    "decode_table",
    "encode_table",
    "field",
    "kind_name",
    "plain",
    "same_value",
    "skip_table",
    "table",
]
