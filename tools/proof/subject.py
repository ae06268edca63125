"""The broker under proof: which one, started how, with which settings, from a command line."""

import argparse
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.bench.broker import (
    Broker,
    Place,
    Settings,
    rabbitmq_is_installed,
    start_rabbitmq,
    start_warren,
    warren_knows,
)

MEMORY_LIMIT = "vm_memory_high_watermark.absolute"
DISK_LIMIT = "disk_free_limit.absolute"


@dataclass(frozen=True, slots=True)
class Subject:
    """How to start what is to be proved."""

    kind: str
    command: list[str]
    place: Place
    pure: bool = False

    def start(self, settings: Settings | None = None) -> Broker:
        """A fresh broker; a `StartError` if it does not come up."""
        if self.kind == "rabbitmq":
            return start_rabbitmq(self.place, tls=False, settings=settings)
        # Another process would only take part of the processor.
        chosen = {"management": "off", **(settings or {})}
        return start_warren(
            self.place, tls=False, command=self.command, pure=self.pure, settings=chosen
        )

    def knows(self, setting: str, value: str) -> bool:
        return self.kind == "rabbitmq" or warren_knows(self.command, setting, value)

    def control_socket(self) -> Path:
        return self.place.folder / "data" / "control.sock"


def add_options(parser: argparse.ArgumentParser, port: int) -> None:
    parser.add_argument("--broker", choices=["warren", "rabbitmq"], default="warren")
    parser.add_argument(
        "--warren",
        default=f"{sys.executable} -m warren.cli.main",
        metavar="COMMAND",
        help="how to start Warren (default: this interpreter's)",
    )
    parser.add_argument("--pure", action="store_true", help="Warren uncompiled")
    parser.add_argument("--port", type=int, default=port, help="first of four ports")
    parser.add_argument(
        "--out", type=Path, default=Path("out/proof"), help="where the broker keeps its data"
    )


def subject_of(args: argparse.Namespace, name: str) -> Subject:
    """The broker that the command line asks for; from now on a SIGTERM ends it with the proof."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.broker == "rabbitmq" and not rabbitmq_is_installed():
        raise SystemExit("rabbitmq-server is not installed")
    place = Place((args.out / f"{name}-{args.broker}").resolve(), args.port)
    return Subject(args.broker, shlex.split(args.warren), place, args.pure)
