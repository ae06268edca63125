"""Routing: exchanges, bindings, and which queues a message goes to.

Owns one `RoutingTable` per vhost and the exchange types. Must never know what a queue is (a `Sink`
holds it as `target`), check permissions, persist anything, or touch the machine.
Start reading at `node.py`, then `table.py`; each exchange type has its module.
"""

from warren.routing.exchange import Exchange
from warren.routing.keeper import ExchangeKeeper
from warren.routing.kinds import KINDS, check_kind
from warren.routing.listing import (
    BindingRow,
    BindingScan,
    bindings_between,
    bindings_from,
    bindings_to_exchange,
    bindings_to_queue,
)
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Node, Reach, Sink
from warren.routing.refusal import (
    alternate_of,
    check_deletable,
    check_equivalent,
    check_not_default,
    check_not_reserved,
    check_publishable,
    check_unused,
    clean_name,
    exchange_label,
    no_exchange,
    no_queue,
    queue_label,
)
from warren.routing.table import SWEEP_SLICE, RoutingTable, Swept, predeclare

__all__ = [
    "KINDS",
    "SWEEP_SLICE",
    "Binding",
    "BindingRow",
    "BindingScan",
    "Exchange",
    "ExchangeKeeper",
    "Matcher",
    "Node",
    "Reach",
    "RoutingTable",
    "Sink",
    "Swept",
    "alternate_of",
    "bindings_between",
    "bindings_from",
    "bindings_to_exchange",
    "bindings_to_queue",
    "check_deletable",
    "check_equivalent",
    "check_kind",
    "check_not_default",
    "check_not_reserved",
    "check_publishable",
    "check_unused",
    "clean_name",
    "exchange_label",
    "no_exchange",
    "no_queue",
    "predeclare",
    "queue_label",
]
