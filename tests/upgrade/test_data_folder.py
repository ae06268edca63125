"""Data folders of every format there ever was are opened, and hold what they held."""

import tarfile
from pathlib import Path

import pytest

from tests.support.broker import start_broker
from tests.upgrade.content import check

ARCHIVES = sorted((Path(__file__).parent / "data").glob("*.tar.xz"))


@pytest.mark.slow
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_an_earlier_data_folder_holds_what_it_held(archive: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with tarfile.open(archive) as packed:
        packed.extractall(data, filter="data")
    broker = start_broker(tmp_path)
    try:
        check(broker)
    finally:
        broker.stop()


def test_there_is_an_archive() -> None:
    assert ARCHIVES
