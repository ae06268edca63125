"""Tests of Warren; `tests.support` holds what several kinds of test share."""
