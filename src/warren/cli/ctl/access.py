"""Verbs about permissions and topic permissions."""

from warren.cli.ctl.call import Call


def set_permissions(call: Call) -> None:
    user, configure, write, read = call.arguments
    call.banner(f'Setting permissions for user "{user}" in vhost "{call.vhost}" ...')
    call.ask(
        "set_permissions",
        user=user,
        vhost=call.vhost,
        configure=configure,
        write=write,
        read=read,
    )
    call.done()


def clear_permissions(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Clearing permissions for user "{user}" in vhost "{call.vhost}" ...')
    call.ask("clear_permissions", user=user, vhost=call.vhost)
    call.done()


def list_permissions(call: Call) -> None:
    call.banner(f'Listing permissions for vhost "{call.vhost}" ...')
    columns = ("user", "configure", "write", "read")
    call.table(columns, call.rows("list_permissions", vhost=call.vhost, columns=columns))


def list_user_permissions(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Listing permissions for user "{user}" ...')
    columns = ("vhost", "configure", "write", "read")
    call.table(columns, call.rows("list_user_permissions", user=user, columns=columns))


def set_topic_permissions(call: Call) -> None:
    user, exchange, write, read = call.arguments
    call.banner(
        f'Setting topic permissions on "{exchange}" for user "{user}" in vhost "{call.vhost}" ...'
    )
    call.ask(
        "set_topic_permissions",
        user=user,
        vhost=call.vhost,
        exchange=exchange,
        write=write,
        read=read,
    )
    call.done()


def clear_topic_permissions(call: Call) -> None:
    user, *exchange = call.arguments
    on = f' on "{exchange[0]}"' if exchange else ""
    call.banner(f'Clearing topic permissions{on} for user "{user}" in vhost "{call.vhost}" ...')
    call.ask(
        "clear_topic_permissions",
        user=user,
        vhost=call.vhost,
        exchange=exchange[0] if exchange else None,
    )
    call.done()


def list_topic_permissions(call: Call) -> None:
    call.banner(f'Listing topic permissions for vhost "{call.vhost}" ...')
    columns = ("user", "exchange", "write", "read")
    call.table(columns, call.rows("list_topic_permissions", vhost=call.vhost, columns=columns))


def list_user_topic_permissions(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Listing topic permissions for user "{user}" ...')
    # RabbitMQ's list has no heads either.
    call.options["no-table-headers"] = "true"
    columns = ("vhost", "exchange", "write", "read")
    call.table(columns, call.rows("list_user_topic_permissions", user=user, columns=columns))
