"""`warren peek`, `warren export`, `warren replay`, on a node that runs and on one that does not."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_ranges import fill
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker

pytestmark = [
    pytest.mark.differs_from_reference("it has no ranges"),
    pytest.mark.slow,
]


def folder(broker: Broker) -> Path:
    assert broker.log is not None
    return broker.log.parent / "data"


def run(broker: Broker, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warren.cli.main", *words, "--data-dir", str(folder(broker))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == code, done.stderr
    return done


def exported(broker: Broker, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(broker, "export", *words).stdout.splitlines()]


def tree(broker: Broker) -> dict[str, bytes]:
    """Every file of the data folder."""
    found = sorted(folder(broker).rglob("*"))
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def test_peek(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    channel.queue_declare("q", durable=True)
    fill(client.channel(), "q", *range(20), delivery_mode=2, headers={"h": [1, "a"]})
    channel.publish(b"\x1b[31mred\x00", routing_key="q", content_type="\x1b[2J")
    channel.publish("grün\nzweite".encode() * 100, routing_key="q")
    channel.get("q")
    text = run(broker, "peek", "q", "-n", "2").stdout.splitlines()
    assert text[0].startswith("queue 'q' in vhost '/': ids 0 to 21, 21 ready, 1 unacknowledged")
    assert text[1].startswith("0  unacked  20")
    assert text[1].endswith("1 B  exchange '', key 'q'")
    assert text[2:5] == ['    headers: {"h": [1, "a"]}', "    delivery_mode: 2", "    | 0"]
    assert text[-1] == "more with --from 2"
    text = run(broker, "peek", "q", "--from", "20", "--body", "9").stdout.splitlines()
    assert text[1].startswith("20  ready  in memory  9 B")
    assert text[2] == r"    content_type: \x1b[2J"
    assert text[3].split("  ")[-1].endswith(".[31mred.")
    assert text[5:] == ["    | grün", "    | zwe", "    | ..."]
    found = json.loads(run(broker, "peek", "q", "--json", "--from", "19").stdout)
    assert [one["seq"] for one in found] == [19, 20, 21]
    assert (found[0]["body"], found[0]["state"], found[2]["size"]) == ("19", "ready", 1200)
    run(broker, "peek", "none", code=1)
    channel.queue_declare("e")
    assert "is empty" in run(broker, "peek", "e").stdout


def test_export_of_types(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q")
    headers = {"text": "ü", "flag": True, "number": 1 << 40, "real": 1.5, "none": None}
    channel.publish(
        b"\xff\x00",
        routing_key="q",
        headers={**headers, "list": [1, {"a": "b"}]},
        message_id="m1",
        timestamp=1_700_000_000,
    )
    channel.sync()
    (found,) = exported(broker, "q")
    assert found["properties"]["headers"] == {**headers, "list": [1, {"a": "b"}]}
    assert found["properties"]["timestamp"] == 1_700_000_000
    assert (found["body_encoding"], base64.b64decode(found["body"])) == ("base64", b"\xff\x00")
    assert (found["seq"], found["ts"], found["exchange"], found["routing_key"]) == (
        0,
        None,
        "",
        "q",
    )


@pytest.mark.parametrize("priorities", [0, 2])
def test_export_of_files_and_memory(start_broker: StartBroker, priorities: int) -> None:
    """Segments, journal, message store and memory: in one order, whoever reads them."""
    broker = start_broker({"queue_resident_bytes": 1 << 20})
    client = broker.connect()
    channel = client.channel()
    arguments = {"x-max-priority": priorities} if priorities else {}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.confirm_select()
    # More than the journal keeps, so that there are segments.
    sizes = {number: 12_000 if number % 500 == 7 else 3500 for number in range(45_000)}
    for number, size in sizes.items():
        mode = 1 if number % 1000 == 3 else 2
        body = b"%d" % number + b"." * size
        channel.publish(body, routing_key="q", delivery_mode=mode, priority=number % 3)
        if number % 5000 == 4999:
            channel.wait_confirms(number + 1, first=number - 4998)
    channel.get("q", no_ack=True)
    taken = 2 if priorities else 0
    for _ in range(200):
        levels = broker.control("range_info", queue="q")["levels"]
        if all(level["disk_seq"] > 1000 for level in levels):
            break
        channel.sync()
    assert sum(len(level["segments"]) for level in levels) >= 1
    found = exported(broker, "q")
    assert [one["seq"] for one in found] == sorted(set(range(45_000)) - {taken})
    assert all(one["body"] == f"{one['seq']}" + "." * sizes[one["seq"]] for one in found)
    some = exported(broker, "q", "--from", "100", "--to", "2000")
    assert some == found[100 - 1 : 2000 - 1]
    # A part of a file of lines is gone on with.
    path = folder(broker).parent / "lines.jsonl"
    whole = "".join(json.dumps(one) + "\n" for one in found[:300])
    path.write_text(whole + '{"seq": 4')
    run(broker, "export", "q", "-o", str(path), "--resume", "--to", "5000")
    assert [json.loads(line) for line in path.read_text().splitlines()] == found[:4999]
    # Without the node: what is stored is there, and nothing is written.
    broker.kill()
    before = tree(broker)
    stored = exported(broker, "q")
    assert stored == [one for one in found if one["ts"] is not None]
    assert tree(broker) == before
    broker.launch()
    broker.stop()
    assert exported(broker, "q") == stored


def test_replay(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    for name in ("q", "target"):
        channel.queue_declare(name, durable=True)
    fill(client.channel(), "q", *range(10), delivery_mode=2)
    told = json.loads(run(broker, "replay", "q", "--into", "target", "--to", "4", "--json").stdout)
    assert (told["published"], told["next_seq"], told["end"]) == (4, 4, True)
    incarnation = str(told["incarnation"])
    rest = ["--from", "4", "--incarnation", incarnation, "--rate", "100"]
    assert "published 6 messages" in run(broker, "replay", "q", "--into", "target", *rest).stdout
    marks = [
        one["properties"]["headers"]["x-warren-replayed"] for one in exported(broker, "target")
    ]
    assert marks == [
        {"queue": "q", "seq": seq, "incarnation": int(incarnation)} for seq in range(10)
    ]
    # Into itself: once, and not what that brings.
    run(broker, "replay", "q")
    assert len(exported(broker, "q")) == 20
    run(broker, "replay", "q", "--incarnation", "1", code=1)
    run(broker, "replay", "q", "--into", "none", code=1)
    run(broker, "replay", "q", "--into", "target", "--exchange", "amq.topic", code=2)
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    channel.queue_declare("full", arguments=full)
    failed = run(broker, "replay", "q", "--into", "full", code=1)
    assert "refused message 2" in failed.stderr
    assert (
        f"warren replay q --from 2 --to 20 --incarnation {incarnation} --into full" in failed.stderr
    )
