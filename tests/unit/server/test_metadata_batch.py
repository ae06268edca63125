"""Many changes at once come to the same as one after the other, in few statements."""

import random
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from warren.protocol.value import table
from warren.server.metadata_batch import ROWS_MAX, Batch
from warren.server.metadata_file import open_metadata, read_metadata
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    Change,
    ExchangeDelete,
    ExchangePut,
    PermissionPut,
    QueueDelete,
    QueuePut,
    UserDelete,
    UserLimitsPut,
    UserPut,
    VHostDelete,
    VHostLimitsPut,
    VHostPut,
    encoded,
)


def write(opened: sqlite3.Connection, changes: Iterable[Change]) -> int:
    batch = Batch()
    for change in changes:
        batch.add(change)
    statements = list(batch.statements())
    for sql, values in statements:
        opened.execute(sql, values)
    return len(statements)


@pytest.fixture
def opened(tmp_path: Path) -> sqlite3.Connection:
    return open_metadata(tmp_path / "metadata.db")


def stored(opened: sqlite3.Connection) -> list[Change]:
    return read_metadata(opened, Path("metadata.db"))


def bindings(count: int, destination: str = "q") -> list[Change]:
    return [
        BindingPut(vhost="v", source="x", destination=destination, key=str(number))
        for number in range(count)
    ]


X = ExchangePut(vhost="v", name="x", kind="direct", durable=True)
Q = QueuePut(vhost="v", name="q", durable=True)


def test_a_row_is_written_once_however_often_it_changed(opened: sqlite3.Connection) -> None:
    changes: list[Change] = [Q, QueueDelete(vhost="v", name="q")] * 50
    # The second is about cursors that might be there.
    assert write(opened, [*changes, Q]) == 3
    assert stored(opened) == [Q]
    write(opened, changes)
    assert stored(opened) == []


def test_rows_go_together_in_one_statement(opened: sqlite3.Connection) -> None:
    queues: list[Change] = [
        QueuePut(vhost="v", name=f"q{number:05}", durable=True) for number in range(10 * ROWS_MAX)
    ]
    assert write(opened, queues) == 10
    assert stored(opened) == queues


def test_a_queue_takes_its_bindings_along(opened: sqlite3.Connection) -> None:
    write(opened, [X, Q, *bindings(1000), *bindings(3, "other")])
    # One statement for the bindings, one for the queue, however many there are.
    assert write(opened, [*bindings(5, "q"), QueueDelete(vhost="v", name="q")]) == 3
    assert stored(opened) == [X, *bindings(3, "other")]


def test_a_new_queue_of_the_name_has_none_of_the_old_bindings(opened: sqlite3.Connection) -> None:
    write(opened, [X, Q, *bindings(10)])
    new = BindingPut(vhost="v", source="x", destination="q", key="new")
    write(opened, [*bindings(20), QueueDelete(vhost="v", name="q"), Q, new])
    assert stored(opened) == [X, Q, new]


def test_an_exchange_takes_its_bindings_along_both_ways(opened: sqlite3.Connection) -> None:
    y = ExchangePut(vhost="v", name="y", kind="topic", durable=True)
    into = BindingPut(vhost="v", source="y", destination="x", to_queue=False)
    write(opened, [X, y, Q, into, *bindings(5)])
    write(opened, [into, *bindings(7), ExchangeDelete(vhost="v", name="x")])
    assert stored(opened) == [y, Q]


def test_a_vhost_and_a_user_take_everything_along(opened: sqlite3.Connection) -> None:
    v = VHostPut(name="v")
    user = UserPut(
        name="u", password_hash="", algorithm="rabbit_password_hashing_sha256", tags=("t",)
    )
    permission = PermissionPut(user="u", vhost="v", configure="", write="", read="")
    limits: list[Change] = [
        VHostLimitsPut(vhost="v", limits={"max-queues": 1}),
        UserLimitsPut(user="u", limits={"max-channels": 1}),
    ]
    all_of_it = [v, user, permission, *limits, X, Q, *bindings(3)]
    write(opened, all_of_it)
    write(opened, [*all_of_it, VHostDelete(name="v")])
    assert stored(opened) == [user, limits[1]]
    write(opened, [permission, UserDelete(name="u")])
    assert stored(opened) == []


def test_bindings_differ_by_their_arguments_as_a_set(opened: sqlite3.Connection) -> None:
    one = encoded(table({"a": 1, "b": 2}))
    same = encoded(table({"b": 2, "a": 1}))
    other = encoded(table({"a": 1}))
    put = [
        BindingPut(vhost="v", source="x", destination="q", arguments=arguments)
        for arguments in (one, same, other, b"")
    ]
    write(opened, put)
    assert len(stored(opened)) == 3
    write(opened, [BindingDelete(vhost="v", source="x", destination="q", arguments=same)])
    assert stored(opened) == [put[3], put[2]]


def test_deletions_use_the_key(opened: sqlite3.Connection) -> None:
    batch = Batch()
    for number in range(3):
        batch.add(QueueDelete(vhost="v", name=f"q{number}"))
        batch.add(ExchangeDelete(vhost="v", name=f"x{number}"))
        batch.add(BindingDelete(vhost="v", source="x", destination="q", key=str(number)))
    for sql, values in batch.statements():
        plan = " ".join(row[3] for row in opened.execute(f"EXPLAIN QUERY PLAN {sql}", values))
        assert "SCAN binding" not in plan, plan
        assert "SCAN queue" not in plan, plan
        assert "SCAN exchange" not in plan, plan


def test_one_batch_or_many_come_to_the_same(tmp_path: Path) -> None:
    chance = random.Random(5)
    names = ["a", "b", "c"]

    def any_change() -> Change:
        vhost, name, other = chance.choice(names[:2]), chance.choice(names), chance.choice(names)
        binding: dict[str, Any] = {"vhost": vhost, "source": name, "destination": other}
        binding |= {"to_queue": chance.random() < 0.7, "key": chance.choice("xy")}
        made: Callable[[], Change] = chance.choice(
            [
                lambda: VHostPut(name=vhost, description=chance.choice(names)),
                lambda: QueuePut(vhost=vhost, name=name, durable=True),
                lambda: QueueDelete(vhost=vhost, name=name),
                lambda: ExchangePut(vhost=vhost, name=name, kind="topic", durable=True),
                lambda: ExchangeDelete(vhost=vhost, name=name),
                lambda: BindingPut(**binding),
                lambda: BindingPut(**binding),
                lambda: BindingDelete(**binding),
                lambda: PermissionPut(
                    user=name, vhost=vhost, configure=chance.choice(names), write="", read=""
                ),
                lambda: UserDelete(name=name),
                lambda: VHostDelete(name=vhost),
            ]
        )
        return made()

    for number in range(50):
        changes = [any_change() for _ in range(200)]
        singly = open_metadata(tmp_path / f"singly-{number}.db")
        together = open_metadata(tmp_path / f"together-{number}.db")
        for each in (singly, together):
            each.execute("PRAGMA synchronous = OFF")
        for change in changes:
            write(singly, [change])
        step = chance.randint(20, 200)
        for first in range(0, len(changes), step):
            write(together, changes[first : first + step])
        assert stored(singly) == stored(together)
        singly.close()
        together.close()
