"""The generated methods against the table they come from, and against known octets."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import gen_protocol
from tools.amqp_methods import METHODS, MethodRow
from warren.protocol import methods
from warren.protocol.methods import METHOD_NAMES, Method, UnknownMethod, decode
from warren.protocol.value import table
from warren.protocol.wire import DecodeError

ROWS = pytest.mark.parametrize("row", METHODS, ids=[row.name for row in METHODS])
SAMPLES: dict[str, tuple[object, object]] = {
    "octet": (7, 255),
    "short": (1, 65535),
    "long": (3, 2**32 - 1),
    "longlong": (5, 2**64 - 1),
    "shortstr": ("naïve", "x" * 255),
    "longstr": (b"\x00\xff", b""),
    "bit": (True, False),
    "table": (table({"a": 1, "b": {"c": "d"}}), {}),
}


def whole(payload: bytes) -> Method:
    return decode(payload, 0, len(payload))


def method_class(row: MethodRow) -> type[Method]:
    found = getattr(methods, gen_protocol.class_name(row))
    assert isinstance(found, type)
    assert issubclass(found, Method)
    return found


def sample(row: MethodRow, choice: int) -> dict[str, object]:
    return {a.name: SAMPLES[a.type][choice] for a in row.arguments if not a.reserved}


def built(row: MethodRow, arguments: Mapping[str, object]) -> Method:
    return method_class(row)(**arguments)


def test_the_file_is_what_the_generator_writes() -> None:
    assert gen_protocol.TARGET.read_text() == gen_protocol.generate()


@ROWS
def test_ids_and_names_come_from_the_table(row: MethodRow) -> None:
    found = method_class(row)
    assert (row.class_id, row.method_id, row.name) == (found.CLASS_ID, found.METHOD_ID, found.NAME)
    assert row.has_content == found.HAS_CONTENT
    assert METHOD_NAMES[row.class_id, row.method_id] == row.name


@ROWS
@pytest.mark.parametrize("choice", [0, 1])
def test_every_method_round_trips(row: MethodRow, choice: int) -> None:
    arguments = sample(row, choice)
    payload = built(row, arguments).encode()
    decoded = whole(payload)
    assert type(decoded) is method_class(row)
    assert {name: getattr(decoded, name) for name in arguments} == arguments
    assert decoded.encode() == payload


@ROWS
def test_every_bit_has_its_own_place(row: MethodRow) -> None:
    bits = [a.name for a in row.arguments if a.type == "bit" and not a.reserved]
    for name in bits:
        decoded = whole(built(row, dict.fromkeys(bits, False) | {name: True}).encode())
        assert [bit for bit in bits if getattr(decoded, bit)] == [name]


@ROWS
@pytest.mark.rule("WI-6")
def test_cut_short_anywhere_or_too_long_is_an_error(row: MethodRow) -> None:
    payload = built(row, sample(row, 0)).encode()
    for size in range(len(payload)):
        with pytest.raises(DecodeError) as caught:
            whole(payload[:size])
        assert caught.value.code == 501
    for trailing in (b"\0", b"more"):
        with pytest.raises(DecodeError) as caught:
            whole(payload + trailing)
        assert caught.value.detail.startswith("cannot decode <<")
        assert (caught.value.class_id, caught.value.method_id) == (row.class_id, row.method_id)


@ROWS
def test_octets_around_a_method_are_left_alone(row: MethodRow) -> None:
    payload = built(row, sample(row, 0)).encode()
    data = b"\x01\x00" + payload + b"\xce\x01"
    decoded = decode(data, 2, 2 + len(payload))
    assert decoded.encode() == payload


@pytest.mark.rule("WI-6")
@pytest.mark.parametrize(
    ("row", "name"),
    [(row, a.name) for row in METHODS for a in row.arguments if a.type == "shortstr"],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_malformed_utf8_in_any_short_string_is_501(row: MethodRow, name: str) -> None:
    reserved = {a.name: a.reserved for a in row.arguments}[name]
    if reserved:
        # A reserved string is written empty: give it one octet that is not UTF-8.
        head = row.class_id.to_bytes(2, "big") + row.method_id.to_bytes(2, "big")
        strings = [a for a in row.arguments if a.type == "shortstr"]
        before = b"".join(b"\0" for a in strings[: [a.name for a in strings].index(name)])
        after = b"\0" if any(a.type == "bit" for a in row.arguments) else b""
        payload = head + before + b"\x01\xff" + after
    else:
        payload = built(row, {name: "#"}).encode().replace(b"#", b"\xff")
    with pytest.raises(DecodeError) as caught:
        whole(payload)
    assert (caught.value.code, caught.value.detail) == (501, "Malformed UTF-8 in shortstr")
    assert (caught.value.class_id, caught.value.method_id) == (row.class_id, row.method_id)


def test_the_reply_text_of_bad_arguments_shows_their_octets() -> None:
    with pytest.raises(DecodeError, match=r"^cannot decode <<0,0,5>>$"):
        whole(b"\x00\x32\x00\x0a\x00\x00\x05")


@pytest.mark.parametrize(
    "ids", [(0, 0), (10, 12), (50, 52), (60, 41), (61, 10), (40, 41), (85, 12)]
)
def test_a_method_that_is_not_in_the_table_is_unknown(ids: tuple[int, int]) -> None:
    payload = ids[0].to_bytes(2, "big") + ids[1].to_bytes(2, "big") + b"any"
    with pytest.raises(UnknownMethod) as caught:
        whole(payload)
    assert (caught.value.class_id, caught.value.method_id) == ids
    assert caught.value.code == 503


@given(st.sampled_from(METHODS), st.binary(max_size=80))
def test_any_arguments_give_a_method_or_a_decode_error(row: MethodRow, junk: bytes) -> None:
    payload = row.class_id.to_bytes(2, "big") + row.method_id.to_bytes(2, "big") + junk
    try:
        decoded = whole(payload)
    except DecodeError:
        return
    assert type(decoded) is method_class(row)


def test_damaged_methods_give_a_method_or_a_decode_error() -> None:
    chance = random.Random(1)
    taken = refused = 0
    for row in METHODS:
        payload = built(row, sample(row, 0)).encode()
        for _ in range(50):
            raw = bytearray(payload)
            raw[chance.randrange(len(raw))] = chance.randrange(256)
            try:
                whole(bytes(raw))
                taken += 1
            except DecodeError:
                refused += 1
    assert taken
    assert refused


def test_constants_are_the_payloads_of_methods_without_arguments() -> None:
    found = 0
    for row in METHODS:
        if all(a.reserved for a in row.arguments):
            constant = getattr(methods, gen_protocol.constant_name(row))
            assert method_class(row)().encode() == constant
            found += 1
    assert found == 23


def test_known_octets_of_a_declare() -> None:
    declare = methods.QueueDeclare(
        queue="q", passive=True, exclusive=True, no_wait=True, arguments=table({"x-a": 1})
    )
    assert declare.encode() == (
        b"\x00\x32\x00\x0a\x00\x00\x01q\x15\x00\x00\x00\x09\x03x-aI\x00\x00\x00\x01"
    )


def test_known_octets_of_a_delivery() -> None:
    deliver = methods.BasicDeliver(
        consumer_tag="c", delivery_tag=2**64 - 1, redelivered=True, exchange="", routing_key="k"
    )
    assert deliver.encode() == b"\x00\x3c\x00\x3c\x01c" + b"\xff" * 8 + b"\x01\x00\x01k"


def test_known_octets_of_methods_with_reserved_arguments() -> None:
    assert methods.CONNECTION_OPEN_OK == b"\x00\x0a\x00\x29\x00"
    assert methods.CHANNEL_OPEN_OK == b"\x00\x14\x00\x0b\x00\x00\x00\x00"
    assert methods.BASIC_GET_EMPTY == b"\x00\x3c\x00\x48\x00"
    assert methods.EXCHANGE_UNBIND_OK == b"\x00\x28\x00\x33"
    assert methods.ConnectionOpen(virtual_host="/").encode() == b"\x00\x0a\x00\x28\x01/\x00\x00"


def test_the_table_has_no_row_twice() -> None:
    assert len({(row.class_id, row.method_id) for row in METHODS}) == len(METHODS)
    assert len({row.name for row in METHODS}) == len(METHODS)


def test_unbind_of_a_queue_has_no_nowait() -> None:
    nowait = {row.name for row in METHODS if row.has_nowait}
    assert nowait == {
        "exchange.declare",
        "exchange.delete",
        "exchange.bind",
        "exchange.unbind",
        "queue.declare",
        "queue.bind",
        "queue.purge",
        "queue.delete",
        "basic.consume",
        "basic.cancel",
        "confirm.select",
    }


@pytest.mark.parametrize(
    "method",
    [
        methods.BasicAck(delivery_tag=-1),
        methods.BasicAck(delivery_tag=2**64),
        methods.BasicQos(prefetch_count=65536),
        methods.QueueDeclare(queue="q" * 256),
    ],
)
def test_what_does_not_fit_is_not_written(method: Method) -> None:
    with pytest.raises(ValueError, match=r"does not fit|short string"):
        method.encode()
