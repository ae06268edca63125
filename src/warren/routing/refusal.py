"""Every refusal that has to do with exchanges and bindings, with RabbitMQ's texts (spec 3.2).

Functions named `check_...` raise `AmqpError`; the others build one. Permissions are the session's,
as is the order of checks; XC-3 and XC-4 say which check applies when.
"""

from typing import Final

from warren.core import AmqpError
from warren.core.reply import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED
from warren.protocol.value import LONG_STRING, Field, Table, kind_name, same_value, term_text
from warren.routing.exchange import Exchange

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
RESERVED_PREFIX: Final = "amq."


def exchange_label(name: str, vhost: str) -> str:
    """Return how reply texts name an exchange."""
    return f"exchange '{name}' in vhost '{vhost}'"


def queue_label(name: str, vhost: str) -> str:
    """Return how reply texts name a queue."""
    return f"queue '{name}' in vhost '{vhost}'"


def clean_name(name: str) -> str:
    """Return a name without the CR and LF that declare, delete and bind leave out (XC-4)."""
    return name.replace("\r", "").replace("\n", "")


def no_exchange(name: str, vhost: str) -> AmqpError:
    return AmqpError(NOT_FOUND, f"no {exchange_label(name, vhost)}")


def no_queue(name: str, vhost: str) -> AmqpError:
    return AmqpError(NOT_FOUND, f"no {queue_label(name, vhost)}")


def check_not_default(name: str) -> None:
    """Refuse to declare (also passively), delete, bind or unbind the default exchange (XC-2)."""
    if not name:
        raise AmqpError(ACCESS_REFUSED, "operation not permitted on the default exchange")


def check_not_reserved(name: str, *, what: str = "exchange") -> None:
    """Refuse a new name with the reserved prefix; only for creation (XC-3)."""
    if name.startswith(RESERVED_PREFIX):
        detail = f"{what} name '{name}' contains reserved prefix 'amq.*'"
        raise AmqpError(ACCESS_REFUSED, detail)


def check_deletable(name: str, vhost: str) -> None:
    """Refuse to delete a predeclared exchange, whether it exists or not."""
    if name.startswith(RESERVED_PREFIX):
        detail = f"deletion of system {exchange_label(name, vhost)} not allowed"
        raise AmqpError(ACCESS_REFUSED, detail)


def check_unused(exchange: Exchange, vhost: str) -> None:
    """Refuse to delete an exchange that has bindings from it (XC-6)."""
    if exchange.has_live_bindings():
        detail = f"{exchange_label(exchange.name, vhost)} in use"
        raise AmqpError(PRECONDITION_FAILED, detail)


def check_publishable(exchange: Exchange, vhost: str) -> None:
    """Refuse a publish to an internal exchange (XC-9)."""
    if exchange.internal:
        detail = f"cannot publish to internal {exchange_label(exchange.name, vhost)}"
        raise AmqpError(ACCESS_REFUSED, detail)


def alternate_of(arguments: Table, name: str, vhost: str) -> str | None:
    """Return the alternate exchange that the arguments name, None without one."""
    item = arguments.get(ALTERNATE_EXCHANGE)
    if item is None:
        return None
    value = item.value
    if int(item.kind) != LONG_STRING or not isinstance(value, bytes):
        kind = kind_name(int(item.kind))
        label = exchange_label(name, vhost)
        detail = f"invalid type '{kind}' for arg '{ALTERNATE_EXCHANGE}' in {label}"
        raise AmqpError(PRECONDITION_FAILED, detail)
    return value.decode("utf-8", "backslashreplace")


def check_equivalent(
    exchange: Exchange,
    vhost: str,
    *,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
) -> None:
    """Refuse to declare an existing exchange with other properties (XC-3)."""
    label = exchange_label(exchange.name, vhost)
    _check_same("type", label, received=kind, current=exchange.kind)
    _check_same("durable", label, received=_word(durable), current=_word(exchange.durable))
    _check_same(
        "auto_delete", label, received=_word(auto_delete), current=_word(exchange.auto_delete)
    )
    _check_same("internal", label, received=_word(internal), current=_word(exchange.internal))
    received = arguments.get(ALTERNATE_EXCHANGE)
    current = exchange.arguments.get(ALTERNATE_EXCHANGE)
    if same_value(received, current):
        return
    if received is None or current is None:
        raise _inequivalent(ALTERNATE_EXCHANGE, label, _typed(received), _typed(current))
    raise _inequivalent(
        ALTERNATE_EXCHANGE, label, f"'{term_text(received)}'", f"'{term_text(current)}'"
    )


def _check_same(argument: str, label: str, *, received: str, current: str) -> None:
    if received != current:
        raise _inequivalent(argument, label, f"'{received}'", f"'{current}'")


def _inequivalent(argument: str, label: str, received: str, current: str) -> AmqpError:
    detail = (
        f"inequivalent arg '{argument}' for {label}: received {received} but current is {current}"
    )
    return AmqpError(PRECONDITION_FAILED, detail)


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _typed(item: Field | None) -> str:
    if item is None:
        return "none"
    return f"the value '{term_text(item)}' of type '{kind_name(int(item.kind))}'"
