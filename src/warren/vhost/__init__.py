"""Vhosts: the model that joins routing, queues, users and limits, and its changes.

Must never know sessions, sockets or frames; refusals are `AmqpError`s.
Start reading at `broker.py`, then `vhost.py`.
"""

from warren.vhost.broker import Broker
from warren.vhost.metadata import Metadata
from warren.vhost.policy import ApplyTo, Policy, PolicyError
from warren.vhost.policy_book import PolicyBook
from warren.vhost.policy_check import as_definition, checked, read_definition
from warren.vhost.reply_address import PREFIX, PSEUDO_QUEUE, ReplyAddress
from warren.vhost.usage import Usage
from warren.vhost.vhost import VHost

__all__ = [
    "PREFIX",
    "PSEUDO_QUEUE",
    "ApplyTo",
    "Broker",
    "Metadata",
    "Policy",
    "PolicyBook",
    "PolicyError",
    "ReplyAddress",
    "Usage",
    "VHost",
    "as_definition",
    "checked",
    "read_definition",
]
