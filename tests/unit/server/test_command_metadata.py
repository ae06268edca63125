"""Commands that change users, virtual hosts, permissions and parameters."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.asking import Asker, Refused, with_node
from warren.security import Access
from warren.server.config import Settings
from warren.server.metadata_store import MetadataStore

Run = Callable[[Callable[[Asker], Awaitable[None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings = Settings(data_dir=tmp_path, node_name="warren@test")
    return lambda test: with_node(settings, test)


async def refusal(asker: Asker, command: str, **args: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await asker.ask(command, **args)
    return caught.value


def test_users_come_change_and_go(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        assert await ask("add_user", user="ann", password="one") == {}
        assert await ask("list_users") == [["ann", []], ["guest", ["administrator"]]]
        assert (await refusal(asker, "add_user", user="ann", password="x")).code == "exists"
        await ask("set_user_tags", user="ann", tags=["monitoring", "custom"])
        assert await ask("authenticate_user", user="ann", password="one") == {
            "user": "ann",
            "tags": ["monitoring", "custom"],
        }
        await ask("change_password", user="ann", password="two")
        told = await refusal(asker, "authenticate_user", user="ann", password="one")
        assert (told.code, told.message) == ("refused", 'failed to authenticate user "ann"')
        await ask("authenticate_user", user="ann", password="two")
        await ask("clear_password", user="ann")
        told = await refusal(asker, "authenticate_user", user="ann", password="two")
        assert told.fix == "no_password_set"
        # The tags have survived all that.
        assert await ask("list_users", columns=["tags", "user"]) == [
            [["monitoring", "custom"], "ann"],
            [["administrator"], "guest"],
        ]
        await ask("delete_user", user="ann")
        assert await ask("list_users") == [["guest", ["administrator"]]]
        logged = [name for name in asker.log.names() if name.startswith("user.")]
        assert logged == [
            "user.created",
            "user.tags_set",
            "user.password_changed",
            "user.password_cleared",
            "user.deleted",
        ]
        assert "two" not in str(asker.log.events)

    run(test)


def test_a_user_may_come_with_a_hash(run: Run) -> None:
    async def test(asker: Asker) -> None:
        # What RabbitMQ 3.10 exports for the password "guest".
        guest = asker.node.broker.users.get("guest")
        assert guest is not None
        await asker.ask("add_user", user="twin", password_hash=guest.password_hash)
        await asker.ask("authenticate_user", user="twin", password="guest")
        told = await refusal(asker, "add_user", user="odd", password_hash="*")
        assert told.code == "bad_arguments"

    run(test)


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("delete_user", {}),
        ("change_password", {"password": "x"}),
        ("clear_password", {}),
        ("set_user_tags", {"tags": []}),
        ("set_user_limits", {"definition": {}}),
        ("clear_user_limits", {}),
        ("list_user_limits", {}),
        ("list_user_permissions", {}),
        ("list_user_topic_permissions", {}),
        ("set_permissions", {"configure": "", "write": "", "read": ""}),
        ("clear_permissions", {}),
        ("set_topic_permissions", {"exchange": "x", "write": "", "read": ""}),
        ("clear_topic_permissions", {}),
    ],
)
def test_a_user_that_is_not_there_is_told(run: Run, command: str, args: dict[str, Any]) -> None:
    async def test(asker: Asker) -> None:
        told = await refusal(asker, command, user="nobody", **args)
        assert (told.code, told.message) == ("not_found", 'User "nobody" does not exist')

    run(test)


@pytest.mark.rule("VH-1")
def test_vhosts_come_and_go(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        await ask("add_vhost", vhost="v", description="d", tags=["t"], default_queue_type="classic")
        assert await ask("list_vhosts") == [["/"], ["v"]]
        columns = ["name", "description", "tags", "default_queue_type", "tracing"]
        assert await ask("list_vhosts", columns=columns) == [
            ["/", "Default virtual host", [], "undefined", False],
            ["v", "d", ["t"], "classic", False],
        ]
        await ask("set_vhost_tags", vhost="v", tags=["u"])
        assert (await ask("list_vhosts", columns=columns))[1][1:4] == ["d", ["u"], "classic"]
        assert (await refusal(asker, "add_vhost", vhost="v")).code == "exists"
        told = await refusal(asker, "add_vhost", vhost="w", default_queue_type="odd")
        assert told.code == "bad_arguments"
        told = await refusal(asker, "list_vhosts", columns=["odd"])
        assert told.message == "Info key(s) odd are not supported"
        await ask("delete_vhost", vhost="v")
        assert (await refusal(asker, "delete_vhost", vhost="v")).code == "not_found"
        assert await ask("list_vhosts") == [["/"]]

    run(test)


@pytest.mark.rule("VH-3", "VH-4")
def test_permissions_are_set_shown_and_cleared(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        await ask("add_user", user="u", password="p")
        await ask("add_vhost", vhost="v")
        given = {"configure": "^c", "write": "", "read": ".*"}
        await ask("set_permissions", user="u", vhost="v", **given)
        allowed = asker.node.broker.permissions.allowed
        assert allowed("u", "v", Access.READ, "any")
        assert not allowed("u", "v", Access.WRITE, "any")
        assert await ask("list_permissions", vhost="v") == [["u", "^c", "", ".*"]]
        assert await ask("list_permissions", vhost="/") == [["guest", ".*", ".*", ".*"]]
        assert await ask("list_user_permissions", user="u") == [["v", "^c", "", ".*"]]
        told = await refusal(asker, "set_permissions", user="u", vhost="v", **given | {"read": "("})
        assert told.code == "bad_arguments"
        assert "invalid regular expression '('" in told.message
        for exchange in ("amq.topic", "x"):
            await ask(
                "set_topic_permissions", user="u", vhost="v", exchange=exchange, write="w", read="r"
            )
        assert await ask("list_topic_permissions", vhost="v") == [
            ["u", "amq.topic", "w", "r"],
            ["u", "x", "w", "r"],
        ]
        await ask("clear_topic_permissions", user="u", vhost="v", exchange="x")
        assert await ask("list_user_topic_permissions", user="u") == [["v", "amq.topic", "w", "r"]]
        await ask("clear_topic_permissions", user="u", vhost="v")
        assert await ask("list_topic_permissions") == []
        await ask("clear_permissions", user="u", vhost="v")
        assert not allowed("u", "v", Access.READ, "any")
        told = await refusal(asker, "list_permissions", vhost="none")
        assert told.message == "Virtual host 'none' does not exist"

    run(test)


@pytest.mark.rule("VH-2")
def test_limits_are_set_shown_and_cleared(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask, metadata = asker.ask, asker.node.broker.metadata
        await ask("set_vhost_limits", definition='{"max-queues": 5, "max-connections": -1}')
        assert metadata.limits_of_vhost("/") == {"max-queues": 5, "max-connections": -1}
        await ask("set_vhost_limits", vhost="/", definition={"max-queues": 0})
        assert await ask("list_vhost_limits") == [["/", {"max-queues": 0}]]
        assert await ask("list_parameters") == [["vhost-limits", "limits", {"max-queues": 0}]]
        await ask("clear_vhost_limits")
        assert await ask("list_vhost_limits") == []
        # Limits of a user are set one by one.
        await ask("set_user_limits", user="guest", definition={"max-channels": 1})
        await ask("set_user_limits", user="guest", definition={"max-connections": 2})
        assert await ask("list_user_limits") == [
            ["guest", {"max-channels": 1, "max-connections": 2}]
        ]
        await ask("clear_user_limits", user="guest", limit="max-channels")
        assert metadata.limits_of_user("guest") == {"max-connections": 2}
        await ask("clear_user_limits", user="guest", limit="all")
        assert await ask("list_user_limits", user="guest") == [["guest", {}]]
        for wrong in ("[]", "no json", {"max-queues": "1"}, {"max-odd": 1}, {"max-queues": True}):
            told = await refusal(asker, "set_vhost_limits", definition=wrong)
            assert told.code == "bad_arguments"

    run(test)


def test_parameters_are_values_of_components_that_are_there(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        limits = {"component": "vhost-limits", "name": "limits"}
        await ask("set_parameter", **limits, value='{"max-queues": 3}')
        assert asker.node.broker.metadata.limits_of_vhost("/") == {"max-queues": 3}
        await ask("clear_parameter", **limits)
        assert asker.node.broker.metadata.limits_of_vhost("/") == {}
        told = await refusal(asker, "set_parameter", component="shovel", name="s", value="{}")
        assert (told.code, told.message) == ("refused", "component shovel not found")
        told = await refusal(asker, "set_parameter", component="policy", name="p", value="{}")
        assert "set_policy" in told.fix
        told = await refusal(asker, "clear_parameter", component="shovel", name="s")
        assert (told.code, told.message) == ("not_found", "Parameter does not exist")

    run(test)


def test_the_cluster_has_parameters_and_a_name(run: Run) -> None:
    async def test(asker: Asker) -> None:
        ask = asker.ask
        assert (await ask("status"))["cluster"] == "warren@test"
        await ask("set_cluster_name", name="the one")
        assert (await ask("status"))["cluster"] == "the one"
        await ask("set_global_parameter", name="p", value='{"a": [1]}')
        rows = dict(await ask("list_global_parameters"))
        assert rows["p"] == {"a": [1]}
        assert rows["cluster_name"] == "the one"
        await ask("clear_global_parameter", name="p")
        told = await refusal(asker, "clear_global_parameter", name="p")
        assert told.code == "not_found"
        told = await refusal(asker, "set_global_parameter", name="cluster_name", value="1")
        assert told.code == "bad_arguments"
        told = await refusal(asker, "set_global_parameter", name="p", value="{")
        assert told.code == "bad_arguments"

    run(test)


def test_a_command_replies_when_its_change_is_stored(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    path = tmp_path / "metadata.db"

    async def first(asker: Asker) -> None:
        await asker.ask("add_vhost", vhost="v")
        assert asker.node.hub.committed == asker.node.broker.metadata.ticket > 0

    async def second(asker: Asker) -> None:
        assert await asker.ask("list_vhosts") == [["/"], ["v"]]
        assert await asker.ask("list_users") == [["guest", ["administrator"]]]

    with_node(settings, first, MetadataStore(path))
    with_node(settings, second, MetadataStore(path))


def test_a_command_says_when_its_change_cannot_be_stored(tmp_path: Path) -> None:
    async def test(asker: Asker) -> None:
        store = asker.node.store
        assert isinstance(store, MetadataStore)
        store._opened.execute("DROP TABLE vhost")
        told = await refusal(asker, "add_vhost", vhost="v")
        assert told.code == "refused"
        assert told.message.startswith("done in memory, but it could not be stored: no such table")
        told = await refusal(asker, "add_vhost", vhost="w")
        assert told.message.startswith("metadata cannot be stored: no such table")
        assert "w" not in asker.node.broker.vhosts
        assert "metadata.failed" in asker.log.names()

    with_node(Settings(data_dir=tmp_path), test, MetadataStore(tmp_path / "metadata.db"))
