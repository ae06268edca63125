"""What a queue is expected to get follows from the options alone."""

import shlex

import pytest

from warren.bench.arguments import parse
from warren.bench.message import key_text
from warren.bench.topology import build_track, is_loss_known, share


@pytest.mark.parametrize(
    ("words", "shares"),
    [
        ("--queues 2 --producers 3", [[7, 0, 7], [0, 7, 0]]),
        ("--queues 2 --producers 1 --exchange fanout", [[7], [7]]),
        ("--queues 2 --producers 1 --exchange headers", [[7], [7]]),
        ("--queues 2 --producers 1 --exchange topic --routing-keys 5", [[7], [7]]),
        ("--queues 3 --producers 1 --exchange direct", [[7], [0], [0]]),
        ("--queues 3 --producers 1 --exchange direct --routing-keys 9", [[3], [2], [2]]),
        ("--queues 3 --exchange topic --routing-keys 9 --bind-each-key", [[3], [2], [2]]),
    ],
)
def test_share(words: str, shares: list[list[int]]) -> None:
    options = parse(shlex.split(words))
    assert [
        [share(options, queue, producer, 7) for producer in range(options.producers)]
        for queue in range(options.queues)
    ] == shares


def test_share_by_key_is_what_the_bindings_route() -> None:
    options = parse(shlex.split("--queues 3 --exchange direct --routing-keys 12"))
    for queue in range(3):
        track = build_track(options, queue)
        numbers = [
            number
            for number in range(50)
            if int(key_text(options, 0, number).removeprefix("perf.")) % 3 == queue
        ]
        assert len(numbers) == share(options, queue, 0, 50)
        assert numbers == list(range(int(track.start), 50, int(track.step)))


def test_loss_is_unknown_with_own_patterns() -> None:
    assert not is_loss_known(parse(shlex.split("--exchange topic --binding a.*")))
    assert is_loss_known(parse([]))
