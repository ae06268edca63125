"""The metadata store: commits in a thread, in order, in groups; and what it does when it cannot."""

import queue
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from warren.server.metadata_file import MetadataError, connect, open_metadata
from warren.server.metadata_store import MetadataStore
from warren.server.metadata_table import VERSION, Row, checksum
from warren.vhost.change import Change, ExchangePut, QueuePut, VHostPut


class Reports:
    """Hears from the store's thread, as the loop would."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.committed: list[int] = []
        self.failed: list[tuple[str, bool]] = []

    def call(self, report: Callable[[], None]) -> None:
        self.calls.put(report)

    def step(self) -> None:
        """Wait for one report."""
        self.calls.get(timeout=30)()

    def wait(self, ticket: int) -> None:
        while not self.committed or self.committed[-1] < ticket:
            self.step()

    def on_committed(self, ticket: int) -> None:
        self.committed.append(ticket)

    def on_failed(self, reason: str, *, passing: bool) -> None:
        self.failed.append((reason, passing))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def store(path: Path, reports: Reports) -> Iterator[MetadataStore]:
    store = MetadataStore(path)
    store.start(reports.call, reports)
    yield store
    store.close()


def queues(count: int, start: int = 0) -> list[Change]:
    return [
        QueuePut(vhost="/", name=f"q{number:05}", durable=True)
        for number in range(start, start + count)
    ]


def found(path: Path) -> list[Change]:
    store = MetadataStore(path)
    try:
        return store.read()
    finally:
        store.close()


def test_what_is_committed_is_found_again(
    store: MetadataStore, reports: Reports, path: Path
) -> None:
    changes = queues(100)
    for change in changes:
        ticket = store.put([change])
    assert ticket == 100
    reports.wait(100)
    assert found(path) == changes
    # What came while a commit ran has shared the next one.
    assert reports.committed == sorted(set(reports.committed))


def test_the_file_is_for_its_owner_only(store: MetadataStore, path: Path, reports: Reports) -> None:
    reports.wait(store.put(queues(1)))
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_the_end_commits_what_was_put(path: Path) -> None:
    store = MetadataStore(path)
    store.start(lambda *_: None, Reports())
    for change in queues(500):
        store.put([change])
    store.close()
    assert found(path) == queues(500)
    assert [each.name for each in path.parent.iterdir()] == ["metadata.db"]


def test_a_group_is_one_commit(store: MetadataStore, reports: Reports, path: Path) -> None:
    reports.wait(store.put(queues(1)))
    store.begin_group()
    for change in queues(100, 1):
        store.put([change])
    reader = connect(path, writing=False)
    count = "SELECT count(*) FROM queue"
    assert reader.execute(count).fetchone() == (1,)
    store.end_group()
    reports.wait(101)
    assert reports.committed == [1, 101]
    assert reader.execute(count).fetchone() == (101,)
    reader.close()


def test_a_full_disk_is_told_once_and_overcome(
    store: MetadataStore, reports: Reports, path: Path
) -> None:
    reports.wait(store.put([VHostPut(name="/")]))
    store._opened.execute("PRAGMA max_page_count = 1")
    store.put(queues(2000))
    reports.step()
    assert reports.failed == [("database or disk is full (SQLITE_FULL)", True)]
    assert store.failure == reports.failed[0][0]
    # Later changes join those that wait, in their order.
    last = store.put(queues(10, 2000))
    store._opened.execute("PRAGMA max_page_count = 1000000")
    reports.wait(last)
    assert store.failure == ""
    assert len(reports.failed) == 1
    assert found(path) == [VHostPut(name="/"), *queues(2010)]


def test_a_lock_of_another_program_passes(
    store: MetadataStore, reports: Reports, path: Path
) -> None:
    store._opened.execute("PRAGMA busy_timeout = 1")
    other = connect(path, writing=True)
    other.execute("BEGIN IMMEDIATE")
    ticket = store.put(queues(1))
    reports.step()
    assert reports.failed[0][1]
    assert "locked" in reports.failed[0][0]
    other.execute("ROLLBACK")
    other.close()
    reports.wait(ticket)


def test_any_other_failure_stays(store: MetadataStore, reports: Reports, path: Path) -> None:
    reports.wait(store.put(queues(1)))
    store._opened.execute("DROP TABLE queue")
    store.put(queues(1, 1))
    reports.step()
    assert reports.failed == [("no such table: queue (SQLITE_ERROR)", False)]
    store.put([VHostPut(name="later")])
    store.close()
    assert reports.committed == [1]
    # Nothing behind the failure is written: order would be lost.
    opened = connect(path, writing=False)
    assert opened.execute("SELECT count(*) FROM vhost").fetchone() == (0,)
    opened.close()


def older(path: Path, version: int) -> list[Change]:
    """Make a file as an earlier version has written it; return what is in it."""
    store = MetadataStore(path)
    store.close()
    opened = connect(path, writing=True)
    queue_row: tuple[object, ...] = ("/", "q", 0, b"")
    exchange_row = ("/", "x", "topic", 0, 1, b"")
    for name, columns, row in (
        ("queue", "vhost TEXT, name TEXT, auto_delete INTEGER, arguments BLOB", queue_row),
        (
            "exchange",
            "vhost TEXT, name TEXT, kind TEXT, auto_delete INTEGER, internal INTEGER, "
            "arguments BLOB",
            exchange_row,
        ),
    ):
        if name == "queue" and version == 2:
            opened.execute(
                "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?)",
                (*row, 7, checksum(("/", "q", 0, b"", 7))),
            )
            continue
        opened.execute(f"DROP TABLE {name}")
        opened.execute(
            f"CREATE TABLE {name} ({columns}, crc INTEGER NOT NULL, PRIMARY KEY (vhost, name)) "
            "WITHOUT ROWID"
        )
        marks = ", ".join("?" * (len(row) + 1))
        value = cast("Row", row)
        opened.execute(f"INSERT INTO {name} VALUES ({marks})", (*row, checksum(value)))
    opened.execute("DROP TABLE cursor")
    opened.execute(f"PRAGMA user_version = {version}")
    opened.commit()
    opened.close()
    return [
        ExchangePut(vhost="/", name="x", kind="topic", durable=True, internal=True),
        QueuePut(vhost="/", name="q", durable=True, incarnation=7 if version == 2 else 0),
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_format_is_brought_up_to_date(path: Path, version: int) -> None:
    wanted = older(path, version)
    assert found(path) == wanted
    opened = connect(path, writing=False)
    assert opened.execute("PRAGMA user_version").fetchone() == (VERSION,)
    opened.close()
    assert found(path) == wanted


def test_a_newer_format_is_refused(path: Path) -> None:
    opened = open_metadata(path)
    opened.execute(f"PRAGMA user_version = {VERSION + 1}")
    opened.close()
    with pytest.raises(MetadataError, match=f"newer Warren: format {VERSION + 1}, this one knows"):
        MetadataStore(path)


def test_a_file_of_another_program_is_refused(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(MetadataError, match="is not a metadata file of Warren"):
        MetadataStore(path)


def test_no_database_at_all_is_refused(path: Path) -> None:
    path.write_bytes(b"once upon a time " * 100)
    with pytest.raises(MetadataError, match="file is not a database") as refusal:
        MetadataStore(path)
    assert "warren doctor" in refusal.value.fix


def test_a_flipped_letter_is_found(path: Path) -> None:
    store = MetadataStore(path)
    store.start(lambda *_: None, Reports())
    store.put(queues(300))
    store.close()
    octets = path.read_bytes()
    at = octets.index(b"q00123")
    path.write_bytes(octets[:at] + b"Q" + octets[at + 1 :])
    with pytest.raises(MetadataError, match="queue '/' 'Q00123' does not match its checksum"):
        found(path)


def test_a_broken_page_is_found(path: Path) -> None:
    store = MetadataStore(path)
    store.start(lambda *_: None, Reports())
    store.put(queues(3000))
    store.close()
    octets = bytearray(path.read_bytes())
    at = octets.index(b"q01500") // 4096 * 4096
    octets[at : at + 4096] = b"\xa5" * 4096
    path.write_bytes(octets)
    with pytest.raises(MetadataError, match="damaged"):
        found(path)
