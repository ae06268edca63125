"""Commands that change how a running node behaves, until it stops (O-1.11).

Alarms set by hand stay until they are cleared by hand, whatever the monitors see: that is how a
program's behaviour under an alarm is tried out.
"""

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, final

from msgspec import Meta, Struct

from warren.server.changing import DONE, Args, Done
from warren.server.control import Code, Command, ControlError, NoArgs, command
from warren.server.diagnosis import setting_rows
from warren.server.logs import LEVELS
from warren.server.view import NodeView, SettingRow

if TYPE_CHECKING:
    from warren.server.node import Node


class LimitArgs(Args, frozen=True, kw_only=True):
    """A share of the memory, or octets; the octets win, one of the two must be there."""

    relative: Annotated[float, Meta(ge=0)] | None = None
    absolute: Annotated[int, Meta(ge=0)] | None = None


class LimitReply(Struct, frozen=True, kw_only=True):
    """The limit in octets that it came to; `monitored`: whether anything is held against it."""

    limit: int
    monitored: bool = True


class DiskMonitorArgs(Args, frozen=True, kw_only=True):
    """What is not given stays as it is."""

    enabled: bool | None = None
    interval_min_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | None = None
    interval_max_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | None = None


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


def _share(args: LimitArgs) -> float:
    if args.relative is None:
        raise ControlError(Code.BAD_ARGUMENTS, "a share (relative) or octets (absolute) are needed")
    return args.relative


@final
class _Runtime:
    def __init__(self, node: "Node") -> None:
        self.node = node

    def watermark(self, view: NodeView, args: LimitArgs) -> LimitReply:
        memory = self.node.memory
        if args.absolute is not None:
            memory.set_absolute(args.absolute)
        else:
            share = _share(args)
            if share > 1.0 and not memory.assumed:
                message = "The threshold should be a fraction between 0.0 and 1.0"
                raise ControlError(Code.BAD_ARGUMENTS, message)
            memory.set_relative(share)
        self.node.check_memory()
        return LimitReply(limit=memory.limit)

    def disk_limit(self, view: NodeView, args: LimitArgs) -> LimitReply:
        disk = self.node.disk
        if args.absolute is not None:
            disk.set_absolute(args.absolute)
        else:
            disk.set_relative(_share(args))
        self.node.check_disk()
        return LimitReply(limit=disk.limit, monitored=not disk.disabled)

    def disk_monitor(self, view: NodeView, args: DiskMonitorArgs) -> Done:
        disk = self.node.disk
        least = args.interval_min_ms or disk.interval_min_ms
        most = args.interval_max_ms or disk.interval_max_ms
        if least > most:
            message = f"the shortest interval, {least} ms, is longer than the longest, {most} ms"
            raise ControlError(Code.BAD_ARGUMENTS, message)
        disk.interval_min_ms, disk.interval_max_ms = least, most
        if args.enabled is not None:
            disk.switch(on=args.enabled)
        self.node.check_disk()
        return DONE

    def set_alarm(self, view: NodeView, args: AlarmArgs) -> Done:
        return self._by_hand(args.source, on=True)

    def clear_alarm(self, view: NodeView, args: AlarmArgs) -> Done:
        return self._by_hand(args.source, on=False)

    def _by_hand(self, source: str, *, on: bool) -> Done:
        if source == "memory":
            self.node.memory.by_hand = on
            self.node.check_memory()
        else:
            self.node.disk.by_hand = on
            self.node.check_disk()
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
        LimitArgs,
        LimitReply,
        made.watermark,
    )
    yield command(
        "set_disk_free_limit",
        "Set the limit of free disk space.",
        LimitArgs,
        LimitReply,
        made.disk_limit,
    )
    yield command(
        "set_disk_monitor",
        "Say whether and how often free disk space is looked at.",
        DiskMonitorArgs,
        Done,
        made.disk_monitor,
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
