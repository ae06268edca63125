"""What policies, operator policies and arguments come to, key by key, and who decided (PO-4, PO-5).

Where policy and operator policy both set a number that bounds, the smaller one holds, and the
smaller one of that and the argument. Of the rest the argument wins over the policies, or they over
it, as `policy_key.KEYS` says. A key that nobody sets is in none of these tables.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, final

from warren.protocol.value import Field, Table
from warren.vhost.policy import Definition, Policy
from warren.vhost.policy_key import KEYS, Key, Merge

if TYPE_CHECKING:
    from warren.queues.rules import QueueRules


class Origin(StrEnum):
    """Who gave a key its value."""

    ARGUMENT = "argument"
    POLICY = "policy"
    OPERATOR_POLICY = "operator policy"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key in force: its value, who gave it, and the name of the policy if one did."""

    key: Key
    value: object
    origin: Origin
    policy: str = ""


Settings = dict[str, Setting]

_BY_ARGUMENT: Final = {key.argument: key for key in KEYS.values() if key.argument}


@final
class Applied:
    """The policies in force for one object, the deciding one first; at most one unless merged."""

    __slots__ = ("effective", "operator_policies", "plain_rules", "policies", "settings")

    def __init__(
        self,
        policies: tuple[Policy, ...] = (),
        operator_policies: tuple[Policy, ...] = (),
    ) -> None:
        self.policies = policies
        self.operator_policies = operator_policies
        self.settings = _merged(policies, operator_policies)
        # What policy and operator policy come to (PO-4).
        self.effective: Definition = {name: one.value for name, one in self.settings.items()}
        # The rules of queues without arguments under these policies, once there is one.
        self.plain_rules: QueueRules | None = None

    def same_as(self, other: "Applied") -> bool:
        """Whether the same policies, as they were set, are in force."""
        return self is other or (
            self.policies == other.policies and self.operator_policies == other.operator_policies
        )

    @property
    def policy(self) -> str:
        """The name of the policy, empty without one."""
        return self.policies[0].name if self.policies else ""

    @property
    def operator_policy(self) -> str:
        """The name of the operator policy, empty without one."""
        return self.operator_policies[0].name if self.operator_policies else ""


def _decided(policies: Iterable[Policy], origin: Origin) -> Settings:
    """Return each key as the first policy that has it sets it."""
    found: Settings = {}
    for policy in policies:
        for name, value in policy.definition.items():
            # A key of another version is kept with the policy and means nothing here.
            key = KEYS.get(name)
            if key is not None and name not in found:
                found[name] = Setting(key, value, origin, policy.name)
    return found


def _merged(policies: tuple[Policy, ...], operator_policies: tuple[Policy, ...]) -> Settings:
    found = _decided(policies, Origin.POLICY)
    for name, bound in _decided(operator_policies, Origin.OPERATOR_POLICY).items():
        asked = found.get(name)
        if asked is None or bound.key.merge is not Merge.SMALLER or _below(bound, asked):
            found[name] = bound
    return dict(sorted(found.items()))


def _below(one: Setting, other: Setting) -> bool:
    """Whether a bound is tighter; what is no number is none."""
    if not isinstance(one.value, int):
        return False
    return not isinstance(other.value, int) or one.value < other.value


NOT_APPLIED: Final = Applied()


def settings_of(applied: Applied, arguments: Table) -> Settings:
    """Return what is in force for a queue or an exchange with these arguments (PO-5)."""
    found = applied.settings
    for name, item in arguments.items():
        key = _BY_ARGUMENT.get(name)
        if key is None:
            continue
        value = _plain(item)
        if value is None or not key.check(value):
            continue
        given = Setting(key, value, Origin.ARGUMENT)
        asked = found.get(key.name)
        if asked is None or key.merge is Merge.ARGUMENT or _tighter(given, asked):
            found = found | {key.name: given}
    return found


def _tighter(given: Setting, asked: Setting) -> bool:
    return given.key.merge is Merge.SMALLER and _below(given, asked)


def _plain(item: Field) -> object:
    """Return the value of an argument as JSON would give it; None for what no key can be."""
    value = item.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_json(value: object) -> bytes:
    """Write a definition, or one of its values, as it is stored and shown; numbers may be large."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
