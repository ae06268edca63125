"""Messages published and got over HTTP."""

import base64
from typing import Any

import pytest

from tests.support.http import Answer, Managed, part

pytestmark = pytest.mark.rule("O-4.11")
RIGHT: dict[str, Any] = {
    "properties": {},
    "routing_key": "q",
    "payload": "x",
    "payload_encoding": "string",
}


@pytest.fixture
def site(managed_broker: Managed) -> Managed:
    assert managed_broker.ask("PUT", "/api/queues/%2F/q", {}).status in (201, 204)
    assert managed_broker.ask("DELETE", "/api/queues/%2F/q/contents").status == 204
    return managed_broker


def send(site: Managed, exchange: str = "amq.default", **changes: Any) -> Answer:
    path = f"/api/exchanges/%2F/{part(exchange)}/publish"
    return site.ask("POST", path, {**RIGHT, **changes})


def take(site: Managed, mode: str = "ack_requeue_false", **changes: Any) -> Any:
    asked = {"ackmode": mode, "count": 10, "encoding": "auto", **changes}
    answer = site.ask("POST", "/api/queues/%2F/q/get", asked)
    assert answer.status == 200, answer.body
    return answer.json()


def told(answer: Answer) -> tuple[int, str, Any]:
    body = answer.json()
    return answer.status, body["error"], body["reason"]


def test_a_message_goes_in_and_comes_out(site: Managed) -> None:
    properties = {
        "delivery_mode": 2,
        "priority": 3,
        "timestamp": 1_700_000_000,
        "content_type": "text/plain",
        "app_id": "me",
        "headers": {"a": "b", "n": 1, "l": [1, "2", {"t": True}], "f": 1.5},
    }
    answer = send(site, properties=properties, payload="é")
    assert (answer.status, answer.json()) == (200, {"routed": True})
    assert take(site) == [
        {
            "payload_bytes": 2,
            "redelivered": False,
            "exchange": "",
            "routing_key": "q",
            "message_count": 0,
            "properties": properties,
            "payload": "é",
            "payload_encoding": "string",
        }
    ]
    assert take(site) == []
    # A client over AMQP sees the types that RabbitMQ gives them.
    assert send(site, properties=properties).status == 200
    with site.broker.connect() as client:
        message = client.channel().get("q", no_ack=True)
        client.close()
    assert message.properties == properties
    kinds = {name: field.kind for name, field in message.typed_headers.items()}
    assert kinds == {"a": "S", "n": "l", "l": "A", "f": "d"}


def test_what_has_no_queue_is_not_routed(site: Managed) -> None:
    assert send(site, routing_key="nowhere").json() == {"routed": False}
    assert send(site, "amq.fanout").json() == {"routed": False}
    assert send(site, properties=[]).json() == {"routed": True}
    assert take(site)[0]["properties"] == []


def test_octets(site: Managed) -> None:
    octets = bytes(range(256))
    encoded = base64.b64encode(octets).decode()
    assert send(site, payload=encoded, payload_encoding="base64").status == 200
    (shown,) = take(site, "ack_requeue_true")
    assert (shown["payload"], shown["payload_encoding"]) == (encoded, "base64")
    assert shown["payload_bytes"] == 256
    # What is left of it is text.
    (shown,) = take(site, "ack_requeue_true", truncate="16")
    assert (shown["payload"], shown["payload_encoding"]) == (octets[:16].decode(), "string")
    assert shown["payload_bytes"] == 256
    (shown,) = take(site, truncate=2, encoding="base64")
    assert (shown["payload"], shown["payload_encoding"]) == ("AAE=", "base64")


def test_large_payloads(site: Managed) -> None:
    payload = "x" * 2_900_000
    assert send(site, payload=payload).json() == {"routed": True}
    assert take(site)[0]["payload"] == payload
    assert told(send(site, payload="x" * 3_000_001))[:2] == (413, "too_large")
    assert send(site).json() == {"routed": True}


@pytest.mark.parametrize(
    ("mode", "left", "again"),
    [
        ("ack_requeue_true", ["1", "2", "3"], [True, True, False]),
        ("reject_requeue_true", ["1", "2", "3"], [True, True, False]),
        ("ack_requeue_false", ["3"], [False]),
        ("reject_requeue_false", ["3"], [False]),
    ],
)
def test_what_becomes_of_them(site: Managed, mode: str, left: list[str], again: list[bool]) -> None:
    for payload in ("1", "2", "3"):
        send(site, payload=payload)
    shown = take(site, mode, count=2)
    assert [one["payload"] for one in shown] == ["1", "2"]
    assert [one["message_count"] for one in shown] == [2, 1]
    rest = take(site)
    assert [one["payload"] for one in rest] == left
    assert [one["redelivered"] for one in rest] == again


def test_rejected_ones_are_dead_lettered_and_others_go_to_consumers(site: Managed) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    assert site.ask("PUT", "/api/queues/%2F/dying", {"arguments": dead}).status == 201
    assert send(site, routing_key="dying").json() == {"routed": True}
    asked = {"ackmode": "reject_requeue_false", "count": 1, "encoding": "auto"}
    assert len(site.ask("POST", "/api/queues/%2F/dying/get", asked).json()) == 1
    (letter,) = take(site, "reject_requeue_true")
    assert letter["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    with site.broker.connect() as client:
        channel = client.channel()
        channel.consume("q", no_ack=True)
        assert channel.recv_delivery().redelivered
        client.close()


def test_messages_that_are_on_the_disk(site: Managed) -> None:
    """A publish waits until it is safe, and a get until what it takes is in memory."""
    lazy = {"durable": True, "arguments": {"x-queue-mode": "lazy"}}
    place = "/api/queues/%2F/lazy"
    assert site.ask("PUT", place, lazy).status == 201
    with site.broker.connect() as client:
        channel = client.channel()
        channel.confirm_select()
        for number in range(3000):
            channel.publish(b"%d" % number, routing_key="lazy", delivery_mode=2)
        channel.wait_confirms(3000)
        client.close()
    kept: dict[str, Any] = {
        "properties": {"delivery_mode": 2},
        "routing_key": "lazy",
        "payload": "3000",
    }
    assert send(site, **kept).json() == {"routed": True}
    asked = {"ackmode": "ack_requeue_true", "count": 5000, "encoding": "auto"}
    for _ in range(2):
        shown = site.ask("POST", f"{place}/get", asked).json()
        assert [int(one["payload"]) for one in shown] == list(range(3001))
    shown = site.ask("POST", f"{place}/get", {**asked, "ackmode": "ack_requeue_false"}).json()
    assert len(shown) == 3001
    assert site.ask("POST", f"{place}/get", asked).json() == []
    assert site.ask("DELETE", place).status == 204


def test_a_queue_that_is_full_refuses(site: Managed) -> None:
    full = {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}
    assert site.ask("PUT", "/api/queues/%2F/full", full).status == 201
    assert send(site, routing_key="full").json() == {"routed": True}
    reason = "rejected Unable to publish message. Check queue limits."
    assert told(send(site, routing_key="full")) == (400, "bad_request", reason)
    assert site.ask("DELETE", "/api/queues/%2F/full").status == 204


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": 1}, "payload_not_string"),
        ({"payload_encoding": "rot13"}, ["unsupported_encoding", "rot13"]),
        ({"payload_encoding": "base64", "payload": "%"}, ["not_base64", "%"]),
        ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"priority": 256}}, ["not_int", "priority"]),
        ({"properties": {"app_id": 1}}, ["not_string", "app_id"]),
        ({"properties": {"headers": {"x": None}}}, "null_not_allowed"),
        (
            {"properties": {"delivery_mode": 3}},
            "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,3}",
        ),
        (
            {"properties": {"user_id": "somebody"}},
            "406 PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated "
            "user was 'guest'",
        ),
    ],
)
def test_messages_that_cannot_be(site: Managed, changes: dict[str, Any], reason: object) -> None:
    assert told(send(site, **changes)) == (400, "bad_request", reason)
    assert take(site) == []


def test_what_is_missing(site: Managed) -> None:
    reason = "404 NOT_FOUND - no exchange 'none' in vhost '/'"
    assert told(send(site, "none")) == (400, "bad_request", reason)
    asked = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    answer = site.ask("POST", "/api/queues/%2F/none/get", asked)
    assert told(answer) == (404, "not_found", "NOT_FOUND - no queue 'none' in vhost '/'")
    answer = site.ask("POST", "/api/queues/nowhere/q/get", asked)
    assert told(answer) == (404, "Object Not Found", "Not Found")
    answer = site.ask("POST", "/api/exchanges/%2F/amq.default/publish", {"payload": ""})
    keys = ("routing_key", "properties", "payload_encoding")
    told_keys = "[" + ",\n ".join(f"{{key_missing,{key}}}" for key in keys) + "]"
    assert told(answer) == (400, "bad_request", told_keys)
    for changes in ({"ackmode": "?"}, {"count": -1}, {"count": "many"}, {"encoding": "hex"}):
        answer = site.ask("POST", "/api/queues/%2F/q/get", {**asked, **changes})
        assert told(answer)[:2] == (400, "bad_request")
    assert site.ask("GET", "/api/queues/%2F/q/get").status == 405


def test_the_rights_of_who_asks_count(site: Managed) -> None:
    new = {"password": "p", "tags": "management"}
    assert site.ask("PUT", "/api/users/reader", new).status == 201
    login = ("reader", "p")
    path, publish = "/api/queues/%2F/q/get", "/api/exchanges/%2F/amq.default/publish"
    asked = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    # A virtual host in which there is no permission at all.
    assert site.ask("POST", path, asked, login=login).status == 401
    only = {"configure": "", "write": "", "read": "^other$"}
    assert site.ask("PUT", "/api/permissions/%2F/reader", only).status == 201
    place = "in vhost '/' refused for user 'reader'"
    assert told(site.ask("POST", path, asked, login=login)) == (
        401,
        "not_authorised",
        f"ACCESS_REFUSED - access to queue 'q' {place}",
    )
    assert told(site.ask("POST", publish, RIGHT, login=login)) == (
        400,
        "bad_request",
        f"403 ACCESS_REFUSED - access to exchange 'amq.default' {place}",
    )
    assert site.ask("DELETE", "/api/users/reader").status == 204


def test_aliveness(site: Managed) -> None:
    for _ in range(2):
        assert site.get("/api/aliveness-test/%2F") == {"status": "ok"}
    found = site.get("/api/queues/%2F/aliveness-test")
    assert (found["durable"], found["auto_delete"]) == (False, False)
    assert site.ask("GET", "/api/aliveness-test/nowhere").status == 404
    # With other arguments it cannot be declared again.
    place = "/api/queues/%2F/aliveness-test"
    assert site.ask("DELETE", place).status == 204
    assert site.ask("PUT", place, {"durable": True}).status == 201
    status, _, reason = told(site.ask("GET", "/api/aliveness-test/%2F"))
    assert status == 400
    assert reason.startswith("406 PRECONDITION_FAILED - inequivalent arg 'durable'")
    assert site.ask("DELETE", place).status == 204


@pytest.mark.rule("O-10.1")
def test_they_are_traced(site: Managed) -> None:
    with site.broker.connect() as client:
        traces = client.channel()
        queue = traces.queue_declare(exclusive=True).queue
        traces.queue_bind(queue, "amq.rabbitmq.trace", "#")
        traces.consume(queue, no_ack=True)
        assert site.ask("PUT", "/api/vhosts/%2F", {"tracing": True}).status == 204
        send(site)
        take(site)
        for key in ("publish.", "deliver.q"):
            headers = traces.recv_delivery(routing_key=key).headers
            assert (headers["user"], headers["connection"]) == ("guest", "HTTP API")
        assert site.ask("PUT", "/api/vhosts/%2F", {"tracing": False}).status == 204
        client.close()


def test_nobody_publishes_past_an_alarm(site: Managed) -> None:
    site.broker.control("set_alarm", source="memory")
    answer = send(site)
    assert told(answer) == (
        503,
        "service_unavailable",
        "publishers are blocked: low on memory",
    )
    site.broker.control("clear_alarm", source="memory")
    assert send(site).json() == {"routed": True}
