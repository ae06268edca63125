"""Verbs that list queues, exchanges, bindings, connections, channels, consumers."""

from itertools import chain

from warren.cli.ctl.call import Call


def chosen(call: Call, shown: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns asked for, by words or commas, each once."""
    names = [one for word in call.arguments for one in word.split(",") if one]
    return tuple(dict.fromkeys(names)) or shown


def listed(call: Call, banner: str, command: str, columns: tuple[str, ...], **args: object) -> None:
    """Print a list; the banner comes when the node knows the columns."""
    rows = call.rows(command, columns=columns, **args)
    first = next(rows, None)
    if banner:
        call.banner(banner)
    call.table(columns, rows if first is None else chain((first,), rows))


def list_queues(call: Call) -> None:
    columns = chosen(call, ("name", "messages"))
    seconds = call.timeout_s()
    wait = "infinity" if seconds is None else f"{seconds} seconds"
    banner = f"Timeout: {wait} ...\nListing queues for vhost {call.vhost} ..."
    if call.flag("offline") and not call.flag("online"):
        # Every queue of a node that answers is there.
        call.banner(banner)
        call.table(columns, ())
        return
    listed(call, banner, "list_queues", columns, vhost=call.vhost)


def list_unresponsive_queues(call: Call) -> None:
    """One loop serves all queues: if it answers, they do."""
    columns = chosen(call, ("name",))
    call.banner(f"Listing unresponsive queues for vhost {call.vhost} ...")
    call.table(columns, ())


def list_exchanges(call: Call) -> None:
    banner = f"Listing exchanges for vhost {call.vhost} ..."
    listed(call, banner, "list_exchanges", chosen(call, ("name", "type")), vhost=call.vhost)


def list_bindings(call: Call) -> None:
    shown = (
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "arguments",
    )
    banner = f"Listing bindings for vhost {call.vhost}..."
    listed(call, banner, "list_bindings", chosen(call, shown), vhost=call.vhost)


def list_connections(call: Call) -> None:
    columns = chosen(call, ("user", "peer_host", "peer_port", "state"))
    listed(call, "Listing connections ...", "list_connections", columns)


def list_channels(call: Call) -> None:
    columns = chosen(call, ("pid", "user", "consumer_count", "messages_unacknowledged"))
    listed(call, "Listing channels ...", "list_channels", columns)


def list_consumers(call: Call) -> None:
    shown = (
        "queue_name",
        "channel_pid",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "active",
        "arguments",
    )
    banner = f"Listing consumers in vhost {call.vhost} ..."
    listed(call, banner, "list_consumers", chosen(call, shown), vhost=call.vhost)
