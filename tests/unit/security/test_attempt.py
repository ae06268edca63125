"""Login attempts: counts, and the brake on an address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.security import Attempts, Braked, Counts, address_of

SECOND_NS = 1_000_000_000
HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_attempts_are_counted_by_protocol() -> None:
    attempts = Attempts()
    attempts.succeeded("amqp091")
    attempts.failed("amqp091", HERE, 0)
    attempts.failed("http", HERE, 0)
    assert attempts.by_protocol == {"amqp091": Counts(2, 1, 1), "http": Counts(1, 0, 1)}
    assert attempts.braked() == []


def fail(attempts: Attempts, times: int, now_ns: int = 0, peer: str = HERE) -> list[Braked]:
    told = [attempts.failed("amqp091", peer, now_ns) for _ in range(times)]
    return [one for one in told if one is not None]


@pytest.mark.rule("AU-1")
def test_an_address_that_fails_too_often_is_held_and_others_are_not() -> None:
    attempts = Attempts(10)
    assert fail(attempts, 19) == []
    assert not attempts.held(HERE, 0)
    assert fail(attempts, 5) == [Braked(HERE, 0)]
    assert attempts.held(HERE, 0)
    assert not attempts.held(THERE, 0)
    assert attempts.held(HERE, 0)
    assert (attempts.dropped, attempts.braked()) == (2, [Braked(HERE, 2)])


def test_the_allowance_comes_back_with_time() -> None:
    attempts = Attempts(10)
    fail(attempts, 20)
    assert attempts.held(HERE, 0)
    assert attempts.held(HERE, SECOND_NS // 20)
    assert not attempts.held(HERE, SECOND_NS // 5)
    assert attempts.sweep(SECOND_NS) == []
    assert attempts.sweep(4 * SECOND_NS) == [Braked(HERE, 2)]
    assert (attempts.braked(), attempts.sweep(5 * SECOND_NS)) == ([], [])
    assert fail(attempts, 19, 5 * SECOND_NS) == []


def test_an_address_that_was_not_held_is_forgotten_without_a_word() -> None:
    attempts = Attempts(10)
    fail(attempts, 3)
    assert attempts.sweep(SECOND_NS) == []
    assert attempts._addresses == {}


def test_without_a_rate_nobody_is_held() -> None:
    attempts = Attempts(None)
    assert fail(attempts, 10_000) == []
    assert not attempts.held(HERE, 0)
    assert attempts._addresses == {}


def test_the_table_is_bounded_and_forgets_who_failed_longest_ago() -> None:
    attempts = Attempts(1, addresses_max=3)
    for number in (1, 2, 3, 1, 4):
        fail(attempts, 2, peer=f"192.0.2.{number}")
    assert list(attempts._addresses) == ["192.0.2.3", "192.0.2.1", "192.0.2.4"]


@given(rate=st.integers(1, 500), steps=st.lists(st.integers(0, 400), max_size=40))
def test_failures_are_bounded_whatever_the_times(rate: int, steps: list[int]) -> None:
    """An address that tries whenever it is let in fails the burst and the rate, no more."""
    attempts = Attempts(rate)
    now_ms = failures = 0
    for step in steps:
        now_ms += step
        for _ in range(50):
            if not attempts.held(HERE, now_ms * 1_000_000):
                failures += 1
                attempts.failed("amqp091", HERE, now_ms * 1_000_000)
    assert failures <= 2 * rate + rate * now_ms / 1000 + 1


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense:", "nonsense:"),
        ("", ""),
    ],
)
def test_what_an_allowance_belongs_to(peer: str, address: str) -> None:
    assert address_of(peer) == address
