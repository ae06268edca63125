"""Policies as values: what somebody has set, before it is matched with anything (spec section 8).

A `Policy` was checked (`policy_check`) and never changes; setting it again makes another one. Two
kinds live side by side in a vhost, each with its own names: policies, and operator policies, which
bound what policies and arguments ask for (PO-4, PO-7).

`definition` is what JSON gave: keys of `policy_key.KEYS` to values. Nobody may change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

Definition = Mapping[str, object]

NOTHING: Final[Definition] = {}


class ApplyTo(StrEnum):
    """What a policy is matched with (PO-1)."""

    QUEUES = "queues"
    EXCHANGES = "exchanges"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy or operator policy."""

    vhost: str
    name: str
    # A regular expression, searched in names; the empty one is found in every name.
    pattern: str
    definition: Definition
    priority: int = 0
    apply_to: ApplyTo = ApplyTo.ALL
    operator: bool = False

    def order(self) -> tuple[int, str]:
        """The key that sorts policies: the higher priority first, ties by name (PO-1)."""
        return -self.priority, self.name


class PolicyError(Exception):
    """A policy that was refused; the text is RabbitMQ's (PO-10)."""
