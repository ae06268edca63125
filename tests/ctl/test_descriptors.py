"""A node without file descriptors: newcomers wait, and whoever is there goes on."""

import os
import resource

import pytest

from tests.ctl.conftest import Ctl
from tests.interop.target import until
from tests.support.broker import Broker


@pytest.mark.slow
@pytest.mark.rule("AL-5")
def test_without_descriptors_nobody_is_accepted_and_publishers_go_on(
    ctl_fresh: Ctl, fresh: Broker
) -> None:
    assert fresh.process is not None
    pid = fresh.process.pid
    publisher = fresh.connect()
    channel = publisher.channel()
    channel.queue_declare("q")
    channel.call("confirm.select")
    # With none in between it would be closed on somebody: the command line needs one, too.
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken, before[1]))
    waiting = fresh.raw()
    until(lambda: "listener.exhausted" in fresh.log_text())
    for _ in range(3):
        channel.publish(b"x", routing_key="q")
        channel.wait_for("basic.ack")
    assert waiting.inbox == []
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    waiting.open().channel()
    # It is a state of the listeners, not an alarm: no publisher was blocked.
    assert ctl_fresh("check_local_alarms").code == 0
    assert publisher.inbox == []
