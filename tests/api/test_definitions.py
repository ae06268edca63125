"""Definitions over HTTP: out, in, round, and all or nothing."""

import json
from typing import Any

import pytest

from tests.support.fixtures import StartBroker
from tests.support.http import SETTINGS, Managed, managed, part

pytestmark = pytest.mark.slow

DOCUMENT: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "ada",
            # Of the password "test12": the example of RabbitMQ's documentation.
            "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["administrator"],
            "limits": {"max-channels": 100},
        },
        {"name": "nopass", "password_hash": "", "tags": "management,monitoring"},
    ],
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "permissions": [{"user": "ada", "vhost": "shop", "configure": ".*", "write": "^a", "read": ""}],
    "topic_permissions": [
        {"user": "ada", "vhost": "shop", "exchange": "news", "write": "^a", "read": ".*"}
    ],
    "parameters": [
        {
            "vhost": "shop",
            "component": "vhost-limits",
            "name": "limits",
            "value": {"max-queues": 9},
        },
        {
            "vhost": "shop",
            "component": "operator_policy",
            "name": "bound",
            "value": {
                "pattern": "^q",
                "apply-to": "queues",
                "definition": {"max-length": 1000},
                "priority": 1,
            },
        },
        {"vhost": "shop", "component": "shovel", "name": "mine", "value": {"src-uri": "amqp://"}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "herd"}],
    "policies": [
        {
            "vhost": "shop",
            "name": "short",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 10},
            "priority": 2,
        }
    ],
    "queues": [
        {
            "name": "q1",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5, "x-dead-letter-exchange": "news"},
        }
    ],
    "exchanges": [
        {
            "name": "news",
            "vhost": "shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "amq.fanout"},
        }
    ],
    "bindings": [
        {
            "source": "news",
            "vhost": "shop",
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"k": ["v", 1, True, {"deep": 1.5}]},
        },
        {
            "source": "news",
            "vhost": "shop",
            "destination": "amq.direct",
            "destination_type": "exchange",
            "routing_key": "b",
            "arguments": {},
        },
    ],
}
SECTIONS = [name for name in DOCUMENT if name != "rabbit_version"]


@pytest.fixture
def site(start_broker: StartBroker) -> Managed:
    pytest.importorskip("uvicorn")
    return managed(start_broker(SETTINGS))


def normal(document: dict[str, Any]) -> dict[str, list[str]]:
    """A document without its versions and its order (T-20)."""
    return {
        name: sorted(json.dumps(one, sort_keys=True) for one in document[name]) for name in SECTIONS
    }


@pytest.mark.rule("O-7.1", "O-7.3", "O-7.4", "T-20")
def test_what_is_imported_is_exported_and_survives_a_restart(site: Managed) -> None:
    before = site.get("/api/definitions")
    assert [user["name"] for user in before["users"]] == ["guest"]
    assert site.ask("POST", "/api/definitions", DOCUMENT).status == 204
    whole = site.get("/api/definitions")
    for name in SECTIONS:
        wanted = DOCUMENT[name]
        if name == "users":
            wanted = [
                wanted[0],
                {
                    "name": "nopass",
                    "password_hash": "",
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": ["management", "monitoring"],
                    "limits": {},
                },
            ]
        for one in wanted:
            if one != {"name": "/"}:
                assert one in whole[name], name
    # The imported user logs in with its imported password.
    assert site.get("/api/whoami", login=("ada", "test12"))["name"] == "ada"
    again = site.ask("POST", "/api/definitions", whole)
    assert again.status == 204
    assert normal(site.get("/api/definitions")) == normal(whole)
    site.broker.stop()
    site.broker.launch()
    assert normal(managed(site.broker).get("/api/definitions")) == normal(whole)


@pytest.mark.rule("O-7.2")
def test_what_is_not_for_others_is_not_exported(site: Managed) -> None:
    with site.broker.connect() as client:
        channel = client.channel()
        channel.queue_declare("mine", exclusive=True)
        channel.queue_declare("fleeting")
        channel.exchange_declare("inner", "fanout", internal=True)
        for name in ("mine", "fleeting"):
            channel.call("queue.bind", queue=name, exchange="amq.direct", routing_key="k")
        whole = site.get("/api/definitions")
        assert [one["name"] for one in whole["queues"]] == ["fleeting"]
        assert [one["name"] for one in whole["exchanges"]] == ["inner"]
        assert [one["destination"] for one in whole["bindings"]] == ["fleeting"]
    mine = site.get("/api/definitions/" + part("/"))
    assert "users" not in mine
    assert mine["exchanges"] == [
        {
            "name": "inner",
            "type": "fanout",
            "durable": False,
            "auto_delete": False,
            "internal": True,
            "arguments": {},
        }
    ]
    answer = site.ask("GET", "/api/definitions?download=all.json")
    assert answer.headers["content-disposition"] == "attachment; filename=all.json"
    assert site.ask("GET", "/api/definitions/nowhere").status == 404


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "bindings",
        {"vhost": "shop", "source": "nope", "destination": "q1"},
        "no exchange 'nope'",
    ),
    (
        "queues",
        {"vhost": "shop", "name": "q2", "arguments": {"x-max-length": "a"}},
        "x-max-len",
    ),
    ("queues", {"vhost": "shop"}, "queues[1]: Object missing required field `name`"),
    ("queues", {"vhost": "nowhere", "name": "q"}, '["no_such_vhost","nowhere"]'),
    ("exchanges", {"vhost": "shop", "name": "x", "type": "odd"}, "unknown exchange type"),
    (
        "permissions",
        {"vhost": "shop", "user": "ada", "configure": "(", "write": "", "read": ""},
        "invalid regular expression",
    ),
    ("users", {"name": "u", "password_hash": "%"}, "password_hash is not base64"),
    (
        "policies",
        {"vhost": "shop", "name": "p", "pattern": "", "definition": {"odd": 1}},
        "not recognised policy settings",
    ),
]


def test_an_import_is_all_or_nothing(site: Managed) -> None:
    before = normal(site.get("/api/definitions"))
    for section, wrong, reason in WRONG:
        document = {**DOCUMENT, section: [*DOCUMENT[section], wrong]}
        answer = site.ask("POST", "/api/definitions", document)
        assert answer.status == 400, wrong
        assert answer.json()["error"] == "bad_request"
        assert reason in answer.json()["reason"]
        assert normal(site.get("/api/definitions")) == before, wrong
    site.broker.stop()
    site.broker.launch()
    assert normal(managed(site.broker).get("/api/definitions")) == before


def test_what_is_no_document_is_refused(site: Managed) -> None:
    for raw in (b"{", b"[]", b"\xff", b"[" * 5000, b'{"queues": 3}', b'{"queues": [3]}'):
        answer = site.ask("POST", "/api/definitions", raw=raw)
        assert answer.status == 400, raw[:20]
    answer = site.ask("POST", "/api/definitions", raw=b"{")
    assert answer.json() == {"error": "bad_request", "reason": "failed_to_parse_json"}
    site.broker.control("add_user", user="clerk", password="c", tags=["management"])
    assert site.ask("POST", "/api/definitions", {}, login=("clerk", "c")).status == 401


def test_a_form_and_a_single_virtual_host_are_taken_as_well(site: Managed) -> None:
    inner = {"queues": [{"name": "formed", "durable": True, "arguments": {}}]}
    form = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n'
        b"Content-Type: application/json\r\n\r\n" + json.dumps(inner).encode() + b"\r\n--x--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = site.ask("POST", "/api/definitions/%2F", raw=form, headers=headers)
    assert answer.status == 204
    assert site.get("/api/queues/%2F/formed")["durable"] is True


def test_what_is_there_already_is_left_as_it_is(site: Managed) -> None:
    document = {"queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}]}
    assert site.ask("POST", "/api/definitions", document).status == 204
    document["queues"][0]["arguments"] = {"x-max-length": 1}
    assert site.ask("POST", "/api/definitions", document).status == 204
    assert site.get("/api/queues/%2F/q")["arguments"] == {}


def test_an_import_that_cannot_be_sent_does_not_stand_in_the_way_of_the_next(
    site: Managed,
) -> None:
    huge = {"vhost": "/", "name": "huge", "arguments": {"x": "x" * 70_000}}
    answer = site.ask("POST", "/api/definitions", {"queues": [huge]})
    assert answer.json()["reason"] == "an object of the document is too large"
    fine = {"queues": [{"vhost": "/", "name": "fine"}]}
    assert site.ask("POST", "/api/definitions", fine).status == 204
