"""The disk of a test's broker does what a disk does."""

from tests.support.files_conformance import check_files
from warren.testing.files import DirectLanes, MemoryFiles


def test_files_in_memory() -> None:
    check_files(MemoryFiles())


def test_a_copy_is_another_disk() -> None:
    files = MemoryFiles()
    files.make_folder("f")
    handle = files.create("f/a")
    files.write(handle, 0, [b"one"])
    copy = files.copy()
    files.write(handle, 3, [b"two"])
    files.remove_folder("f")
    assert copy.names("f") == ["a"]
    assert copy.read(copy.open("f/a"), 0, 10) == b"one"


class Writes:
    def __init__(self) -> None:
        self.ended: list[Exception | None] = []

    def run(self, files: object) -> None:
        assert isinstance(files, MemoryFiles)
        files.open("nowhere")

    def done(self, error: Exception | None) -> None:
        self.ended.append(error)


def test_jobs_are_told_later() -> None:
    told: list[tuple[object, Exception | None]] = []
    lanes = DirectLanes(MemoryFiles(), lambda function, error: told.append((function, error)))
    job = Writes()
    lanes.submit(0, job)
    assert job.ended == []
    ((function, error),) = told
    assert function == job.done
    assert isinstance(error, FileNotFoundError)
    assert lanes.close()
