"""Verbs about users: passwords, tags, limits."""

import sys

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import DATA, OK, CtlError, Misuse, failed
from warren.cli.ctl.link import RefusedError
from warren.cli.ctl.parameters import definition
from warren.cli.ctl.term import compact


def add_user(call: Call) -> None:
    user = call.arguments[0]
    if not user:
        raise Misuse("Bad argument: user cannot be an empty string", DATA)
    call.banner(f'Adding user "{user}" ...')
    call.ask("add_user", user=user, password=_password(call))
    told = "Done. Give the user permissions for some virtual hosts: see `help set_permissions`."
    call.done("" if call.quiet else told)


def _password(call: Call) -> str:
    """Return the password: the second argument, or what comes on stdin."""
    if len(call.arguments) > 1:
        return call.arguments[1]
    if sys.stdin is not None and sys.stdin.isatty():
        import getpass

        found = getpass.getpass("Password: ")
    else:
        call.banner("Password: ")
        found = sys.stdin.readline().rstrip("\r\n") if sys.stdin is not None else ""
    if not found:
        raise failed("Password is not provided via argument or stdin", DATA)
    return found


def delete_user(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Deleting user "{user}" ...')
    call.ask("delete_user", user=user)
    call.done()


def change_password(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Changing password for user "{user}" ...')
    password = _password(call)
    if password:
        call.ask("change_password", user=user, password=password)
    else:
        call.ask("clear_password", user=user)
    call.done()


def clear_password(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Clearing password for user "{user}" ...')
    call.ask("clear_password", user=user)
    call.done()


def authenticate_user(call: Call) -> None:
    user = call.arguments[0]
    call.banner(f'Authenticating user "{user}" ...')
    password = _password(call)
    assert call.link is not None
    try:
        call.link.ask("authenticate_user", user=user, password=password)
    except RefusedError as refusal:
        why = refusal.fix.replace("wrong_password", "invalid credentials").replace("_", " ")
        text = f"Error:\nError: failed to authenticate user \"{user}\"\nuser '{user}' - {why}"
        raise CtlError(text, DATA) from None
    call.done("Success")


def set_user_tags(call: Call) -> None:
    user, *tags = call.arguments
    call.banner(f'Setting tags for user "{user}" to [{", ".join(tags)}] ...')
    call.ask("set_user_tags", user=user, tags=tags)
    call.done()


def list_users(call: Call) -> None:
    call.banner("Listing users ...")
    call.table(("user", "tags"), call.rows("list_users", columns=("user", "tags")))


def set_user_limits(call: Call) -> None:
    user, limits = call.arguments
    call.banner(f'Setting user limits to "{limits}" for user "{user}" ...')
    call.ask("set_user_limits", user=user, definition=definition(limits))
    call.done()


def clear_user_limits(call: Call) -> None:
    user, limit = call.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    call.banner(f'Clearing {what} for user "{user}" ...')
    call.ask("clear_user_limits", user=user, limit=limit)
    call.done()


def list_user_limits(call: Call) -> int:
    if call.flag("global"):
        call.banner("Listing limits for all users ...")
        rows = call.rows("list_user_limits", columns=("user", "limits"))
        call.table(("user", "limits"), rows)
        return OK
    user = call.options.get("user", "guest")
    call.banner(f'Listing limits for user "{user}" ...')
    found = [row[0] for row in call.rows("list_user_limits", user=user, columns=("limits",))]
    print(compact(found[0] if found else {}))
    return OK
