"""`warren doctor` finds what is wrong with a metadata file and saves what can be read."""

import sqlite3
from pathlib import Path

import pytest

from warren.cli.main import main
from warren.protocol.value import table
from warren.runtime.lock import FileLock
from warren.server.metadata_batch import Batch
from warren.server.metadata_file import close_metadata, connect, open_metadata, read_metadata
from warren.vhost.change import (
    BindingPut,
    Change,
    ExchangePut,
    GlobalParameterPut,
    PermissionPut,
    PolicyPut,
    QueuePut,
    UserLimitsPut,
    UserPut,
    VHostLimitsPut,
    VHostPut,
    encoded,
)

QUEUES = 3000
SHA256 = "rabbit_password_hashing_sha256"
CHANGES: list[Change] = [
    VHostPut(name="/", description="Default", tags=("a",)),
    VHostLimitsPut(vhost="/", limits={"max-queues": 10_000}),
    UserPut(name="guest", password_hash="aGFzaA==", algorithm=SHA256, tags=("administrator",)),
    UserLimitsPut(user="guest", limits={"max-channels": 5}),
    PermissionPut(user="guest", vhost="/", configure=".*", write=".*", read=".*"),
    GlobalParameterPut(name="cluster_name", value=b'"c"'),
    PolicyPut(vhost="/", name="p", pattern="^", definition=b'{"max-length":1}'),
    ExchangePut(vhost="/", name="x", kind="topic", durable=True),
    *[
        QueuePut(
            vhost="/", name=f"q{n:05}", durable=True, arguments=encoded(table({"x-max-length": n}))
        )
        for n in range(QUEUES)
    ],
    *[
        BindingPut(vhost="/", source=source, destination="q00007", key="k", to_queue=True)
        for source in ("amq.direct", "x")
    ],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "metadata.db"
    opened = open_metadata(path)
    batch = Batch()
    for change in CHANGES:
        batch.add(change)
    opened.execute("BEGIN")
    for sql, values in batch.statements():
        opened.execute(sql, values)
    opened.execute("COMMIT")
    close_metadata(opened)
    return path


def stored(path: Path) -> list[Change]:
    opened = connect(path, writing=False)
    try:
        return read_metadata(opened, path)
    finally:
        opened.close()


def run(path: Path, *options: str) -> int:
    return main(["doctor", "--data-dir", str(path.parent), *options])


def spoil(path: Path, mark: bytes, *, page: bool) -> None:
    """Break a whole page, or one letter, where something is written."""
    octets = bytearray(path.read_bytes())
    at = octets.index(mark)
    if page:
        octets[at // 4096 * 4096 : at // 4096 * 4096 + 4096] = b"\xa5" * 4096
    else:
        octets[at] ^= 1
    path.write_bytes(octets)


def test_a_sound_file_is_said_to_be_sound(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(path) == 0
    told = capsys.readouterr().out
    assert f"{QUEUES} queue, 2 binding" in told
    assert told.endswith("sound\n")
    assert run(path, "--repair") == 0
    assert [each.name for each in path.parent.iterdir() if each.name.startswith("metadata")] == [
        "metadata.db"
    ]


def test_no_file_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--data-dir", str(tmp_path)]) == 0
    assert "begins blank" in capsys.readouterr().out


def test_a_flipped_letter_costs_one_row(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(path, b"q01234", page=False)
    assert run(path) == 1
    assert "queue '/' 'p01234' does not match its checksum" in capsys.readouterr().out
    assert run(path, "--repair") == 0
    told = capsys.readouterr().out
    assert "p01234" in told
    assert f"written anew with {len(CHANGES) - 1} objects" in told
    assert stored(path) == [one for one in CHANGES if getattr(one, "name", "") != "q01234"]
    assert run(path) == 0
    olds = list(path.parent.glob("metadata.db.damaged-*"))
    assert len(olds) == 1
    assert olds[0].stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600


def test_a_broken_page_costs_what_was_on_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(path, b"q01500", page=True)
    assert run(path) == 1
    told = capsys.readouterr().out
    assert "table queue: rows behind queue '/' 'q0" in told
    assert "cannot be read: database disk image is malformed" in told
    assert run(path, "--repair") == 0
    saved = stored(path)
    names = [one.name for one in saved if isinstance(one, QueuePut)]
    assert QUEUES - 300 < len(names) < QUEUES
    assert names[0] == "q00000"
    assert names[-1] == f"q{QUEUES - 1:05}"
    assert [one for one in saved if not isinstance(one, QueuePut)] == [
        one for one in CHANGES if not isinstance(one, QueuePut)
    ]
    assert run(path) == 0


def test_what_refers_to_nothing_is_not_kept(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = connect(path, writing=True)
    opened.execute("DELETE FROM queue WHERE name = 'q00007'")
    opened.execute("DELETE FROM user")
    opened.close()
    assert run(path) == 1
    told = capsys.readouterr().out
    assert told.count("refers to queue '/' 'q00007', which is not there") == 2
    assert told.count("refers to user 'guest', which is not there") == 2
    assert run(path, "--repair") == 0
    assert not any(isinstance(one, BindingPut | PermissionPut) for one in stored(path))
    assert run(path) == 0


def test_what_is_in_the_log_is_read_and_kept(path: Path) -> None:
    opened = connect(path, writing=True)
    batch = Batch()
    batch.add(VHostPut(name="late"))
    for sql, values in batch.statements():
        opened.execute(sql, values)
    copies = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    assert "metadata.db-wal" in copies
    opened.close()
    for name, octets in copies.items():
        # As a process that was killed leaves it.
        if not name.endswith("-shm"):
            (path.parent / name).write_bytes(octets)
    spoil(path, b"q01234", page=False)
    assert run(path) == 1
    assert run(path, "--repair") == 0
    assert VHostPut(name="late") in stored(path)
    assert run(path) == 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 99", "has format 99, this Warren knows 4"),
        ("PRAGMA application_id = 7", "is not a metadata file of Warren"),
    ],
)
def test_files_that_are_not_ours_are_left_alone(
    path: Path, statement: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = connect(path, writing=True)
    opened.execute(statement)
    opened.close()
    for options in ((), ("--repair",)):
        assert run(path, *options) == 78
        assert words in capsys.readouterr().err
    assert [each.name for each in path.parent.glob("metadata*")] == ["metadata.db"]


def test_nothing_to_read_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(b"x" * 10_000)
    assert run(path, "--repair") == 78
    told = capsys.readouterr().err
    assert "nothing in it can be read: file is not a database" in told
    assert "move it away" in told


def test_a_running_node_is_not_repaired(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = FileLock(path.parent / "warren.lock")
    opened = sqlite3.connect(path)
    assert run(path) == 0
    assert run(path, "--repair") == 1
    assert "stop the node first" in capsys.readouterr().err
    opened.close()
    lock.release()


def test_the_folder_is_found_as_the_node_finds_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARREN_DATA_DIR", str(path.parent))
    assert main(["doctor"]) == 0
    assert str(path) in capsys.readouterr().out
    monkeypatch.delenv("WARREN_DATA_DIR")
    config = tmp_path / "warren.toml"
    config.write_text(f'data_dir = "{tmp_path / "other"}"\n')
    assert main(["doctor", "--config", str(config)]) == 0
    assert "other" in capsys.readouterr().out
    config.write_text("odd = 1\n")
    assert main(["doctor", "--config", str(config)]) == 78
