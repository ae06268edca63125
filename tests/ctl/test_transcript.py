"""Command lines with what RabbitMQ 3.10.8 printed: stdout, stderr behind `! `, the exit code.

Each file begins with a blank node that has one connection with the objects of `prepare`. `NODE` is
the node's name, `<PID>` any process id; of a usage error only what comes before the usage counts.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctl.conftest import Ctl, Outcome
from tests.support.wire import Client

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def steps(file: Path) -> Iterator[tuple[str, str]]:
    """Give the lines of a transcript with what follows them."""
    for block in re.split(r"^\$ ", file.read_text(), flags=re.MULTILINE)[1:]:
        line, _, told = block.partition("\n")
        yield line, told.rstrip("\n")


def told(outcome: Outcome) -> str:
    """Write an outcome as a transcript has it."""
    err = outcome.err.partition("\x1b[1mUsage")[0].rstrip("\n")
    lines = outcome.out.rstrip("\n").splitlines()
    lines += [f"! {line}" for line in err.splitlines()]
    text = "\n".join([*lines, f"= {outcome.code}"])
    text = re.sub(r"<rabbit@test(?:\.\d+){3}>", "<PID>", text)
    return re.sub(r"\x1b\[\d*m", "", text).replace("rabbit@test", "NODE")


def prepare(client: Client) -> None:
    """One connection with three channels, queues, bindings, messages and a consumer."""
    first = client.channel()
    first.call("confirm.select")
    limits = {"x-max-length": 10, "x-message-ttl": 60000}
    for name in ("q1", "q two", 'q\ttabé"x\\'):
        first.queue_declare(name, durable=True, arguments=limits)
    first.queue_declare("ex1", exclusive=True)
    for _ in range(3):
        first.publish(b"x" * 10, routing_key="q1")
        first.wait_for("basic.ack")
    first.exchange_declare("e1", "topic", durable=True, arguments={"alternate-exchange": "ae"})
    second = client.channel()
    second.qos(7)
    second.consume("q1", "tag1")
    for _ in range(3):
        second.recv_delivery()
    client.channel().call("tx.select")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_script_sees_what_it_saw(file: Path, ctl_fresh: Ctl) -> None:
    prepare(ctl_fresh.broker.connect())
    for line, expected in steps(file):
        assert told(ctl_fresh(*shlex.split(line))) == expected, line
