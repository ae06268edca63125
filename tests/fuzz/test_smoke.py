"""Every fuzz target on its corpus and on a sample of inputs, the same ones each time."""

import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.target import TARGETS, pieces, seeds, told
from tests.support.machine import Machine, method

# Inputs per target; `make fuzz` searches on.
COUNTS: Final = {
    "handshake": 150,
    "octets": 150,
    "session": 60,
    "splits": 150,
    "methods": 300,
    "tables": 300,
    "properties": 300,
}
FACTOR: Final = float(os.environ.get("WARREN_FUZZ_FACTOR", "1"))
CORPUS: Final = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_any_octets_give_frames_or_a_protocol_error(name: str) -> None:
    """No other exception, bounded memory, and a second connection that is served."""
    target, chance = TARGETS[name], random.Random(name)
    start = seeds(name)
    for data in [*kept(name), *start]:
        target(data)
    for _ in range(int(COUNTS[name] * FACTOR)):
        if chance.random() < 0.6:
            data = chance.randbytes(chance.randrange(700))
        else:
            changed = bytearray(chance.choice(start))
            for _ in range(chance.randrange(1, 10)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            data = bytes(changed)
        target(data)


def test_pieces_are_all_of_the_octets() -> None:
    data = bytes(range(256)) * 100
    for way in range(16):
        cut = pieces(data, way)
        assert b"".join(cut) == data
        assert (len(cut) == 1) == (way == 0)


def test_the_story_of_a_session_is_not_empty() -> None:
    """The comparison of splits compares something."""
    sent = method(1, "channel.open") + method(1, "queue.declare", queue="q")
    assert str(told(sent, 0)).count("-ok") == 2
    assert told(sent, 0) != told(sent[:-1], 0)
    assert Machine().log.names() == []
