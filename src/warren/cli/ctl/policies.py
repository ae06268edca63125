"""Verbs about policies and operator policies."""

from warren.cli.ctl.call import Call
from warren.cli.ctl.parameters import definition

COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


def set_policy(call: Call) -> None:
    _set(call, "set_policy", "policy")


def set_operator_policy(call: Call) -> None:
    _set(call, "set_operator_policy", "operator policy override")


def _set(call: Call, command: str, noun: str) -> None:
    name, pattern, written = call.arguments
    priority = call.options.get("priority", "0")
    call.banner(
        f'Setting {noun} "{name}" for pattern "{pattern}" to "{written}" with priority '
        f'"{priority}" for vhost "{call.vhost}" ...'
    )
    call.ask(
        command,
        vhost=call.vhost,
        name=name,
        pattern=pattern,
        definition=definition(written),
        priority=int(priority),
        apply_to=call.options.get("apply-to", "all"),
    )
    call.done()


def clear_policy(call: Call) -> None:
    _clear(call, "clear_policy", "policy")


def clear_operator_policy(call: Call) -> None:
    _clear(call, "clear_operator_policy", "operator policy")


def _clear(call: Call, command: str, noun: str) -> None:
    name = call.arguments[0]
    call.banner(f'Clearing {noun} "{name}" on vhost "{call.vhost}" ...')
    call.ask(command, vhost=call.vhost, name=name)
    call.done()


def list_policies(call: Call) -> None:
    _list(call, "list_policies", "policies")


def list_operator_policies(call: Call) -> None:
    _list(call, "list_operator_policies", "operator policy overrides")


def _list(call: Call, command: str, noun: str) -> None:
    call.banner(f'Listing {noun} for vhost "{call.vhost}" ...')
    call.table(COLUMNS, call.rows(command, vhost=call.vhost, columns=COLUMNS))
