"""Verbs that change a running node until it stops."""

import re
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import DATA, Misuse

_FRACTION: Final = re.compile(r"-?\d+(\.\d+)?([eE]-?\d+)?\Z")
_SIZE: Final = re.compile(r"(\d+)\s*([A-Za-z]*)\Z")
_UNITS: Final = {
    "": 1,
    "k": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mib": 1 << 20,
    "g": 1 << 30,
    "gib": 1 << 30,
    "t": 1 << 40,
    "tib": 1 << 40,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
}


def size(written: str) -> int:
    """Return octets written with a unit (O-1.11)."""
    found = _SIZE.match(written)
    if found is None:
        raise Misuse("Bad argument.", DATA)
    unit = _UNITS.get(found[2].lower())
    if unit is None:
        raise Misuse("Bad argument: Invalid units.", DATA)
    return int(found[1]) * unit


def fraction(written: str) -> float:
    if not _FRACTION.match(written):
        raise Misuse("Bad argument.", DATA)
    return float(written)


def set_vm_memory_high_watermark(call: Call) -> None:
    first, *rest = call.arguments
    if first == "absolute":
        if not rest:
            raise Misuse("not enough arguments.")
        octets = size(rest[0])
        call.banner(f"Setting memory threshold on {call.name} to {rest[0]} bytes ...")
        call.ask("set_vm_memory_high_watermark", absolute=octets)
    else:
        if rest:
            raise Misuse("too many arguments.")
        share = fraction(first)
        if not 0.0 <= share <= 1.0:
            text = "Bad argument: The threshold should be a fraction between 0.0 and 1.0"
            raise Misuse(text, DATA)
        call.banner(f"Setting memory threshold on {call.name} to {first} ...")
        call.ask("set_vm_memory_high_watermark", relative=share)
    call.done()


def set_disk_free_limit(call: Call) -> None:
    first, *rest = call.arguments
    if first == "mem_relative":
        if not rest:
            raise Misuse("not enough arguments.")
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
