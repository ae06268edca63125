"""Commands that empty and delete queues, whoever they are exclusive to."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, final

from msgspec import Meta, Struct

from warren.queues import Queue
from warren.server.changing import Args, Name, make, vhost_named
from warren.server.control import Code, Command, ControlError, command
from warren.server.view import NodeView
from warren.vhost.change import QueueDelete

if TYPE_CHECKING:
    from warren.server.node import Node


class PurgeArgs(Args, frozen=True, kw_only=True):
    queue: Name
    vhost: Annotated[str, Meta(max_length=255)] = "/"


class DeleteArgs(PurgeArgs, frozen=True, kw_only=True):
    """`if_empty`: only without ready messages; `if_unused`: only without consumers."""

    if_empty: bool = False
    if_unused: bool = False


class Dropped(Struct, frozen=True, kw_only=True):
    """How many ready messages went."""

    messages: int


@final
class _Queues:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.log = node.broker.log

    def named(self, args: PurgeArgs) -> Queue:
        queue = vhost_named(self.node, args.vhost).queues.get(args.queue)
        if queue is None:
            message = f"there is no queue '{args.queue}' in vhost '{args.vhost}'"
            raise ControlError(Code.NOT_FOUND, message)
        return queue

    def purge(self, view: NodeView, args: PurgeArgs) -> Dropped:
        self.node.hub.begin()
        count = int(self.named(args).purge())
        facts = {"queue": args.queue, "vhost": args.vhost, "messages": count}
        self.log.event("info", "queue.purged", facts)
        return Dropped(messages=count)

    async def delete(self, view: NodeView, args: DeleteArgs) -> Dropped:
        queue = self.named(args)
        if args.if_unused and queue.consumers.every:
            raise ControlError(Code.REFUSED, "Queue is in use")
        count = int(queue.ready())
        if args.if_empty and count > 0:
            raise ControlError(Code.REFUSED, "Queue is not empty")
        await make(self.node, QueueDelete(vhost=args.vhost, name=args.queue))
        facts = {"queue": args.queue, "vhost": args.vhost, "messages": count}
        self.log.event("info", "queue.deleted", facts)
        return Dropped(messages=count)


def commands(node: "Node") -> Iterator[Command]:
    made = _Queues(node)
    yield command("purge_queue", "Drop ready messages.", PurgeArgs, Dropped, made.purge)
    yield command("delete_queue", "Delete a queue.", DeleteArgs, Dropped, made.delete)
