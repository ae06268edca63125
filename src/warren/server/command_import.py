"""Commands of an import: begin, parts, and all of it at once; for clients of the control socket."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from warren.server.changing import Args
from warren.server.control import Command, NoArgs, command
from warren.server.importing import Importer
from warren.server.view import NodeView
from warren.vhost.change import AnyChange

if TYPE_CHECKING:
    from warren.server.node import Node


class ImportArgs(Args, frozen=True, kw_only=True):
    """The number that the import was given."""

    id: int


class PartArgs(Args, frozen=True, kw_only=True):
    id: int
    changes: tuple[AnyChange, ...]


class ImportReply(Args, frozen=True, kw_only=True):
    """The number of the import, and how many changes it has."""

    id: int
    changes: int


@final
class _Importing:
    def __init__(self, node: "Node") -> None:
        self.importer = Importer(node)

    def begin(self, view: NodeView, args: NoArgs) -> ImportReply:
        return ImportReply(id=self.importer.begin(), changes=0)

    def part(self, view: NodeView, args: PartArgs) -> ImportReply:
        return ImportReply(id=args.id, changes=self.importer.add(args.id, args.changes))

    def drop(self, view: NodeView, args: ImportArgs) -> ImportReply:
        self.importer.drop(args.id)
        return ImportReply(id=args.id, changes=0)

    async def apply(self, view: NodeView, args: ImportArgs) -> ImportReply:
        return ImportReply(id=args.id, changes=await self.importer.apply(args.id))


def commands(node: "Node") -> Iterator[Command]:
    made = _Importing(node)
    yield command("import_begin", "Begin an import.", NoArgs, ImportReply, made.begin)
    yield command("import_part", "Hand over some of it.", PartArgs, ImportReply, made.part)
    yield command("import_apply", "Make all of it true.", ImportArgs, ImportReply, made.apply)
    yield command("import_drop", "Give it up.", ImportArgs, ImportReply, made.drop)
