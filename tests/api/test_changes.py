"""Changes over HTTP: what they answer, and what there is afterwards."""

import pytest

from tests.support.http import Managed, part


@pytest.fixture
def site(managed_broker: Managed) -> Managed:
    return managed_broker


@pytest.mark.rule("O-4.2")
def test_users(site: Managed) -> None:
    new = {"password": "one", "tags": "management"}
    assert site.ask("PUT", "/api/users/bob", new).status == 201
    assert site.get("/api/whoami", login=("bob", "one"))["tags"] == ["management"]
    hashed = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    again = {"password_hash": hashed, "tags": ["monitoring"]}
    assert site.ask("PUT", "/api/users/bob", again).status == 204
    assert site.ask("GET", "/api/whoami", login=("bob", "one")).status == 401
    assert site.get("/api/whoami", login=("bob", "test12"))["tags"] == ["monitoring"]
    assert site.ask("PUT", "/api/user-limits/bob/max-channels", {"value": 3}).status == 204
    assert site.get("/api/users/bob")["limits"] == {"max-channels": 3}
    assert site.ask("PUT", "/api/users/bob", new, login=("bob", "test12")).status == 401
    assert site.ask("DELETE", "/api/users/bob").status == 204
    assert site.ask("DELETE", "/api/users/bob").status == 404
    assert site.ask("GET", "/api/users/bob").status == 404


@pytest.mark.rule("O-4.2")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "x"}, "tags_not_present"),
        (
            {"password": "x", "password_hash": "y", "tags": ""},
            "both_password_and_password_hash_are_provided",
        ),
        ({"password_hash": "%", "tags": ""}, ["not_base64", "%"]),
        ({"password": 3, "tags": ""}, "password should be a string"),
    ],
)
def test_users_that_cannot_be(site: Managed, body: dict[str, object], reason: object) -> None:
    answer = site.ask("PUT", "/api/users/odd", body)
    assert answer.status == 400
    assert answer.json() == {"error": "bad_request", "reason": reason}
    assert site.ask("GET", "/api/users/odd").status == 404


@pytest.mark.rule("O-4.2")
def test_virtual_hosts_and_permissions(site: Managed) -> None:
    assert site.ask("PUT", "/api/vhosts/a%2Fb", {"description": "d", "tags": "x,y"}).status == 201
    found = site.get("/api/vhosts/a%2Fb")
    assert (found["name"], found["description"], found["tags"]) == ("a/b", "d", ["x", "y"])
    # Whoever makes one may use it.
    assert site.get("/api/permissions/a%2Fb/guest")["configure"] == ".*"
    assert site.ask("PUT", "/api/vhosts/a%2Fb").status == 204
    three = {"configure": "^a", "write": "", "read": ".*"}
    place = "/api/permissions/a%2Fb/guest"
    assert site.ask("PUT", place, three).status == 204
    assert site.get(place) == {"user": "guest", "vhost": "a/b", **three}
    answer = site.ask("PUT", place, {"configure": "", "write": ""})
    assert (answer.status, answer.json()["reason"]) == (400, "[{key_missing,read}]")
    answer = site.ask("PUT", "/api/permissions/nowhere/guest", three)
    assert (answer.status, answer.json()["reason"]) == (400, "vhost_or_user_not_found")
    answer = site.ask("PUT", place, raw=b"{")
    assert (answer.status, answer.json()["reason"]) == (400, "not_json")
    topic = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert site.ask("PUT", "/api/topic-permissions/a%2Fb/guest", topic).status == 201
    assert site.get("/api/topic-permissions/a%2Fb/guest") == [
        {"user": "guest", "vhost": "a/b", **topic}
    ]
    gone = site.ask("DELETE", "/api/topic-permissions/a%2Fb/guest/amq.topic")
    assert gone.status == 204
    assert site.get("/api/topic-permissions/a%2Fb/guest") == []
    assert site.ask("PUT", "/api/vhost-limits/a%2Fb/max-queues", {"value": 7}).status == 204
    assert site.get("/api/vhost-limits/a%2Fb") == [{"vhost": "a/b", "value": {"max-queues": 7}}]
    assert site.ask("DELETE", "/api/vhost-limits/a%2Fb/max-queues").status == 204
    assert site.get("/api/vhost-limits/a%2Fb") == []
    assert site.get("/api/vhosts/a%2Fb")["tracing"] is False
    for tracing, stays in ((True, True), ("false", False)):
        assert site.ask("PUT", "/api/vhosts/a%2Fb", {"tracing": tracing}).status == 204
        assert site.ask("PUT", "/api/vhosts/a%2Fb", {"description": "d"}).status == 204
        assert site.get("/api/vhosts/a%2Fb")["tracing"] is stays
    answer = site.ask("PUT", "/api/vhosts/a%2Fb", {"tracing": 1})
    assert (answer.status, answer.json()["reason"]) == (400, ["not_boolean", 1])
    assert site.ask("DELETE", place).status == 204
    assert site.ask("DELETE", place).status == 404
    assert site.ask("DELETE", "/api/vhosts/a%2Fb").status == 204
    assert site.ask("DELETE", "/api/vhosts/a%2Fb").status == 404


@pytest.mark.rule("T-1")
@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies(site: Managed, kind: str) -> None:
    place = f"/api/{kind}/%2F/" + part("p/1")
    policy = {
        "pattern": "^z",
        "definition": {"max-length": 3},
        "priority": 4,
        "apply-to": "queues",
    }
    assert site.ask("PUT", place, policy).status == 201
    assert site.get(place) == {"vhost": "/", "name": "p/1", **policy}
    assert site.ask("PUT", place, {"pattern": "", "definition": {"max-length": 4}}).status == 204
    assert site.get(place)["priority"] == 0
    answer = site.ask("PUT", place, {"pattern": "", "definition": {"odd-key": 1}})
    assert answer.status == 400
    assert answer.json()["reason"].startswith("Validation failed\n\n[{&lt;&lt;")
    assert site.ask("DELETE", place).status == 204
    assert site.ask("DELETE", place).status == 404


def test_parameters_and_names(site: Managed) -> None:
    assert site.ask("PUT", "/api/global-parameters/g", {"value": {"a": [1]}}).status == 201
    assert site.get("/api/global-parameters/g") == {"name": "g", "value": {"a": [1]}}
    assert site.ask("PUT", "/api/global-parameters/g", {"value": 'a "text"'}).status == 204
    assert site.get("/api/global-parameters/g")["value"] == 'a "text"'
    assert site.ask("DELETE", "/api/global-parameters/g").status == 204
    assert site.ask("DELETE", "/api/global-parameters/g").status == 404
    answer = site.ask("PUT", "/api/parameters/nosuch/%2F/x", {"value": {}})
    assert (answer.status, answer.json()["error"]) == (400, "bad_request")
    assert site.ask("PUT", "/api/cluster-name", {"name": "herd"}).status == 204
    assert site.get("/api/cluster-name") == {"name": "herd"}


def test_connections_are_closed_with_a_reason(site: Managed) -> None:
    client = site.broker.connect()
    found = site.until("/api/connections", lambda all_: len(all_) == 1)
    place = "/api/connections/" + part(found[0]["name"])
    assert site.ask("DELETE", place, headers={"x-reason": "tidying"}).status == 204
    close = client.wait_for("connection.close")
    assert close.reply_code == 320
    assert "tidying" in close.reply_text
    assert site.ask("DELETE", "/api/connections/nope").status == 404


def test_queues_exchanges_and_bindings(site: Managed) -> None:
    queue = {"durable": True, "arguments": {"x-max-length": 5}}
    assert site.ask("PUT", "/api/queues/%2F/h1", queue).status == 201
    assert site.ask("PUT", "/api/queues/%2F/h1", queue).status == 204
    answer = site.ask("PUT", "/api/queues/%2F/h1", {"durable": False})
    assert answer.status == 400
    assert answer.json()["reason"].startswith("inequivalent arg 'durable' for queue 'h1'")
    answer = site.ask("PUT", "/api/queues/%2F/amq.x", {})
    assert (answer.status, answer.json()["error"]) == (401, "not_authorised")
    assert site.ask("PUT", "/api/exchanges/%2F/hx", {"type": "topic"}).status == 201
    answer = site.ask("PUT", "/api/exchanges/%2F/hy", {"type": "odd"})
    assert answer.json()["reason"] == "unknown exchange type 'odd'"
    place = "/api/bindings/%2F/e/hx/q/h1"
    sent = {"routing_key": "a b/c", "arguments": {"n": 1}}
    answer = site.ask("POST", place, sent)
    assert answer.status == 201
    assert site.ask("POST", place, sent).status == 201
    found = site.get(place)
    assert [(one["routing_key"], one["arguments"]) for one in found] == [("a b/c", {"n": 1})]
    assert answer.headers["location"] == "h1/" + part(found[0]["properties_key"])
    assert site.ask("POST", "/api/bindings/%2F/e/nope/q/h1", sent).status == 404
    answer = site.ask("POST", "/api/bindings/%2F/e/hx/q/nope", sent)
    assert (answer.status, answer.json()["error"]) == (404, "not_found")
    assert site.ask("DELETE", f"{place}/{part(found[0]['properties_key'])}").status == 204
    assert site.get(place) == []
    with site.broker.connect() as client:
        channel = client.channel()
        channel.publish(b"x", routing_key="h1")
        channel.sync()
        answer = site.ask("DELETE", "/api/queues/%2F/h1?if-empty=true")
        assert (answer.status, answer.json()["error"]) == (400, "bad_request")
        assert site.ask("DELETE", "/api/queues/%2F/h1/contents").status == 204
        assert channel.queue_declare("h1", passive=True).message_count == 0
    assert site.ask("DELETE", "/api/queues/%2F/h1?if-empty=true").status == 204
    assert site.ask("DELETE", "/api/queues/%2F/h1").status == 404
    assert site.ask("DELETE", "/api/exchanges/%2F/hx").status == 204
    assert site.ask("DELETE", "/api/exchanges/%2F/amq.direct").status == 401
    assert site.ask("GET", "/api/queues/%2F/h1/contents").status == 405


def test_what_a_user_may_not_over_amqp_it_may_not_over_http(site: Managed) -> None:
    assert (
        site.ask("PUT", "/api/users/clerk", {"password": "c", "tags": "management"}).status == 201
    )
    three = {"configure": "^mine", "write": "", "read": ""}
    assert site.ask("PUT", "/api/permissions/%2F/clerk", three).status == 201
    login = ("clerk", "c")
    assert site.ask("PUT", "/api/queues/%2F/mine1", {}, login=login).status == 201
    answer = site.ask("PUT", "/api/queues/%2F/yours", {}, login=login)
    assert (answer.status, answer.json()["error"]) == (401, "not_authorised")
    assert "refused for user 'clerk'" in answer.json()["reason"]
    assert site.ask("DELETE", "/api/queues/%2F/mine1/contents", login=login).status == 401
    assert site.ask("DELETE", "/api/queues/%2F/mine1", login=login).status == 204
