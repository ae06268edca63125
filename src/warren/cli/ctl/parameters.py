"""Verbs about parameters of virtual hosts and of the cluster."""

import json
from typing import cast

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import failed


def value(written: str) -> object:
    """Return JSON as a person wrote it."""
    try:
        return cast("object", json.loads(written))
    except ValueError:
        raise failed(f"JSON decoding error. Reason: {written!r} is no JSON") from None


def definition(written: str) -> dict[str, object]:
    """Return a JSON object."""
    found = value(written)
    if not isinstance(found, dict):
        raise failed("JSON decoding error. Reason: it is no object")
    return found


def set_parameter(call: Call) -> None:
    component, name, written = call.arguments
    call.banner(
        f'Setting runtime parameter "{name}" for component "{component}" to "{written}" '
        f'in vhost "{call.vhost}" ...'
    )
    call.ask(
        "set_parameter",
        vhost=call.vhost,
        component=component,
        name=name,
        value=json.dumps(value(written)),
    )
    call.done()


def clear_parameter(call: Call) -> None:
    component, name = call.arguments
    call.banner(
        f'Clearing runtime parameter "{name}" for component "{component}" on vhost '
        f'"{call.vhost}" ...'
    )
    call.ask("clear_parameter", vhost=call.vhost, component=component, name=name)
    call.done()


def list_parameters(call: Call) -> None:
    call.banner(f'Listing runtime parameters for vhost "{call.vhost}" ...')
    columns = ("component", "name", "value")
    call.table(columns, call.rows("list_parameters", vhost=call.vhost, columns=columns))


def set_global_parameter(call: Call) -> None:
    name, written = call.arguments
    call.banner(f'Setting global runtime parameter "{name}" to "{written}" ...')
    call.ask("set_global_parameter", name=name, value=json.dumps(value(written)))
    call.done()


def clear_global_parameter(call: Call) -> None:
    name = call.arguments[0]
    call.banner(f'Clearing global runtime parameter "{name}" ...')
    call.ask("clear_global_parameter", name=name)
    call.done()


def list_global_parameters(call: Call) -> None:
    call.banner("Listing global runtime parameters ...")
    columns = ("name", "value")
    call.table(columns, call.rows("list_global_parameters", columns=columns))


def set_cluster_name(call: Call) -> None:
    name = call.arguments[0]
    call.banner(f"Setting cluster name to {name} ...")
    call.ask("set_cluster_name", name=name)
    call.done()
