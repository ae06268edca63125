"""Why something waits, over HTTP and as metrics."""

import pytest

from tests.support.fixtures import StartBroker
from tests.support.http import SETTINGS, Managed, managed
from warren.flow import Reason


@pytest.mark.rule("CF-14")
def test_who_does_not_wait(managed_broker: Managed) -> None:
    site = managed_broker
    assert site.get("/api/why") == {"subject": "", "steps": [], "unlisted": 0, "bottlenecks": []}
    with site.broker.connect() as client:
        channel = client.channel()
        channel.queue_declare("odd/queue")
        found = site.get("/api/why/queue/odd%2Fqueue")
        assert found["subject"] == "queue 'odd/queue' in vhost '/'"
        assert found["steps"] == []
        (connection,) = site.until("/api/connections", lambda every: every)
        name = connection["name"].replace(" ", "%20")
        assert " -> " in connection["name"]
        assert site.get(f"/api/why/connection/{name}")["steps"] == []
        assert site.get(f"/api/why/channel/{name}%20(1)")["steps"] == []
    assert site.ask("GET", "/api/why/queue/gone").status == 404
    assert site.ask("GET", "/api/why/queue/odd%2Fqueue?vhost=other").status == 404
    assert site.ask("GET", "/api/why/thing/x").status == 400
    assert site.ask("GET", "/api/why", login=None).status == 401


@pytest.mark.slow
def test_who_waits_and_how_long_in_all(start_broker: StartBroker) -> None:
    pytest.importorskip("uvicorn")
    site = managed(start_broker({**SETTINGS, "vm_memory_high_watermark.absolute": 0}))
    site.until("/api/nodes", lambda nodes: nodes[0]["mem_alarm"])
    with site.broker.connect() as client:
        channel = client.channel()
        channel.publish(b"x", routing_key="q")
        site.until("/api/connections", lambda every: every and every[0]["state"] == "blocked")
        (step,) = site.get("/api/why")["steps"]
        assert (step["reason"], step["state"]) == ("memory_alarm", "blocked")
        text = site.ask("GET", "/metrics", login=None, port=site.metrics_port).body.decode()
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert found['warren_waits{reason="memory_alarm"}'] == "1"
        for reason in Reason:
            assert float(found[f'warren_wait_seconds_total{{reason="{reason.value}"}}']) >= 0
            if reason is not Reason.MEMORY_ALARM:
                assert found[f'warren_waits{{reason="{reason.value}"}}'] == "0"
