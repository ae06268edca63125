"""Memory that was freed goes back to the system."""

import ctypes
from typing import Final

import pytest

from warren.runtime import allocator
from warren.runtime.process import resident_bytes

COUNT: Final = 50_000


def has_trim() -> bool:
    return hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.rule("MA-11")
@pytest.mark.skipif(not has_trim(), reason="not the C library of GNU")
def test_what_was_freed_below_something_that_stays_is_returned() -> None:
    bodies = [bytes(1100) for _ in range(COUNT)]
    stays = bytes(1100)
    full = resident_bytes()
    del bodies
    allocator.give_back()
    assert resident_bytes() < full - COUNT * 1100 * 8 // 10
    assert len(stays) == 1100


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: None) -> object:
        raise OSError("there is no such library")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not allocator.tune()
    allocator.give_back()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.tune()
    allocator.give_back()
