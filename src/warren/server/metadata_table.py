"""The metadata file: its tables, and every change as a row in one of them.

Format (docs/internals/metadata.md): an SQLite database, `application_id` APPLICATION,
`user_version` VERSION, one table per kind of object. A row has its key, then the rest, then `crc`:
the CRC-32 of the MessagePack of all that stands before it. SQLite finds a broken page by its
structure only; the checksum finds a flipped letter in a name.

Lists and tables of limits are JSON; arguments of exchanges, queues and bindings are the octets of
an AMQP field table, those of a binding in the order of their names, as they are part of its key.

WARNING: what a table holds, how a change becomes its row and how a row becomes a change are three
places of this module that must be changed together, with VERSION and a step in `UPGRADES`.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

import msgspec

from warren.protocol.value import sorted_table
from warren.security import Algorithm
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    Change,
    CursorDelete,
    CursorPut,
    ExchangePut,
    GlobalParameterDelete,
    GlobalParameterPut,
    ParameterDelete,
    ParameterPut,
    PermissionDelete,
    PermissionPut,
    PolicyDelete,
    PolicyPut,
    QueuePut,
    TopicPermissionDelete,
    TopicPermissionPut,
    UserLimitsPut,
    UserPut,
    VHostLimitsPut,
    VHostPut,
    decoded,
    encoded,
)

APPLICATION: Final = 0x57524E31
VERSION: Final = 4
# From a version to the statements that make the next one of it. `row_crc` is `checksum`; a row
# whose checksum was wrong keeps a wrong one.
UPGRADES: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        # Queues know their incarnation; 0 is given one with the next start.
        1: (
            "CREATE TABLE queue_2 (vhost TEXT NOT NULL, name TEXT NOT NULL, "
            "auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL, incarnation INTEGER NOT NULL, "
            "crc INTEGER NOT NULL, PRIMARY KEY (vhost, name)) WITHOUT ROWID",
            "INSERT INTO queue_2 SELECT vhost, name, auto_delete, arguments, 0, "
            "CASE WHEN crc = row_crc(vhost, name, auto_delete, arguments) "
            "THEN row_crc(vhost, name, auto_delete, arguments, 0) ELSE -1 END FROM queue",
            "DROP TABLE queue",
            "ALTER TABLE queue_2 RENAME TO queue",
        ),
        # So do exchanges; only those that delay messages are given one.
        2: (
            "CREATE TABLE exchange_3 (vhost TEXT NOT NULL, name TEXT NOT NULL, "
            "kind TEXT NOT NULL, auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL, "
            "arguments BLOB NOT NULL, incarnation INTEGER NOT NULL, "
            "crc INTEGER NOT NULL, PRIMARY KEY (vhost, name)) WITHOUT ROWID",
            "INSERT INTO exchange_3 SELECT vhost, name, kind, auto_delete, internal, arguments, 0, "
            "CASE WHEN crc = row_crc(vhost, name, kind, auto_delete, internal, arguments) "
            "THEN row_crc(vhost, name, kind, auto_delete, internal, arguments, 0) ELSE -1 END "
            "FROM exchange",
            "DROP TABLE exchange",
            "ALTER TABLE exchange_3 RENAME TO exchange",
        ),
        # Queues have cursors.
        3: (
            "CREATE TABLE cursor (vhost TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, "
            "seq INTEGER NOT NULL, epoch INTEGER NOT NULL, incarnation INTEGER NOT NULL, "
            "at_ms INTEGER NOT NULL, crc INTEGER NOT NULL, "
            "PRIMARY KEY (vhost, queue, name)) WITHOUT ROWID",
        ),
    }
)

Value = str | int | bytes
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One table: its key columns and the others, each with its type."""

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns but the checksum."""
        return tuple(column.partition(" ")[0] for column in (*self.key, *self.rest))

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.columns[: len(self.key)]

    def create(self) -> str:
        columns = ", ".join(f"{column} NOT NULL" for column in (*self.key, *self.rest))
        keys = ", ".join(self.key_columns)
        return (
            f"CREATE TABLE {self.name} ({columns}, crc INTEGER NOT NULL, "
            f"PRIMARY KEY ({keys})) WITHOUT ROWID"
        )


VHOST: Final = Table(
    "vhost", ("name TEXT",), ("description TEXT", "tags TEXT", "default_queue_type TEXT")
)
VHOST_LIMIT: Final = Table("vhost_limit", ("vhost TEXT",), ("limits TEXT",))
USER: Final = Table("user", ("name TEXT",), ("password_hash TEXT", "algorithm TEXT", "tags TEXT"))
USER_LIMIT: Final = Table("user_limit", ("user TEXT",), ("limits TEXT",))
PERMISSION: Final = Table(
    "permission", ("vhost TEXT", "user TEXT"), ("configure TEXT", "write TEXT", "read TEXT")
)
TOPIC_PERMISSION: Final = Table(
    "topic_permission",
    ("vhost TEXT", "user TEXT", "exchange TEXT"),
    ("write TEXT", "read TEXT"),
)
GLOBAL_PARAMETER: Final = Table("global_parameter", ("name TEXT",), ("value BLOB",))
PARAMETER: Final = Table(
    "parameter", ("vhost TEXT", "component TEXT", "name TEXT"), ("value BLOB",)
)
POLICY: Final = Table(
    "policy",
    ("vhost TEXT", "operator INTEGER", "name TEXT"),
    ("pattern TEXT", "apply_to TEXT", "priority INTEGER", "definition BLOB"),
)
EXCHANGE: Final = Table(
    "exchange",
    ("vhost TEXT", "name TEXT"),
    (
        "kind TEXT",
        "auto_delete INTEGER",
        "internal INTEGER",
        "arguments BLOB",
        "incarnation INTEGER",
    ),
)
QUEUE: Final = Table(
    "queue",
    ("vhost TEXT", "name TEXT"),
    ("auto_delete INTEGER", "arguments BLOB", "incarnation INTEGER"),
)
CURSOR: Final = Table(
    "cursor",
    ("vhost TEXT", "queue TEXT", "name TEXT"),
    ("seq INTEGER", "epoch INTEGER", "incarnation INTEGER", "at_ms INTEGER"),
)
BINDING: Final = Table(
    "binding",
    (
        "vhost TEXT",
        "to_queue INTEGER",
        "destination TEXT",
        "source TEXT",
        "routing_key TEXT",
        "arguments BLOB",
    ),
)

# In the order in which they are read at the start: what is stood on first, and policies before
# what they apply to.
TABLES: Final = (
    VHOST,
    VHOST_LIMIT,
    USER,
    USER_LIMIT,
    PERMISSION,
    TOPIC_PERMISSION,
    GLOBAL_PARAMETER,
    PARAMETER,
    POLICY,
    EXCHANGE,
    QUEUE,
    CURSOR,
    BINDING,
)
# Bindings are found by their destination through the key, by their source through this.
INDEX: Final = "CREATE INDEX binding_source ON binding (vhost, source)"


def schema() -> tuple[str, ...]:
    """Return the statements that make an empty file a metadata file."""
    return (
        f"PRAGMA application_id = {APPLICATION}",
        f"PRAGMA user_version = {VERSION}",
        *(table.create() for table in TABLES),
        INDEX,
    )


def checksum(row: Row) -> int:
    return zlib.crc32(msgspec.msgpack.encode(row))


# -- a change to its row ---------------------------------------------------------------------------


def row_of(change: Change) -> tuple[Table, Row] | None:
    """Return where a put is stored and as what; None when the change is a deletion."""
    match change:
        case BindingPut():
            return BINDING, _binding(change)
        case QueuePut(vhost=vhost, name=name):
            return QUEUE, (
                vhost,
                name,
                int(change.auto_delete),
                change.arguments,
                change.incarnation,
            )
        case ExchangePut(vhost=vhost, name=name):
            flags = int(change.auto_delete), int(change.internal)
            rest = change.arguments, change.incarnation
            return EXCHANGE, (vhost, name, change.kind, *flags, *rest)
        case CursorPut(vhost=vhost, queue=queue, name=name):
            where = change.seq, change.epoch, change.incarnation, change.at_ms
            return CURSOR, (vhost, queue, name, *where)
        case ParameterPut(vhost=vhost, component=component, name=name):
            return PARAMETER, (vhost, component, name, change.value)
        case GlobalParameterPut(name=name, value=value):
            return GLOBAL_PARAMETER, (name, value)
        case PolicyPut(vhost=vhost, name=name):
            terms = change.pattern, change.apply_to, change.priority, change.definition
            return POLICY, (vhost, int(change.operator), name, *terms)
        case VHostPut(name=name):
            tags = _json(change.tags)
            return VHOST, (name, change.description, tags, change.default_queue_type)
        case _:
            return _user_row(change)


def _user_row(change: Change) -> tuple[Table, Row] | None:
    match change:
        case UserPut(name=name):
            return USER, (name, change.password_hash, change.algorithm, _json(change.tags))
        case PermissionPut(user=user, vhost=vhost):
            return PERMISSION, (vhost, user, change.configure, change.write, change.read)
        case TopicPermissionPut(user=user, vhost=vhost, exchange=exchange):
            return TOPIC_PERMISSION, (vhost, user, exchange, change.write, change.read)
        case VHostLimitsPut(vhost=vhost, limits=limits) if limits:
            return VHOST_LIMIT, (vhost, _json(limits))
        case UserLimitsPut(user=user, limits=limits) if limits:
            return USER_LIMIT, (user, _json(limits))
        case _:
            return None


def key_of(change: Change) -> tuple[Table, Row] | None:
    """Return the one row that a deletion takes away; None when it takes more than a row."""
    match change:
        case BindingDelete():
            return BINDING, _binding(change)
        case CursorDelete(vhost=vhost, queue=queue, name=name):
            return CURSOR, (vhost, queue, name)
        case ParameterDelete(vhost=vhost, component=component, name=name):
            return PARAMETER, (vhost, component, name)
        case GlobalParameterDelete(name=name):
            return GLOBAL_PARAMETER, (name,)
        case PolicyDelete(vhost=vhost, name=name, operator=operator):
            return POLICY, (vhost, int(operator), name)
        case PermissionDelete(user=user, vhost=vhost):
            return PERMISSION, (vhost, user)
        case TopicPermissionDelete(user=user, vhost=vhost, exchange=exchange):
            return TOPIC_PERMISSION, (vhost, user, exchange)
        case VHostLimitsPut(vhost=vhost):
            return VHOST_LIMIT, (vhost,)
        case UserLimitsPut(user=user):
            return USER_LIMIT, (user,)
        case _:
            return None


def _binding(change: BindingPut | BindingDelete) -> Row:
    arguments = change.arguments
    if arguments:
        arguments = encoded(sorted_table(decoded(arguments)))
    to_queue = int(change.to_queue)
    return (change.vhost, to_queue, change.destination, change.source, change.key, arguments)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# -- a row to its change ---------------------------------------------------------------------------


def change_of(table: Table, row: Row) -> Change:
    """Return the change that a row stands for.

    Raises ValueError (or a kind of it) when a value is none that was ever written.
    """
    texts = cast("tuple[str, ...]", row)
    change = _user_change(table, texts) if table in _OF_USERS else _topology_change(table, row)
    if isinstance(change, ExchangePut | QueuePut | BindingPut):
        decoded(change.arguments)
    return change


_OF_USERS: Final = (USER, USER_LIMIT, PERMISSION, TOPIC_PERMISSION)


def _user_change(table: Table, row: tuple[str, ...]) -> Change:
    if table is USER:
        name, hashed, algorithm, tags = row
        return UserPut(
            name=name,
            password_hash=hashed,
            algorithm=Algorithm(algorithm).value,
            tags=_texts(tags),
        )
    if table is USER_LIMIT:
        return UserLimitsPut(user=row[0], limits=_limits(row[1]))
    if table is PERMISSION:
        vhost, user, configure, write, read = row
        return PermissionPut(user=user, vhost=vhost, configure=configure, write=write, read=read)
    vhost, user, exchange, write, read = row
    return TopicPermissionPut(user=user, vhost=vhost, exchange=exchange, write=write, read=read)


def _topology_change(table: Table, row: Row) -> Change:
    texts = cast("tuple[str, ...]", row)
    octets = cast("tuple[bytes, ...]", row)
    match table.name:
        case "vhost":
            name, description, tags, kind = texts
            return VHostPut(
                name=name, description=description, tags=_texts(tags), default_queue_type=kind
            )
        case "vhost_limit":
            return VHostLimitsPut(vhost=texts[0], limits=_limits(texts[1]))
        case "global_parameter":
            return GlobalParameterPut(name=texts[0], value=octets[1])
        case "parameter":
            return ParameterPut(vhost=texts[0], component=texts[1], name=texts[2], value=octets[3])
        case "policy":
            return PolicyPut(
                vhost=texts[0],
                operator=bool(row[1]),
                name=texts[2],
                pattern=texts[3],
                apply_to=texts[4],
                priority=cast("int", row[5]),
                definition=octets[6],
            )
        case "exchange":
            return ExchangePut(
                vhost=texts[0],
                name=texts[1],
                kind=texts[2],
                durable=True,
                auto_delete=bool(row[3]),
                internal=bool(row[4]),
                arguments=octets[5],
                incarnation=cast("int", row[6]),
            )
        case "cursor":
            return _cursor(row)
        case "queue":
            return QueuePut(
                vhost=texts[0],
                name=texts[1],
                durable=True,
                auto_delete=bool(row[2]),
                arguments=octets[3],
                incarnation=cast("int", row[4]),
            )
        case _:
            return BindingPut(
                vhost=texts[0],
                to_queue=bool(row[1]),
                destination=texts[2],
                source=texts[3],
                key=texts[4],
                arguments=octets[5],
            )


def _cursor(row: Row) -> CursorPut:
    vhost, queue, name = cast("tuple[str, str, str]", row[:3])
    seq, epoch, incarnation, at_ms = cast("tuple[int, int, int, int]", row[3:7])
    return CursorPut(
        vhost=vhost,
        queue=queue,
        name=name,
        seq=seq,
        epoch=epoch,
        incarnation=incarnation,
        at_ms=at_ms,
    )


_TEXTS: Final = msgspec.json.Decoder(tuple[str, ...])
_LIMITS: Final = msgspec.json.Decoder(dict[str, int])


def _texts(written: str) -> tuple[str, ...]:
    return _TEXTS.decode(written)


def _limits(written: str) -> dict[str, int]:
    return _LIMITS.decode(written)
