"""Lists over HTTP: what is shown to whom, in which order, on which page."""

from typing import Any

import pytest

from tests.support.http import Managed, part
from tests.support.wire import Client


@pytest.fixture(scope="module")
def site(managed_broker: Managed) -> Managed:
    """A broker with a few objects."""
    client = managed_broker.broker.connect()
    channel = client.channel()
    for number in range(12):
        channel.queue_declare(f"q{number:02}", arguments={"x-max-length": 100})
    channel.exchange_declare("x", "topic", durable=True)
    arguments = {"k": "v"}
    channel.call("queue.bind", queue="q00", exchange="x", routing_key="a b/c.#")
    channel.call(
        "queue.bind", queue="q00", exchange="x", routing_key="a b/c.#", arguments=arguments
    )
    for number in range(3):
        channel.publish(b"x" * 10, routing_key="q03" if number else "q05")
    channel.sync()
    client.close()
    control = managed_broker.broker.control
    control("add_vhost", vhost="other")
    for tag in ("management", "monitoring", "policymaker"):
        control("add_user", user=tag, password="p", tags=[tag])
        control("set_permissions", user=tag, vhost="other", configure="", write="", read="")
    return managed_broker


def test_what_was_just_declared_is_listed(site: Managed) -> None:
    with site.broker.connect() as client:
        channel = client.channel()
        for number in range(20):
            channel.queue_declare("now")
            assert site.get("/api/queues/%2F/now")["name"] == "now", number
            channel.call("queue.delete", queue="now")
            assert site.ask("GET", "/api/queues/%2F/now").status == 404


def test_numbers_follow(site: Managed) -> None:
    found = site.until("/api/queues/%2F/q03", lambda one: one.get("messages") == 2)
    assert (found["messages_ready"], found["message_bytes_ready"]) == (2, 20)
    assert found["message_stats"]["publish"] == 2
    assert found["messages_details"] == {"rate": 0.0} or found["messages_details"]["rate"] > 0


def names(found: Any) -> list[str]:
    return [one["name"] for one in found]


@pytest.mark.rule("O-4.4")
def test_pages(site: Managed) -> None:
    page = site.get("/api/queues?page=2&page_size=5")
    assert names(page["items"]) == ["q05", "q06", "q07", "q08", "q09"]
    del page["items"]
    assert page == {
        "filtered_count": 12,
        "item_count": 5,
        "page": 2,
        "page_count": 3,
        "page_size": 5,
        "total_count": 12,
    }
    page = site.get("/api/queues/%2F?page=1&name=Q1")
    assert names(page["items"]) == ["q10", "q11"]
    page = site.get("/api/queues?page=1&use_regex=true&name=" + part("^q0[12]$"))
    assert names(page["items"]) == ["q01", "q02"]
    page = site.get("/api/queues?page=1&page_size=2&sort=name&sort_reverse=true")
    assert names(page["items"]) == ["q11", "q10"]


@pytest.mark.rule("O-4.4")
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=0", "invalid_pagination_parameters"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=1&page_size=0", "invalid_pagination_parameters"),
        ("page=99", "page_out_of_range"),
        ("page=x", "bad_request"),
        ("page=1&use_regex=true&name=(", "bad_request"),
    ],
)
def test_pages_that_are_not(site: Managed, query: str, error: str) -> None:
    answer = site.ask("GET", f"/api/queues?{query}")
    assert (answer.status, answer.json()["error"]) == (400, error)


@pytest.mark.rule("O-4.3")
def test_columns_and_order(site: Managed) -> None:
    site.until("/api/queues/%2F/q03", lambda one: one.get("messages") == 2)
    found = site.get("/api/queues?columns=name,messages&sort=messages&sort_reverse=true")
    assert found[0] == {"name": "q03", "messages": 2}
    assert found[1] == {"name": "q05", "messages": 1}
    found = site.get("/api/queues?columns=arguments.x-max-length")
    assert found[0] == {"arguments": {"x-max-length": 100}}


@pytest.mark.rule("T-5", "T-8")
def test_bindings_have_keys_that_name_them(site: Managed) -> None:
    found = site.get("/api/bindings/%2F/e/x/q/q00")
    assert [one["routing_key"] for one in found] == ["a b/c.#"] * 2
    keys = [one["properties_key"] for one in found]
    assert "a+b%2Fc.%23" in keys
    assert len(set(keys)) == 2
    for one in found:
        there = site.get("/api/bindings/%2F/e/x/q/q00/" + part(one["properties_key"]))
        assert there == one
    assert site.get("/api/queues/%2F/q00/bindings")[0]["source"] == ""
    assert len(site.get("/api/exchanges/%2F/x/bindings/source")) == 2
    assert len(site.get("/api/exchanges/%2F/amq.default/bindings/source")) == 12
    assert site.ask("GET", "/api/bindings/%2F/e/x/q/nope").status == 404


@pytest.mark.rule("O-3.1", "T-17")
def test_tags_decide_what_is_seen(site: Managed) -> None:
    for tag, seen in (("management", ["other"]), ("monitoring", ["/", "other"])):
        login = (tag, "p")
        assert sorted(names(site.get("/api/vhosts", login=login))) == seen
        assert site.get("/api/queues", login=login) == []
        answer = site.ask("GET", "/api/queues/%2F", login=login)
        assert answer.status == 401
        assert answer.json()["error"] == "not_authorised"
        assert site.ask("GET", "/api/queues/nowhere", login=login).status == 404
        assert site.ask("GET", "/api/users", login=login).status == 401
    assert site.ask("GET", "/api/nodes", login=("management", "p")).status == 401
    assert site.get("/api/nodes", login=("monitoring", "p"))[0]["running"] is True
    assert site.ask("GET", "/api/parameters", login=("management", "p")).status == 401
    assert site.get("/api/parameters", login=("policymaker", "p")) == []
    assert "node" not in site.get("/api/overview", login=("management", "p"))


@pytest.fixture
def consuming(site: Managed) -> Client:
    client = site.broker.connect()
    channel = client.channel(7)
    channel.call("basic.qos", prefetch_count=3)
    channel.call("confirm.select")
    channel.call("basic.consume", queue="q11", consumer_tag="eater")
    return client


def test_who_is_connected_is_listed_with_what_it_does(site: Managed, consuming: Client) -> None:
    held = site.until("/api/channels", lambda all_: [one["number"] for one in all_] == [7])
    name = held[0]["connection_details"]["name"]
    one = next(one for one in site.get("/api/connections") if one["name"] == name)
    assert (one["user"], one["vhost"], one["state"]) == ("guest", "/", "running")
    assert one["name"].endswith(f" -> 127.0.0.1:{site.broker.port}")
    assert site.get("/api/connections/" + part(one["name"]))["peer_port"] == one["peer_port"]
    channels = site.get("/api/connections/" + part(one["name"]) + "/channels")
    assert [(each["number"], each["confirm"]) for each in channels] == [(7, True)]
    eater = site.until("/api/consumers", lambda all_: len(all_) == 1)[0]
    assert eater["consumer_tag"] == "eater"
    assert eater["queue"] == {"name": "q11", "vhost": "/"}
    assert eater["channel_details"]["name"] == channels[0]["name"]
    assert site.get("/api/queues/%2F/q11")["consumer_details"] == [eater]
    # Somebody else's connections are nobody's business.
    assert site.get("/api/connections", login=("management", "p")) == []
    theirs = site.ask("GET", "/api/connections/" + part(one["name"]), login=("management", "p"))
    assert theirs.status == 401
    consuming.close()
    site.until("/api/connections", lambda all_: one["name"] not in names(all_))


def test_overview_counts(site: Managed) -> None:
    found = site.get("/api/overview")
    assert found["object_totals"]["queues"] == 12
    assert found["rabbitmq_version"] == "3.10.8"
    assert {"protocol": "http", "port": site.port}.items() <= next(
        one for one in found["listeners"] if one["protocol"] == "http"
    ).items()
    node = site.get("/api/nodes")[0]
    assert site.get("/api/nodes/" + part(node["name"]))["os_pid"] == node["os_pid"]
    assert site.ask("GET", "/api/nodes/nope").status == 404


def test_policies_are_shown_where_they_apply(site: Managed) -> None:
    policy = {
        "vhost": "/",
        "name": "p",
        "pattern": "^q0[01]",
        "apply-to": "all",
        "definition": {"max-length": 7},
        "priority": 3,
    }
    assert site.ask("POST", "/api/definitions", {"policies": [policy]}).status == 204
    assert site.get("/api/policies/%2F") == [policy]
    found = site.until("/api/queues/%2F/q01", lambda one: "policy" in one)
    assert (found["policy"], found["effective_policy_definition"]) == ("p", {"max-length": 7})
    assert site.get("/api/queues/%2F/q02")["policy"] is None
