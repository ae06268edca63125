"""Commands that set, clear, list and explain policies."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.asking import Asker, with_node
from tests.unit.server.test_command_metadata import Run, refusal, run
from warren.server.config import Settings
from warren.server.metadata_store import MetadataStore
from warren.vhost.change import QueuePut

__all__ = ["run"]

P: dict[str, Any] = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}


@pytest.mark.rule("PO-1")
def test_policies_are_set_listed_and_cleared(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        await ask("add_vhost", vhost="v")
        assert await ask("set_policy", **P) == {}
        # RabbitMQ's tool sends the definition as it was typed.
        await ask("set_policy", **P | {"vhost": "v", "definition": '{"expires" : 5}'}, priority=-2)
        await ask("set_operator_policy", **P, apply_to="queues")
        assert await ask("list_policies") == [
            ["/", "p", "^q", "all", {"max-length": 5}, 0],
            ["v", "p", "^q", "all", {"expires": 5}, -2],
        ]
        assert await ask("list_operator_policies", columns=["apply-to", "vhost"]) == [
            ["queues", "/"]
        ]
        assert await ask("list_operator_policies", vhost="v") == []
        await ask("clear_policy", vhost="v", name="p")
        assert len(await ask("list_policies")) == 1
        await ask("clear_operator_policy", name="p")
        assert await ask("list_operator_policies") == []
        logged = [(name, fields) for _, name, fields in asker.log.events if "policy." in name]
        assert [(name, fields["operator"]) for name, fields in logged] == [
            ("policy.set", False),
            ("policy.set", False),
            ("policy.set", True),
            ("policy.cleared", False),
            ("policy.cleared", True),
        ]

    run(test)


@pytest.mark.rule("PO-10")
def test_what_is_wrong_is_told(run: Run) -> None:
    async def test(asker: Asker) -> None:
        for wrong, code in (
            ({"definition": {}}, "refused"),
            ({"definition": {"x": 1}}, "refused"),
            ({"definition": "{"}, "refused"),
            ({"definition": [1]}, "refused"),
            ({"pattern": "("}, "refused"),
            ({"apply_to": "streams"}, "refused"),
            ({"priority": "1"}, "bad_arguments"),
            ({"priority": 10**30}, "refused"),
            ({"name": "n" * 256}, "bad_arguments"),
            ({"vhost": "none"}, "not_found"),
        ):
            assert (await refusal(asker, "set_policy", **P | wrong)).code == code, wrong
        assert await asker.ask("list_policies") == []
        for command in ("clear_policy", "clear_operator_policy"):
            told = await refusal(asker, command, name="p")
            assert (told.code, told.message) == ("not_found", "Parameter does not exist")
        for kind in ("", "operator_"):
            told = await refusal(asker, f"list_{kind}policies", vhost="none")
            assert told.message == "Virtual host 'none' does not exist"

    run(test)


def test_the_definition_is_shown_as_it_was_given(run: Run) -> None:
    async def test(asker: Asker) -> None:
        given = '{"max-length":123456789012345678901234567890,"dead-letter-exchange":"gräber"}'
        await asker.ask("set_policy", **P | {"definition": given})
        assert (await asker.ask("list_policies"))[0][4] == json.loads(given)

    run(test)


def test_one_object_is_explained(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        asker.node.broker.metadata.apply((QueuePut(vhost="/", name="q"),))
        empty = {
            "policy": "",
            "operator_policy": "",
            "effective_policy_definition": {},
            "settings": [],
            "pending": False,
        }
        assert await ask("explain_policy", queue="q") == empty
        assert await ask("explain_policy", exchange="amq.topic") == empty
        await ask("set_policy", **P | {"definition": {"max-length": 5, "ha-mode": "all"}})
        asker.node.broker.turn.run()
        explained = await ask("explain_policy", queue="q")
        assert explained["settings"] == [
            {
                "key": "ha-mode",
                "value": "all",
                "origin": "policy",
                "policy": "p",
                "idle": "there is no cluster yet",
            },
            {"key": "max-length", "value": 5, "origin": "policy", "policy": "p", "idle": ""},
        ]
        for wrong in ({}, {"queue": "q", "exchange": "amq.topic"}):
            assert (await refusal(asker, "explain_policy", **wrong)).code == "bad_arguments"
        told = await refusal(asker, "explain_policy", exchange="none")
        assert told.message == "there is no exchange 'none' in vhost '/'"

    run(test)


def test_a_reply_comes_behind_the_first_slice_of_the_change(tmp_path: Path) -> None:
    """Whoever has read it finds a small vhost under its new policies."""

    async def test(asker: Asker) -> None:
        asker.node.broker.metadata.apply((QueuePut(vhost="/", name="q", durable=True),))
        await asker.ask("set_policy", **P)
        assert (await asker.ask("explain_policy", queue="q"))["policy"] == "p"
        await asker.ask("clear_policy", name="p")
        assert (await asker.ask("explain_policy", queue="q"))["policy"] == ""

    with_node(Settings(data_dir=tmp_path), test, MetadataStore(tmp_path / "metadata.db"))


@pytest.mark.rule("PO-9")
def test_policies_are_stored(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    path = tmp_path / "metadata.db"

    async def first(asker: Asker) -> None:
        asker.node.broker.metadata.apply((QueuePut(vhost="/", name="q", durable=True),))
        await asker.ask("set_policy", **P, priority=3, apply_to="queues")
        await asker.ask("set_policy", **P | {"name": "gone"})
        await asker.ask("set_operator_policy", **P | {"definition": {"max-length": 4}})
        await asker.ask("clear_policy", name="gone")

    async def second(asker: Asker) -> None:
        assert await asker.ask("list_policies") == [
            ["/", "p", "^q", "queues", {"max-length": 5}, 3]
        ]
        queue = asker.node.broker.vhosts["/"].queues["q"]
        assert queue.rules.max_length == 4

    with_node(settings, first, MetadataStore(path))
    with_node(settings, second, MetadataStore(path))
