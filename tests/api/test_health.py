"""Health checks and metrics over HTTP."""

import pytest

from tests.support.fixtures import StartBroker
from tests.support.http import SETTINGS, Managed, managed

CHECKS = "/api/health/checks"


@pytest.mark.rule("O-9.1")
def test_a_healthy_node_says_so(managed_broker: Managed) -> None:
    site = managed_broker
    for check in ("alarms", "local-alarms", "virtual-hosts", "certificate-expiration/1/months"):
        assert site.get(f"{CHECKS}/{check}") == {"status": "ok"}
    for check in ("node-is-mirror-sync-critical", "node-is-quorum-critical"):
        assert site.get(f"{CHECKS}/{check}")["status"] == "ok"
    port = site.broker.port
    assert site.get(f"{CHECKS}/port-listener/{port}") == {"status": "ok", "port": port}
    found = site.get(f"{CHECKS}/protocol-listener/amqp091")
    assert found == {"status": "ok", "protocol": "amqp"}


def test_the_older_check_and_a_slash_at_the_end(managed_broker: Managed) -> None:
    site = managed_broker
    (node,) = site.get("/api/nodes/")
    for path in ("", "/", f"/{node['name']}", f"/{node['name']}/"):
        assert site.get(f"/api/healthchecks/node{path}") == {"status": "ok"}
    assert site.ask("GET", "/api/healthchecks/node/other@host").status == 404
    assert site.ask("GET", "/api/nodes//").status == 404


@pytest.mark.rule("O-9.1")
def test_a_check_that_fails_says_why(managed_broker: Managed) -> None:
    site = managed_broker
    answer = site.ask("GET", f"{CHECKS}/port-listener/1")
    assert answer.status == 503
    found = answer.json()
    assert (found["status"], found["reason"], found["missing"]) == (
        "failed",
        "No active listener",
        1,
    )
    assert site.broker.port in found["ports"]
    answer = site.ask("GET", f"{CHECKS}/protocol-listener/mqtt")
    assert (answer.status, answer.json()["missing"]) == (503, "mqtt")
    answer = site.ask("GET", f"{CHECKS}/certificate-expiration/1/eons")
    assert answer.status == 400
    assert answer.json()["reason"].startswith("Time unit not recognised.")
    assert site.ask("GET", f"{CHECKS}/port-listener/x").status == 400


@pytest.mark.slow
def test_an_alarm_is_told(start_broker: StartBroker) -> None:
    pytest.importorskip("uvicorn")
    site = managed(start_broker({**SETTINGS, "vm_memory_high_watermark.absolute": 0}))
    site.until("/api/nodes", lambda nodes: nodes[0]["mem_alarm"])
    answer = site.ask("GET", f"{CHECKS}/alarms")
    assert answer.status == 503
    assert answer.json()["alarms"][0]["resource"] == "memory"
    text = site.ask("GET", "/metrics", login=None, port=site.metrics_port).body.decode()
    assert "\nrabbitmq_alarms_memory_used_watermark 1\n" in text


@pytest.mark.slow
@pytest.mark.rule("O-6.2", "DA-4")
def test_a_full_disk_is_told(start_broker: StartBroker) -> None:
    pytest.importorskip("uvicorn")
    limit = 1 << 50
    site = managed(start_broker({**SETTINGS, "disk_free_limit.absolute": limit}))
    (node,) = site.until("/api/nodes", lambda nodes: nodes[0]["disk_free_alarm"] and nodes)
    assert node["disk_free_limit"] == limit
    assert 0 < node["disk_free"] < limit
    assert not node["mem_alarm"]
    for check in ("alarms", "local-alarms"):
        answer = site.ask("GET", f"{CHECKS}/{check}")
        assert answer.status == 503
        assert [one["resource"] for one in answer.json()["alarms"]] == ["disk"]
    text = site.ask("GET", "/metrics", login=None, port=site.metrics_port).body.decode()
    found = samples(text)
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == 1
    assert found["rabbitmq_alarms_memory_used_watermark"] == 0
    assert found["rabbitmq_disk_space_available_limit_bytes"] == limit
    assert found["rabbitmq_disk_space_available_bytes"] == node["disk_free"]
    site.broker.control("set_disk_free_limit", absolute=0)
    site.until("/api/nodes", lambda nodes: not nodes[0]["disk_free_alarm"])
    assert site.get(f"{CHECKS}/alarms") == {"status": "ok"}


def samples(text: str) -> dict[str, float]:
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


@pytest.mark.rule("O-6.1", "O-6.2")
def test_metrics_have_rabbitmqs_names(managed_broker: Managed) -> None:
    site = managed_broker
    with site.broker.connect() as client:
        channel = client.channel()
        channel.queue_declare('odd "name"\\')
        channel.publish(b"12345", routing_key='odd "name"\\')
        channel.sync()
        site.until("/api/queues", lambda all_: all_ and all_[0].get("messages") == 1)
        site.until("/api/channels", lambda all_: len(all_) == 1)
    answer = site.ask("GET", "/metrics", login=None, port=site.metrics_port)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"
    found = samples(answer.body.decode())
    assert found["rabbitmq_queue_messages"] == 1
    assert found["rabbitmq_queue_messages_ready_bytes"] == 5
    assert found["rabbitmq_queues"] == 1
    assert any(name.startswith("rabbitmq_identity_info{rabbitmq_node=") for name in found)
    assert any(name.startswith("rabbitmq_build_info{rabbitmq_version=") for name in found)
    name = r'rabbitmq_queue_messages{vhost="/",queue="odd \"name\"\\"}'
    assert name not in found
    answer = site.ask("GET", "/metrics/per-object", login=None, port=site.metrics_port)
    assert samples(answer.body.decode())[name] == 1
    # The port of metrics is for nothing else; the other one has them, too.
    assert site.ask("GET", "/api/overview", port=site.metrics_port).status == 404
    assert site.ask("GET", "/metrics", login=None).status == 200
