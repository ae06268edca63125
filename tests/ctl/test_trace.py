"""Tracing by command: what is printed, what is listed, and how long it lasts."""

import pytest

from tests.ctl.conftest import Ctl
from tests.support.broker import Broker

pytestmark = pytest.mark.rule("O-10.1")


def test_tracing_is_turned_on_and_off(ctl: Ctl) -> None:
    assert ctl("add_vhost", "other").code == 0
    on = ctl("trace_on", "-p", "other")
    assert on.code == 0
    assert on.out == 'Starting tracing for vhost "other" ...\nTrace enabled for vhost other\n'
    assert ctl.rows("list_vhosts", "name", "tracing") == [["/", "false"], ["other", "true"]]
    off = ctl("trace_off", "-p", "other")
    assert off.out == 'Stopping tracing for vhost "other" ...\nTrace disabled for vhost other\n'
    assert ctl.rows("list_vhosts", "name", "tracing") == [["/", "false"], ["other", "false"]]
    assert ctl("delete_vhost", "other").code == 0


def test_a_vhost_that_there_is_not(ctl: Ctl) -> None:
    for verb in ("trace_on", "trace_off"):
        refused = ctl(verb, "-p", "nowhere")
        assert refused.code == 65
        assert "Virtual host 'nowhere' does not exist" in refused.err


@pytest.mark.rule("O-1.11")
def test_tracing_ends_with_the_node(ctl_fresh: Ctl, fresh: Broker) -> None:
    assert ctl_fresh("trace_on").code == 0
    assert ctl_fresh.rows("list_vhosts", "tracing") == [["true"]]
    fresh.restart()
    assert ctl_fresh.rows("list_vhosts", "tracing") == [["false"]]
