"""RabbitMQ's names that are not plain synonyms: listeners, numbered lists, TLS verification.

Plain synonyms stand in the table of settings. `listeners.tcp.NAME` are addresses: the first of a
source becomes `bind` and `port`, further ones `extra_listeners`; a port alone means all IPv4
addresses, as it does in RabbitMQ. `auth_mechanisms.N` and `ssl_options.versions.N` are one list
each, in the order of their numbers. `ssl_options.verify` and `ssl_options.fail_if_no_peer_cert`
together are `tls_verify`. Spec rules O-2.5, O-2.6.
"""

from collections.abc import Callable, Sequence
from typing import Final

from warren.server.config_entry import Entry, Problem
from warren.server.setting import read_address, read_flag

ALL_ADDRESSES: Final = "0.0.0.0"
_LISTENERS: Final = {
    "listeners.tcp": ("bind", "port", "extra_listeners"),
    "listeners.ssl": ("tls_bind", "tls_port", "tls_extra_listeners"),
}


# Lists that are written one element a line, with a number behind the name.
_LISTS: Final = {"auth_mechanisms": "auth_mechanisms", "ssl_options.versions": "tls_versions"}


def gather(entries: Sequence[Entry], problems: list[Problem]) -> list[Entry]:
    """Replace the listeners and numbered lists of one source by the settings they mean."""
    kept: list[Entry] = []
    listeners: dict[str, list[Entry]] = {}
    lists: dict[str, list[tuple[int, Entry]]] = {}
    for entry in entries:
        group = ".".join(entry.name.split(".")[:2])
        head, _, number = entry.name.rpartition(".")
        if group in _LISTENERS:
            listeners.setdefault(group, []).append(entry)
        elif head in _LISTS and number.isdecimal():
            lists.setdefault(head, []).append((int(number), entry))
        else:
            kept.append(entry)
    meant: list[Entry] = []
    for group, members in listeners.items():
        meant += _listeners(group, members, problems)
    for head, numbered in lists.items():
        ordered = [entry for _, entry in sorted(numbered, key=lambda one: one[0])]
        value = ",".join(str(entry.value) for entry in ordered)
        meant.append(Entry(_LISTS[head], value, ordered[0].where))
    # In front, so that `bind` and `port` of the same source have the last word.
    return meant + kept


def _listeners(group: str, entries: list[Entry], problems: list[Problem]) -> list[Entry]:
    bind, port, extra = _LISTENERS[group]
    found: list[tuple[Entry, str, int]] = []
    nowhere: list[Entry] = []
    for entry in entries:
        if entry.name == group:
            if str(entry.value).lower() == "none":
                nowhere.append(entry)
            else:
                reason = f"expected none, or {group}.default = port"
                problems.append(Problem(entry.where, entry.name, reason, f"{group}.default"))
            continue
        try:
            found.append((entry, *read_address(str(entry.value), bind=ALL_ADDRESSES)))
        except ValueError as refusal:
            problems.append(Problem(entry.where, entry.name, str(refusal), ""))
    if not found:
        # No TLS listener is what there is without a certificate anyway.
        return [Entry(port, "none", one.where) for one in nowhere if port == "port"]
    first, host, number = found[0]
    meant = [Entry(bind, host, first.where), Entry(port, str(number), first.where)]
    if len(found) > 1:
        further = [f"[{one}]:{at}" if ":" in one else f"{one}:{at}" for _, one, at in found[1:]]
        meant.append(Entry(extra, ",".join(further), found[1][0].where))
    return meant


def translate(entry: Entry, current: Callable[[str], object]) -> tuple[str, object]:
    """Return (setting, value) for a name that depends on a setting's value so far; or KeyError."""
    verify = current("tls_verify")
    if entry.name == "ssl_options.verify":
        if entry.value == "verify_none":
            return "tls_verify", "none"
        if entry.value == "verify_peer":
            return "tls_verify", "required" if verify == "required" else "optional"
        raise ValueError(f"expected verify_peer or verify_none, got {entry.value!r}")
    if entry.name == "ssl_options.fail_if_no_peer_cert":
        if read_flag(entry.value, entry.typed):
            return "tls_verify", "required"
        return "tls_verify", "optional" if verify == "required" else verify
    raise KeyError(entry.name)
