"""Lists of the control interface: slices, and what comes or goes while they are made."""

import json
from pathlib import Path

from tests.unit.server.asking import Asker, with_node
from warren.server.config_load import load
from warren.server.list_cell import STEPS_MAX
from warren.vhost.change import QueueDelete

COUNT = 2 * STEPS_MAX + 500


def declare(asker: Asker, count: int) -> None:
    vhost = asker.node.broker.vhosts["/"]
    for number in range(count):
        vhost.add_queue(f"q{number}", durable=False, auto_delete=False, owner=0, arguments={})


def parts(asker: Asker, answer: bytes) -> list[int]:
    """Return how many rows came in each part."""
    return [len(json.loads(line)["rows"]) for line in answer.split(b"\n")[:-1]]


def test_a_long_list_comes_in_slices(tmp_path: Path) -> None:
    async def test(asker: Asker) -> None:
        declare(asker, COUNT)
        request = {"v": 1, "command": "list_queues", "args": {"columns": ["name"]}}
        answer = await asker.node.control.answer(json.dumps(request).encode())
        assert parts(asker, answer) == [STEPS_MAX, STEPS_MAX, 500]
        request = {"v": 1, "command": "list_bindings", "args": {"columns": ["routing_key"]}}
        answer = await asker.node.control.answer(json.dumps(request).encode())
        assert parts(asker, answer) == [STEPS_MAX, STEPS_MAX, 500]

    with_node(load(env={"WARREN_DATA_DIR": str(tmp_path)}), test)


def test_what_goes_meanwhile_is_not_listed(tmp_path: Path) -> None:
    async def test(asker: Asker) -> None:
        declare(asker, COUNT)
        request = {"v": 1, "command": "list_queues", "args": {"columns": ["name"]}}
        names: list[str] = []
        async for reply in asker.node.control.replies(json.dumps(request).encode()):
            found = json.loads(reply)
            names += [row[0] for row in found.get("rows", [])]
            if len(names) == STEPS_MAX:
                last = QueueDelete(vhost="/", name=f"q{COUNT - 1}")
                asker.node.broker.metadata.apply((last,))
        assert names == [f"q{number}" for number in range(COUNT - 1)]

    with_node(load(env={"WARREN_DATA_DIR": str(tmp_path)}), test)


def test_a_vhost_that_there_is_not_has_nothing_in_it(tmp_path: Path) -> None:
    async def test(asker: Asker) -> None:
        declare(asker, 2)
        for command in ("list_queues", "list_exchanges", "list_bindings", "list_consumers"):
            assert await asker.ask(command, vhost="nowhere") == []
        assert len(await asker.ask("list_queues", vhost="/")) == 2

    with_node(load(env={"WARREN_DATA_DIR": str(tmp_path)}), test)
