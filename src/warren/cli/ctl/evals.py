"""The expressions of `eval` that test suites use, recognised by their form. Nothing is evaluated.

application:set_env(rabbit, channel_max, N).
application:set_env(rabbit, loopback_users, [<<"guest">>]).
rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).
rabbit_alarm:clear_alarm({resource_limit, disk, node()}).
"""

import re
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import Misuse

_ENV: Final = re.compile(r"application:set_env\(rabbit,(\w+),(.+?)(?:,\[.*\])?\)")
_SET: Final = re.compile(r"rabbit_alarm:set_alarm\(\{\{resource_limit,(memory|disk),.+\},\[\]\}\)")
_CLEAR: Final = re.compile(r"rabbit_alarm:clear_alarm\(\{resource_limit,(memory|disk),.+\}\)")
_NAME: Final = re.compile(r'(?:<<)?"([^"\\]*)"(?:>>)?|\'([^\'\\]*)\'|([a-z]\w*)')
_LIST: Final = re.compile(r"\[(?:[^,\[\]]+(?:,[^,\[\]]+)*)?\]")


def evaluate(call: Call) -> None:
    written = call.arguments[0].strip()
    # Spaces mean nothing, except in names, of which these forms have none with spaces.
    bare = re.sub(r"\s+", "", written).rstrip(".")
    known = _alarm(call, bare) or _setting(call, bare)
    if not known:
        raise Misuse(
            "this node evaluates no expressions; those it knows set channel_max, loopback_users, "
            "and alarms"
        )
    print("ok")


def _alarm(call: Call, bare: str) -> bool:
    for form, command in ((_SET, "set_alarm"), (_CLEAR, "clear_alarm")):
        found = form.fullmatch(bare)
        if found is not None:
            call.ask(command, source=found[1])
            return True
    return False


def _setting(call: Call, bare: str) -> bool:
    found = _ENV.fullmatch(bare)
    if found is None:
        return False
    name, value = found[1], found[2]
    if name == "channel_max" and value.isdecimal():
        call.ask("set_channel_max", channel_max=int(value))
        return True
    if name == "loopback_users" and _LIST.fullmatch(value):
        names = value[1:-1].split(",") if len(value) > 2 else []
        matches = [_NAME.fullmatch(one) for one in names]
        users = ["".join(one.groups("")) for one in matches if one is not None]
        if len(users) == len(names):
            call.ask("set_loopback_users", users=users)
            return True
    return False
