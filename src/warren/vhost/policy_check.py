"""What makes a policy: its parts are checked and refused with RabbitMQ's texts (PO-7, PO-10).

`read_definition` takes JSON as text, `checked` what JSON gave. All that is wrong with the parts is
told at once, of a definition the first thing.
"""

import json
from typing import Final, cast

from warren.protocol.value import binary_text
from warren.security.pattern import Pattern, PatternError
from warren.vhost.policy import ApplyTo, Definition, Policy, PolicyError
from warren.vhost.policy_key import KEYS, Group, is_count, is_positive

# A store may keep it in eight octets.
_PRIORITY_MAX: Final = 2**63 - 1
# Deeper values are no settings, and printing one must not end in a RecursionError.
_DEPTH_MAX: Final = 32

_SYNC_MODES: Final = ("manual", "automatic")
_PROMOTIONS: Final = ("always", "when-synced")


def read_definition(text: str) -> Definition:
    """Read a definition as it is typed at a command line."""
    try:
        read: object = json.loads(text, parse_constant=_no_constant)
        # Half of a surrogate pair is no character: it could neither be stored nor shown.
        json.dumps(read, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as failure:
        raise PolicyError(f"JSON decoding error. Reason: {failure}") from None
    return as_definition(read)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def as_definition(value: object) -> Definition:
    """Take what JSON gave, if it is an object."""
    if not isinstance(value, dict):
        raise _refusal([f"definition must be a dictionary: {term(value)}"])
    return cast("Definition", value)


def checked(
    *,
    vhost: str,
    name: str,
    pattern: str,
    definition: Definition,
    priority: int = 0,
    apply_to: str = ApplyTo.ALL,
    operator: bool = False,
) -> Policy:
    """Return the policy that these parts make, or raise `PolicyError`."""
    wrong = [_wrong_definition(definition, operator=operator)]
    if apply_to not in list(ApplyTo):
        wrong.append(
            f"apply-to '{apply_to}' unrecognised; should be 'queues', 'exchanges' or 'all'"
        )
    try:
        Pattern(pattern)
    except PatternError as refusal:
        wrong.append(f"pattern should be regular expression but is invalid: {refusal.detail}")
    if abs(priority) > _PRIORITY_MAX:
        wrong.append(f"priority should be between -{_PRIORITY_MAX} and {_PRIORITY_MAX}")
    found = [text for text in wrong if text]
    if found:
        raise _refusal(found)
    return Policy(
        vhost=vhost,
        name=name,
        pattern=pattern,
        definition=definition,
        priority=priority,
        apply_to=ApplyTo(apply_to),
        operator=operator,
    )


def _refusal(wrong: list[str]) -> PolicyError:
    return PolicyError("Validation failed\n\n" + "".join(f"{text}\n" for text in wrong))


def _wrong_definition(definition: Definition, *, operator: bool) -> str:
    """Say the first thing that is wrong with a definition; empty if nothing is."""
    if not definition:
        return "no policy provided"
    known = {name for name in definition if name in KEYS and (KEYS[name].operator or not operator)}
    for name, key in KEYS.items():
        if name in known and not key.check(definition[name]):
            return f"{term(definition[name])} {key.complaint}"
    if any(KEYS[name].group is Group.MIRRORING for name in known):
        wrong = _wrong_mirroring(definition)
        if wrong:
            return wrong
    unknown = ",".join(
        f"{{{term(name)},{term(definition[name])}}}" for name in sorted(definition.keys() - known)
    )
    return f"[{unknown}] are not recognised policy settings" if unknown else ""


def _wrong_mirroring(definition: Definition) -> str:
    if "ha-mode" not in definition:
        return (
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        )
    wrong = _wrong_mode(definition["ha-mode"], definition.get("ha-params"))
    if wrong:
        return wrong
    size = definition.get("ha-sync-batch-size", 1)
    if not is_positive(size):
        return f"ha-sync-batch-size takes an integer greater than 0, {term(size)} given"
    for key, words in (
        ("ha-sync-mode", _SYNC_MODES),
        ("ha-promote-on-shutdown", _PROMOTIONS),
        ("ha-promote-on-failure", _PROMOTIONS),
    ):
        value = definition.get(key, words[0])
        if value not in words:
            return f'{key} must be "{words[0]}" or "{words[1]}", got {term(value)}'
    return ""


def _wrong_mode(mode: object, given: object) -> str:
    shown = "none" if given is None else term(given)
    if mode == "all":
        return "" if given is None else 'ha-mode="all" does not take parameters'
    if mode == "exactly":
        taken = is_count(given) and given != 0
        return "" if taken else f'ha-mode="exactly" takes an integer, {shown} given'
    if mode == "nodes":
        if not isinstance(given, list):
            return f'ha-mode="nodes" takes a list, {shown} given'
        if not given:
            return 'ha-mode="nodes" list must be non-empty'
        others = [one for one in cast("list[object]", given) if not isinstance(one, str)]
        if others:
            return f'ha-mode="nodes" takes a list of strings, {term(others)} was not a string'
        return ""
    return f"{term(mode)} is not a valid ha-mode value"


def term(value: object, depth: int = 0) -> str:
    """Write a value of JSON as RabbitMQ prints it."""
    if depth > _DEPTH_MAX:
        return "..."
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return binary_text(value.encode())
    if isinstance(value, list):
        items = cast("list[object]", value)
        return "[" + ",".join(term(one, depth + 1) for one in items) + "]"
    if isinstance(value, dict):
        pairs = sorted(cast("dict[str, object]", value).items())
        shown = (f"{term(key)} => {term(one, depth + 1)}" for key, one in pairs)
        return "#{" + ",".join(shown) + "}"
    return str(value)
