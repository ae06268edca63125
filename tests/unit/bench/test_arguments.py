"""Options: URI, size mix, what is refused, and that every scenario of the benchmark parses."""

import shlex

import pytest

from tools.bench.scenario import SCENARIOS, Step
from warren.bench.arguments import parse
from warren.bench.option import Address, parse_argument, parse_octets, parse_sizes, parse_uri


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("amqp://h", Address("h", 5672, "guest", "guest", "/", False)),
        ("amqp://h/", Address("h", 5672, "guest", "guest", "/", False)),
        ("amqps://u:p%40s@h:99/a%2fb", Address("h", 99, "u", "p@s", "a/b", True)),
        ("amqps://h/v", Address("h", 5671, "guest", "guest", "v", True)),
    ],
)
def test_uri(text: str, address: Address) -> None:
    assert parse_uri(text) == address


def test_a_mix_is_spread_evenly_by_its_weights() -> None:
    cycle = parse_sizes("12:50,128:30,1k:20")
    assert sorted(cycle) == [12] * 5 + [128] * 3 + [1024] * 2
    assert all(cycle[at : at + 3] != (12, 12, 12) for at in range(len(cycle)))


@pytest.mark.parametrize(("text", "octets"), [("12", 12), ("4k", 4096), ("2M", 2 * 1024 * 1024)])
def test_octets(text: str, octets: int) -> None:
    assert parse_octets(text) == octets


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=true", ("a", True)),
        ("a=5", ("a", 5)),
        ("a=lazy", ("a", "lazy")),
        ("a=x=y", ("a", "x=y")),
    ],
)
def test_queue_argument(text: str, value: tuple[str, object]) -> None:
    assert parse_argument(text) == value


@pytest.mark.parametrize(
    "words",
    [
        "--size 11",
        "--latency --size 19",
        "--size 12:0",
        "--size big",
        "--uri http://host",
        "--routing-keys 5",
        "--prefetch 10 --ack-every 11",
        "--frame-max 4095",
        "--consumer-channel 0",
        "--consumer-channel 2040+ --consumers 10",
        "--bind-each-key --exchange direct",
        "--binding # --exchange fanout",
        "--drain --latency",
        "--drain --publish-only",
        "--autoack --ack-every 1",
        "--queue-arg x",
        "--producers 0",
    ],
)
def test_refused_with_status_2(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(shlex.split(words))
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_run_has_an_end_without_being_told() -> None:
    assert parse([]).seconds == 10
    assert parse(["--messages", "5"]).seconds == 0


def test_no_consumers_means_publish_only() -> None:
    assert parse(["--consumers", "0"]).mode == "publish-only"
    assert parse(["--publish-only"]).consumers == 0


def test_direct_keys_are_a_multiple_of_the_queues() -> None:
    options = parse(shlex.split("--exchange direct --routing-keys 100 --queues 3"))
    assert options.routing_keys == 102


@pytest.mark.parametrize(("keys", "width"), [(1, 0), (2, 3), (1000, 3), (1001, 6), (10**6, 6)])
def test_key_width_holds_the_highest_key(keys: int, width: int) -> None:
    assert parse(shlex.split(f"--exchange topic --routing-keys {keys}")).key_width == width


LOADS = [step for scenario in SCENARIOS for step in scenario.steps if step.deed == "load"]


@pytest.mark.parametrize("step", LOADS)
def test_scenarios_parse(step: Step) -> None:
    assert parse(shlex.split(step.options)).producers >= 1
