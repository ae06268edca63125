"""Verbs about virtual hosts: their tags, limits, tracing."""

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import OK, failed
from warren.cli.ctl.link import RefusedError
from warren.cli.ctl.lists import chosen, listed
from warren.cli.ctl.parameters import definition
from warren.cli.ctl.term import compact


def add_vhost(call: Call) -> None:
    vhost = call.arguments[0]
    call.banner(f'Adding vhost "{vhost}" ...')
    assert call.link is not None
    try:
        call.link.ask(
            "add_vhost",
            vhost=vhost,
            description=call.options.get("description", ""),
            tags=[tag.strip() for tag in call.options.get("tags", "").split(",") if tag.strip()],
            default_queue_type=call.options.get("default-queue-type", ""),
        )
    except RefusedError as refusal:
        # A script that adds what it needs may run again.
        if refusal.code != "exists":
            raise failed(refusal.message) from None
    call.done()


def delete_vhost(call: Call) -> None:
    vhost = call.arguments[0]
    call.banner(f'Deleting vhost "{vhost}" ...')
    call.ask("delete_vhost", vhost=vhost)
    call.done()


def list_vhosts(call: Call) -> None:
    listed(call, "Listing vhosts ...", "list_vhosts", chosen(call, ("name",)))


def set_vhost_tags(call: Call) -> None:
    vhost, *tags = call.arguments
    call.banner(f'Setting tags for virtual host "{vhost}" to [{", ".join(tags)}] ...')
    call.ask("set_vhost_tags", vhost=vhost, tags=tags)
    call.done()


def set_vhost_limits(call: Call) -> None:
    limits = call.arguments[0]
    call.banner(f'Setting vhost limits to "{limits}" for vhost "{call.vhost}" ...')
    call.ask("set_vhost_limits", vhost=call.vhost, definition=definition(limits))
    call.done()


def clear_vhost_limits(call: Call) -> None:
    call.banner(f'Clearing vhost "{call.vhost}" limits ...')
    call.ask("clear_vhost_limits", vhost=call.vhost)
    call.done()


def list_vhost_limits(call: Call) -> int:
    if call.flag("global"):
        call.banner("Listing limits for all vhosts ...")
        columns = ("vhost", "limits")
        call.table(columns, call.rows("list_vhost_limits", columns=columns))
        return OK
    call.banner(f'Listing limits for vhost "{call.vhost}" ...')
    found = call.rows("list_vhost_limits", vhost=call.vhost, columns=("limits",))
    limits = [row[0] for row in found if row[0]]
    print(compact(limits[0]) if limits else "[]" if call.formatter == "json" else "")
    return OK


def restart_vhost(call: Call) -> None:
    call.banner(f"Trying to restart vhost '{call.vhost}' on node '{call.name}' ...")
    print(f"Vhost '{call.vhost}' is already running on node '{call.name}'")


def trace_on(call: Call) -> None:
    call.banner(f'Starting tracing for vhost "{call.vhost}" ...')
    call.ask("trace_on", vhost=call.vhost)
    call.done(f"Trace enabled for vhost {call.vhost}")


def trace_off(call: Call) -> None:
    call.banner(f'Stopping tracing for vhost "{call.vhost}" ...')
    call.ask("trace_off", vhost=call.vhost)
    call.done(f"Trace disabled for vhost {call.vhost}")
