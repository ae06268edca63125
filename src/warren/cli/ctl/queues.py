"""Verbs that act on queues and connections."""

import re
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import USAGE, failed
from warren.cli.ctl.link import RefusedError

_PID: Final = re.compile(r"<.+\.\d+\.\d+\.\d+>")


def delete_queue(call: Call) -> None:
    name = call.arguments[0]
    conditions = [f"if queue is {word}" for word in ("empty", "unused") if call.flag(f"if-{word}")]
    condition = f" {' and '.join(conditions)}" if conditions else ""
    call.banner(f"Deleting queue '{name}' on vhost '{call.vhost}'{condition} ...")
    assert call.link is not None
    try:
        reply = call.link.ask(
            "delete_queue",
            vhost=call.vhost,
            queue=name,
            if_empty=call.flag("if-empty"),
            if_unused=call.flag("if-unused"),
        )
    except RefusedError as refusal:
        text = "Queue not found" if refusal.code == "not_found" else refusal.message
        raise failed(text, USAGE) from None
    call.done(f"Queue was successfully deleted with {reply['messages']} ready messages")


def purge_queue(call: Call) -> None:
    name = call.arguments[0]
    call.banner(f"Purging queue '{name}' in vhost '{call.vhost}' ...")
    assert call.link is not None
    try:
        call.link.ask("purge_queue", vhost=call.vhost, queue=name)
    except RefusedError as refusal:
        raise failed("not_found" if refusal.code == "not_found" else refusal.message) from None
    call.done()


def sync_queue(call: Call) -> None:
    name = call.arguments[0]
    call.banner(f"Synchronising queue '{name}' in vhost '{call.vhost}' ...")
    # No queue has mirrors.
    raise failed("not_mirrored" if _exists(call, name) else "not_found")


def cancel_sync_queue(call: Call) -> None:
    name = call.arguments[0]
    call.banner(f"Stopping synchronising queue '{name}' in vhost '{call.vhost}' ...")
    if not _exists(call, name):
        raise failed("not_found")
    call.done("not_syncing")


def _exists(call: Call, name: str) -> bool:
    rows = call.rows("list_queues", vhost=call.vhost, columns=("name",))
    # All rows are read, also behind the one: the link goes on behind them.
    return name in {row[0] for row in rows}


def close_connection(call: Call) -> None:
    pid, reason = call.arguments
    call.banner(f"Closing connection {pid}, reason: {reason}...")
    assert call.link is not None
    try:
        call.link.ask("close_connection", pid=pid, reason=reason)
    except RefusedError as refusal:
        # A connection that is gone is as closed as it was to be.
        if refusal.code != "not_found" or not _PID.fullmatch(pid):
            raise failed(refusal.message) from None
    call.done()


def close_all_connections(call: Call) -> None:
    reason = call.arguments[0]
    if call.flag("global"):
        where = f"to node {call.name} (across all vhosts)"
    else:
        where = f"in vhost {call.vhost}"
    call.banner(f"Closing all connections {where}, reason: {reason}...")
    reply = call.ask(
        "close_all_connections",
        vhost=None if call.flag("global") else call.vhost,
        limit=int(call.options.get("limit", "0")),
        per_connection_delay=int(call.options.get("per-connection-delay", "0")),
        reason=reason,
    )
    call.done(f"Closed {reply['closed']} connections")


def close_all_user_connections(call: Call) -> None:
    user, reason = call.arguments
    call.banner(f"Closing connections of user {user}, reason: {reason}...")
    assert call.link is not None
    try:
        call.link.ask("close_all_user_connections", user=user, reason=reason)
    except RefusedError as refusal:
        # RabbitMQ takes it that who does not exist has no connections.
        if refusal.code != "not_found":
            raise failed(refusal.message) from None
    call.done()
