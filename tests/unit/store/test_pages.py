"""Page files: what is transient leaves memory; its file goes with its last page (MS-14, MS-24)."""

import zlib
from random import Random

import pytest
from librt.strings import BytesWriter

from tests.support.sim_files import SimFiles
from tests.support.sim_lanes import DirectLanes
from warren.store.batch import FormatError
from warren.store.pages import PAGE_HEADER, PageRead, Pages, PageWrite
from warren.store.record import write_publish


class End:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []

    def ended(self, page: PageWrite | PageRead, error: Exception | None) -> None:
        self.errors.append(error)


def records(*bodies: bytes) -> bytes:
    writer = BytesWriter()
    for seq, body in enumerate(bodies):
        size = len(body)
        write_publish(writer, 0, seq, 0, 0, 0, b"\x00\x00", b"\x00\x00", b"", size, 0, size)
        writer.write(body)
    return writer.getvalue()


class Rig:
    def __init__(self, file_size: int = 400) -> None:
        self.files = SimFiles(Random(1))
        self.lanes = DirectLanes(self.files)
        self.pages = Pages(self.lanes, file_size)

    def write(self, *bodies: bytes) -> PageWrite:
        end = End()
        page = PageWrite(records(*bodies), end)
        self.pages.write(page)
        self.lanes.run()
        assert end.errors == [None]
        return page

    def read(self, page: PageWrite) -> tuple[list[bytes], Exception | None]:
        end = End()
        reading = PageRead(page.file, page.offset, page.size, end)
        self.pages.read(reading)
        self.lanes.run()
        return [record.body for record in reading.records], end.errors[0]

    def drop(self, page: PageWrite) -> None:
        self.pages.drop(page.file, page.size)
        self.lanes.run()


@pytest.mark.rule("MS-14")
def test_a_file_goes_with_its_last_page() -> None:
    rig = Rig()
    written = [rig.write(b"%d" % number, b"x" * number) for number in range(12)]
    assert len({int(page.file) for page in written}) > 2
    for number, page in enumerate(written):
        assert rig.read(page) == ([b"%d" % number, b"x" * number], None)
    last = written[-1].file
    for page in written:
        before = set(rig.files.paths())
        rig.drop(page)
        gone = before - set(rig.files.paths())
        others = [one for one in written[written.index(page) + 1 :] if one.file == page.file]
        assert bool(gone) == (not others and page.file != last)
    # The one that is written stays, and is left when it is full.
    assert list(rig.files.paths()) == [f"msg_store_transient/{last}.rdq"]
    while rig.pages.number == last:
        rig.drop(rig.write(b"more"))
    assert list(rig.files.paths()) == [f"msg_store_transient/{rig.pages.number}.rdq"]


@pytest.mark.rule("MS-24")
def test_pages_are_never_synced() -> None:
    rig = Rig()
    synced: list[str] = []
    rig.files.gate = lambda call, path: synced.append(path) if "sync" in call else None
    for number in range(10):
        rig.drop(rig.write(b"%d" % number))
    assert not synced


def test_a_page_that_is_damaged_is_not_handed_over() -> None:
    rig = Rig()
    page = rig.write(b"one", b"two")
    handle = rig.files.open("msg_store_transient/0.rdq")
    data = rig.files.read(handle, 0, int(page.size))
    assert zlib.crc32(data[PAGE_HEADER:]) == int.from_bytes(data[4:8], "little")
    for at in (0, 5, PAGE_HEADER + 3, int(page.size) - 1):
        rig.files.write(handle, at, [bytes((data[at] ^ 1,))])
        found, error = rig.read(page)
        assert found == []
        assert isinstance(error, FormatError)
        rig.files.write(handle, at, [data[at : at + 1]])
    assert rig.read(page) == ([b"one", b"two"], None)
    rig.files.remove("msg_store_transient/0.rdq")
    assert isinstance(rig.read(page)[1], OSError)
