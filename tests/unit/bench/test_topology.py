"""What a queue is expected to get follows from the options alone."""

import shlex

import pytest

from warren.bench.arguments import parse
from warren.bench.message import key_text, queue_name
from warren.bench.topology import build_track, consumed_queues, is_loss_known, share


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
        ("--queues 3 --producers 2 --every-queue", [[3, 3], [2, 2], [2, 2]]),
        ("--queues 1 --producers 2 --every-queue", [[7, 7]]),
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


@pytest.mark.parametrize("queues", [1, 3, 1000, 1001])
def test_the_keys_of_every_queue_are_the_names_of_the_queues(queues: int) -> None:
    options = parse(["--queues", str(queues), "--every-queue", "--prefix", "q."])
    names = [queue_name(options, index) for index in range(queues)]
    assert names == [key_text(options, 1, number) for number in range(queues)]
    assert len(set(names)) == queues
    assert key_text(options, 0, queues) == names[0]


def test_consumers_share_every_queue() -> None:
    assert len(consumed_queues(parse(shlex.split("--queues 7 --consumers 2 --every-queue")))) == 7
    assert len(consumed_queues(parse(shlex.split("--queues 7 --consumers 2")))) == 2
    only = parse(shlex.split("--queues 7 --publish-only --every-queue"))
    assert len(consumed_queues(only)) == 0


def test_loss_is_unknown_with_own_patterns() -> None:
    assert not is_loss_known(parse(shlex.split("--exchange topic --binding a.*")))
    assert is_loss_known(parse([]))
