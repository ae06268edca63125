"""Published blocks, parsed back by the broker's own decoder, say what the options say."""

import shlex
import struct

import pytest

from warren.bench.arguments import parse
from warren.bench.message import build_blocks, filler, key_text
from warren.bench.option import Options
from warren.bench.verify import MAGIC
from warren.protocol.frame import FrameSplitter, RawFrame
from warren.protocol.methods import BasicPublish, decode
from warren.protocol.properties import decode as decode_properties
from warren.protocol.value import plain

FIRST, COUNT, STAMP = 998, 7, 123456789


def published(options: Options, producer: int = 3) -> list[tuple[BasicPublish, bytes, bytes]]:
    """Method, properties and body of each message of a block."""
    block = build_blocks(options, producer, 131072).build(FIRST, COUNT, STAMP)
    messages: list[tuple[BasicPublish, bytes, bytes]] = []
    frames = FrameSplitter().feed(block)
    while frames:
        messages.append(take(frames))
    return messages


def take(frames: list[RawFrame]) -> tuple[BasicPublish, bytes, bytes]:
    payload = frames.pop(0).payload
    method = decode(payload, 0, len(payload))
    assert isinstance(method, BasicPublish)
    header = frames.pop(0)
    assert header.kind == 2
    class_id, weight, size = struct.unpack_from(">HHQ", header.payload)
    assert (class_id, weight) == (60, 0)
    body = b""
    while len(body) < size:
        part = frames.pop(0)
        assert (part.kind, part.channel) == (3, 1)
        body += part.payload
    assert len(body) == size
    return method, header.payload[12:], body


def parsed(words: str) -> Options:
    return parse(shlex.split(words))


def test_bodies_carry_magic_producer_and_sequence() -> None:
    for number, (method, props, body) in enumerate(
        published(parsed("--size 40 --queues 2")), FIRST
    ):
        assert struct.unpack_from(">HHQ", body) == (MAGIC, 3, number)
        assert body[12:] == filler(40)[12:]
        assert (method.exchange, method.routing_key, method.mandatory) == ("", "perf-1", False)
        assert props == b"\0\0"


def test_the_smallest_body_is_all_head() -> None:
    assert [len(body) for _, _, body in published(parsed("--size 12"))] == [12] * COUNT


def test_latency_bodies_carry_a_stamp() -> None:
    for _, _, body in published(parsed("--size 20 --latency --rate 1")):
        assert struct.unpack_from(">Q", body, 12) == (STAMP,)


@pytest.mark.parametrize("keys", [10, 1000, 5000, 2_000_000])
def test_routing_keys_take_turns(keys: int) -> None:
    options = parsed(f"--exchange topic --routing-keys {keys}")
    found = [method.routing_key for method, _, _ in published(options)]
    assert found == [key_text(options, 3, number) for number in range(FIRST, FIRST + COUNT)]
    assert found[0] == f"perf.{FIRST % keys:0{options.key_width}d}.m"


def test_a_mix_follows_its_cycle() -> None:
    options = parsed("--size 12:2,300:1,70000:1 --exchange fanout --mandatory")
    for number, (method, _, body) in enumerate(published(options), FIRST):
        assert len(body) == options.sizes[number % len(options.sizes)]
        assert struct.unpack_from(">HHQ", body) == (MAGIC, 3, number)
        assert method.mandatory


def test_a_body_over_frame_max_is_cut() -> None:
    options = parsed("--size 20000")
    block = build_blocks(options, 0, 4096).build(0, 1, 0)
    frames = FrameSplitter(4096).feed(block)
    assert [len(frame.payload) for frame in frames[2:]] == [4088] * 4 + [20000 - 4 * 4088]
    assert b"".join(frame.payload for frame in frames[2:])[12:] == filler(20000)[12:]


def test_headers_and_properties() -> None:
    options = parsed("--exchange headers --headers 3 --properties --persistent")
    _, props, _ = published(options)[0]
    found = decode_properties(props)
    assert found.headers is not None
    assert {name: plain(value) for name, value in found.headers.items()} == {
        "x-header-0": 0,
        "x-header-1": "value 1",
        "x-header-2": 2,
        "perf": "1",
    }
    assert (found.delivery_mode, found.priority, found.expiration) == (2, 5, "3600000")
    assert (found.content_type, found.type) == ("application/octet-stream", "warren.bench")
    assert (found.user_id, found.cluster_id) == (None, None)


def test_persistent_alone_sets_one_flag() -> None:
    _, props, _ = published(parsed("--persistent"))[0]
    assert props == b"\x10\0\x02"
