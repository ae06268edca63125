"""Commands about users: who there is, their passwords, tags and limits (spec section 1.1).

Passwords come and go in requests only: what is stored and logged is a hash, or nothing.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from warren.security import Algorithm, Refusal, User, hash_password, is_hash_text, new_user
from warren.server.changing import Args, Done, Name, make, user_named
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost.change import UserDelete, UserLimitsPut, user_put
from warren.vhost.limit import USER_LIMITS, limits

if TYPE_CHECKING:
    from warren.server.node import Node

LOOPBACK: Final = "127.0.0.1"
ALL: Final = "all"


class AddUserArgs(Args, frozen=True, kw_only=True):
    """A user, by a password or by its hash; a user without either cannot log in by password.

    `replace`: one that is there is overwritten; otherwise the name has to be new.
    """

    user: Name
    password: str = ""
    password_hash: str = ""
    hashing_algorithm: Algorithm = Algorithm.SHA256
    tags: tuple[str, ...] = ()
    replace: bool = False


class UserArgs(Args, frozen=True, kw_only=True):
    user: Name


class PasswordArgs(Args, frozen=True, kw_only=True):
    user: Name
    password: str


class TagsArgs(Args, frozen=True, kw_only=True):
    user: Name
    tags: tuple[str, ...] = ()


class ColumnsArgs(Args, frozen=True, kw_only=True):
    columns: tuple[str, ...] = ()


class SetLimitsArgs(Args, frozen=True, kw_only=True):
    """`definition` is an object of limits, or its JSON."""

    user: Name
    definition: dict[str, object] | str


class ClearLimitsArgs(Args, frozen=True, kw_only=True):
    """`limit` is a name, or `all`."""

    user: Name
    limit: str = ALL


class LimitListArgs(Args, frozen=True, kw_only=True):
    user: str = ""
    columns: tuple[str, ...] = ()


class LoginReply(Args, frozen=True, kw_only=True):
    """Who was right."""

    user: str
    tags: tuple[str, ...]


_USER_CELLS: Final[dict[str, Cell[User]]] = {
    "user": lambda one: one.name,
    "tags": lambda one: list(one.tags),
}


def read_limits(given: Mapping[str, object] | str, known: tuple[str, ...]) -> dict[str, int]:
    """Return limits as given by a person; refuse what they cannot be."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
        if not isinstance(found, Mapping):
            raise ValueError("expected an object of limits")
        return limits(found, known)
    except ValueError as refusal:
        raise ControlError(Code.BAD_ARGUMENTS, f"limits: {refusal}") from None


@final
class _Users:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.broker = node.broker
        self.random = node.broker.random

    async def add(self, view: NodeView, args: AddUserArgs) -> Done:
        if self.broker.users.get(args.user) is not None and not args.replace:
            raise ControlError(Code.EXISTS, f'User "{args.user}" already exists')
        if args.password_hash:
            if not is_hash_text(args.password_hash):
                raise ControlError(Code.BAD_ARGUMENTS, "password_hash is not base64")
            user = User(args.user, args.password_hash, args.hashing_algorithm, args.tags)
        else:
            user = new_user(args.user, args.password.encode(), self.random, args.tags)
        done = await make(self.node, user_put(user))
        self.broker.log.event("info", "user.created", {"user": args.user})
        return done

    async def delete(self, view: NodeView, args: UserArgs) -> Done:
        user_named(self.node, args.user)
        done = await make(self.node, UserDelete(name=args.user))
        self.broker.log.event("info", "user.deleted", {"user": args.user})
        return done

    async def change_password(self, view: NodeView, args: PasswordArgs) -> Done:
        user = user_named(self.node, args.user)
        if not args.password:
            message = "a password cannot be empty"
            raise ControlError(Code.BAD_ARGUMENTS, message, "clear_password takes it away")
        hashed = hash_password(args.password.encode(), self.random)
        changed = replace(user, password_hash=hashed, algorithm=Algorithm.SHA256)
        done = await make(self.node, user_put(changed))
        self.broker.log.event("info", "user.password_changed", {"user": args.user})
        return done

    async def clear_password(self, view: NodeView, args: UserArgs) -> Done:
        user = replace(user_named(self.node, args.user), password_hash="")
        done = await make(self.node, user_put(user))
        self.broker.log.event("info", "user.password_cleared", {"user": args.user})
        return done

    def authenticate(self, view: NodeView, args: PasswordArgs) -> LoginReply:
        verdict = self.broker.users.authenticate(args.user, args.password.encode(), LOOPBACK)
        if isinstance(verdict, Refusal):
            message = f'failed to authenticate user "{args.user}"'
            raise ControlError(Code.REFUSED, message, verdict.reason.value)
        return LoginReply(user=verdict.name, tags=verdict.tags)

    async def set_tags(self, view: NodeView, args: TagsArgs) -> Done:
        user = replace(user_named(self.node, args.user), tags=args.tags)
        done = await make(self.node, user_put(user))
        self.broker.log.event(
            "info", "user.tags_set", {"user": args.user, "tags": " ".join(args.tags)}
        )
        return done

    def rows(self, view: NodeView, args: ColumnsArgs) -> Slices:
        made = cells(_USER_CELLS, args.columns or tuple(_USER_CELLS))
        found = (self.broker.users.get(name) for name in self.broker.users.names())
        return sliced((None if one is None else row(made, one) for one in found), self.broker.clock)

    async def set_limits(self, view: NodeView, args: SetLimitsArgs) -> Done:
        user_named(self.node, args.user)
        given = read_limits(args.definition, USER_LIMITS)
        merged = {**self.broker.metadata.limits_of_user(args.user), **given}
        done = await make(self.node, UserLimitsPut(user=args.user, limits=merged))
        self.broker.log.event("info", "user.limits_set", {"user": args.user, "limits": merged})
        return done

    async def clear_limits(self, view: NodeView, args: ClearLimitsArgs) -> Done:
        user_named(self.node, args.user)
        left = dict(self.broker.metadata.limits_of_user(args.user))
        if args.limit == ALL:
            left.clear()
        elif left.pop(args.limit, None) is None and args.limit not in USER_LIMITS:
            raise ControlError(Code.BAD_ARGUMENTS, f"there is no limit '{args.limit}'")
        done = await make(self.node, UserLimitsPut(user=args.user, limits=left))
        self.broker.log.event(
            "info", "user.limits_cleared", {"user": args.user, "limit": args.limit}
        )
        return done

    def limit_rows(self, view: NodeView, args: LimitListArgs) -> Slices:
        if args.user:
            user_named(self.node, args.user)
        table: dict[str, Cell[tuple[str, dict[str, int]]]] = {
            "user": lambda one: one[0],
            "limits": lambda one: one[1],
        }
        made = cells(table, args.columns or tuple(table))
        names = [args.user] if args.user else sorted(self.broker.user_limits)
        every = ((name, dict(self.broker.metadata.limits_of_user(name))) for name in names)
        return sliced((row(made, one) for one in every), self.broker.clock)


def commands(node: "Node") -> Iterator[Command]:
    users = _Users(node)
    yield command("add_user", "Add a user.", AddUserArgs, Done, users.add)
    yield command("delete_user", "Delete a user.", UserArgs, Done, users.delete)
    yield command(
        "change_password", "Change a password.", PasswordArgs, Done, users.change_password
    )
    yield command(
        "clear_password", "Allow no login by password.", UserArgs, Done, users.clear_password
    )
    yield command(
        "authenticate_user", "Check a password.", PasswordArgs, LoginReply, users.authenticate
    )
    yield command("set_user_tags", "Set the tags of a user.", TagsArgs, Done, users.set_tags)
    yield listing("list_users", "List users.", ColumnsArgs, users.rows)
    yield command("set_user_limits", "Set limits.", SetLimitsArgs, Done, users.set_limits)
    yield command("clear_user_limits", "Clear limits.", ClearLimitsArgs, Done, users.clear_limits)
    yield listing("list_user_limits", "List limits of users.", LimitListArgs, users.limit_rows)
