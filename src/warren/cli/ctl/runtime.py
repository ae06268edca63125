"""Verbs that change a running node until it stops."""

import re
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import DATA, Misuse
from warren.core.octets import OctetsError, read_octets

_FRACTION: Final = re.compile(r"-?\d+(\.\d+)?([eE]-?\d+)?\Z")
_RANGE: Final = "Bad argument: The threshold should be a fraction between 0.0 and 1.0"


def size(written: str) -> int:
    """Return octets written with a unit (O-1.11)."""
    try:
        return read_octets(written)
    except OctetsError as refusal:
        reason = f": {refusal}" if str(refusal) else "."
        raise Misuse(f"Bad argument{reason}", DATA) from None


def fraction(written: str) -> float:
    if not _FRACTION.match(written):
        raise Misuse("Bad argument.", DATA)
    return float(written)


def set_vm_memory_high_watermark(call: Call) -> None:
    first, *rest = call.arguments
    if first == "absolute":
        _one_more(rest)
        octets = size(rest[0])
        if octets == 0:
            raise Misuse("Bad argument.", DATA)
        call.banner(f"Setting memory threshold on {call.name} to {rest[0]} bytes ...")
        call.ask("set_vm_memory_high_watermark", absolute=octets)
    else:
        if rest:
            raise Misuse("too many arguments.")
        share = fraction(first)
        if share < 0.0 or (share > 1.0 and not _assumed(call)):
            raise Misuse(_RANGE, DATA)
        call.banner(f"Setting memory threshold on {call.name} to {first} ...")
        call.ask("set_vm_memory_high_watermark", relative=share)
    call.done()


def set_disk_free_limit(call: Call) -> None:
    first, *rest = call.arguments
    if first == "mem_relative":
        _one_more(rest)
        share = fraction(rest[0])
        if share < 0:
            raise Misuse("Bad argument.", DATA)
        call.banner(f"Setting disk free limit on {call.name} to {rest[0]} times the total RAM ...")
        call.ask("set_disk_free_limit", relative=share)
    else:
        if rest:
            raise Misuse("too many arguments.")
        octets = size(first)
        call.banner(f"Setting disk free limit on {call.name} to {first} bytes ...")
        call.ask("set_disk_free_limit", absolute=octets)
    call.done()


def _one_more(rest: list[str]) -> None:
    if len(rest) != 1:
        raise Misuse("not enough arguments." if not rest else "too many arguments.")


def _assumed(call: Call) -> bool:
    """Whether nobody knows the node's memory: then more than all of it is no mistake (MA-9)."""
    found = call.ask("status")
    return isinstance(found, dict) and bool(found.get("memory_total_assumed"))


def set_log_level(call: Call) -> None:
    level = call.arguments[0]
    call.banner(f'Setting log level to "{level}" ...')
    call.ask("set_log_level", level=level)
    call.done()


def force_gc(call: Call) -> None:
    call.banner(f"Will have node {call.name} run its cycle collector")
    call.ask("force_gc")
    call.done()


def suspend_listeners(call: Call) -> None:
    call.banner(
        f"Will suspend client connection listeners on node {call.name}. "
        "The node will no longer accept client connections!"
    )
    call.ask("suspend_listeners")
    call.done()


def resume_listeners(call: Call) -> None:
    call.banner(
        f"Will resume client connection listeners on node {call.name}. "
        "The node will now accept client connections"
    )
    call.ask("resume_listeners")
    call.done()
