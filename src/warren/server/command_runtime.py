"""Commands that change how a running node behaves, until it stops (O-1.11).

Alarms set by hand stay until they are cleared by hand, whatever the monitors see: that is how a
program's behaviour under an alarm is tried out.
"""

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, final

from msgspec import Meta, Struct

from warren.flow import Alarm, Source
from warren.server.changing import DONE, Args, Done
from warren.server.control import Code, Command, ControlError, NoArgs, command
from warren.server.diagnosis import setting_rows
from warren.server.logs import LEVELS
from warren.server.memory import total_bytes
from warren.server.view import NodeView, SettingRow

if TYPE_CHECKING:
    from warren.server.node import Node


class WatermarkArgs(Args, frozen=True, kw_only=True):
    """A share of the memory, or octets."""

    relative: Annotated[float, Meta(ge=0)] | None = None
    absolute: Annotated[int, Meta(ge=0)] | None = None


class WatermarkReply(Struct, frozen=True, kw_only=True):
    """The limit in octets that it came to."""

    limit: int


class AlarmArgs(Args, frozen=True, kw_only=True):
    source: Literal["memory", "disk"]


class ChannelMaxArgs(Args, frozen=True, kw_only=True):
    channel_max: Annotated[int, Meta(ge=0, le=65535)]


class LoopbackArgs(Args, frozen=True, kw_only=True):
    users: tuple[str, ...]


class LevelArgs(Args, frozen=True, kw_only=True):
    level: str


class Environment(Struct, frozen=True, kw_only=True):
    """Every setting in force, secrets masked."""

    settings: tuple[SettingRow, ...]


@final
class _Runtime:
    def __init__(self, node: "Node") -> None:
        self.node = node

    def watermark(self, view: NodeView, args: WatermarkArgs) -> WatermarkReply:
        memory = self.node.memory
        total = total_bytes()
        if args.absolute is not None:
            memory.limit = min(args.absolute, total)
        elif args.relative is not None:
            memory.limit = int(args.relative * total)
        self.node.check_memory()
        facts = {"limit": memory.limit, "total": total}
        self.node.log.event("info", "memory.limit_set", facts)
        return WatermarkReply(limit=memory.limit)

    def set_alarm(self, view: NodeView, args: AlarmArgs) -> Done:
        if args.source == "memory":
            self.node.memory.by_hand = True
            self.node.check_memory()
        else:
            alarm = Alarm(Source.DISK, self.node.settings.node_name)
            self.node.tell_edge(self.node.broker.alarms.set(alarm))
        return DONE

    def clear_alarm(self, view: NodeView, args: AlarmArgs) -> Done:
        if args.source == "memory":
            self.node.memory.by_hand = False
            self.node.check_memory()
        else:
            alarm = Alarm(Source.DISK, self.node.settings.node_name)
            self.node.tell_edge(self.node.broker.alarms.clear(alarm))
        return DONE

    def channel_max(self, view: NodeView, args: ChannelMaxArgs) -> Done:
        """For connections that come from now on."""
        listeners = self.node.listeners
        listeners.session = replace(listeners.session, channel_max=args.channel_max)
        return DONE

    def loopback(self, view: NodeView, args: LoopbackArgs) -> Done:
        self.node.broker.users.loopback_users = frozenset(args.users)
        return DONE

    def log_level(self, view: NodeView, args: LevelArgs) -> Done:
        if args.level not in LEVELS:
            known = ", ".join(LEVELS)
            message = f"level {args.level} is not supported. Try one of {known}"
            raise ControlError(Code.BAD_ARGUMENTS, message)
        self.node.log.level(args.level)
        return DONE

    def suspend(self, view: NodeView, args: NoArgs) -> Done:
        self.node.listeners.stop()
        return DONE

    async def resume(self, view: NodeView, args: NoArgs) -> Done:
        if not self.node.listeners.rows:
            try:
                await self.node.listeners.start()
            except OSError as failure:
                self.node.listeners.stop()
                raise ControlError(Code.REFUSED, f"not listening: {failure}") from None
        return DONE

    def environment(self, view: NodeView, args: NoArgs) -> Environment:
        return Environment(settings=setting_rows(self.node.settings))

    def collect(self, view: NodeView, args: NoArgs) -> Done:
        gc.collect()
        return DONE


def commands(node: "Node") -> Iterator[Command]:
    made = _Runtime(node)
    yield command(
        "set_vm_memory_high_watermark",
        "Set the limit of memory.",
        WatermarkArgs,
        WatermarkReply,
        made.watermark,
    )
    yield command("set_alarm", "Set an alarm by hand.", AlarmArgs, Done, made.set_alarm)
    yield command("clear_alarm", "Clear an alarm set by hand.", AlarmArgs, Done, made.clear_alarm)
    yield command(
        "set_channel_max", "Limit channels of a connection.", ChannelMaxArgs, Done, made.channel_max
    )
    yield command(
        "set_loopback_users",
        "Say who may log in from here only.",
        LoopbackArgs,
        Done,
        made.loopback,
    )
    yield command("set_log_level", "Set the level of the log.", LevelArgs, Done, made.log_level)
    yield command("suspend_listeners", "Accept no connections.", NoArgs, Done, made.suspend)
    yield command("resume_listeners", "Accept connections again.", NoArgs, Done, made.resume)
    yield command("environment", "Every setting.", NoArgs, Environment, made.environment)
    yield command("force_gc", "Run the cycle collector.", NoArgs, Done, made.collect)
