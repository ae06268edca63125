"""What every `warren.core.seam.Files` must do: those of the machine and all others."""

import pytest

from warren.core.seam import Files


def check_files(files: Files) -> None:
    """Begin with an empty data folder."""
    _check_octets(files)
    _check_names(files)
    _check_folders(files)


def _check_octets(files: Files) -> None:
    handle = files.create("a")
    assert files.size(handle) == 0
    assert files.read(handle, 0, 10) == b""
    files.write(handle, 0, [b"one", b"", b"two"])
    files.write(handle, 8, [b"x" * 3])
    assert files.size(handle) == 11
    assert files.read(handle, 0, 100) == b"onetwo\x00\x00xxx"
    assert files.read(handle, 4, 3) == b"wo\x00"
    assert files.read(handle, 11, 5) == b""
    files.write(handle, 1, [b"NE"])
    files.write(handle, 5, [])
    files.sync(handle)
    assert files.read(handle, 0, 6) == b"oNEtwo"
    files.truncate(handle, 4)
    assert files.read(handle, 0, 100) == b"oNEt"
    files.truncate(handle, 6)
    assert files.read(handle, 0, 100) == b"oNEt\x00\x00"
    many = [bytes((number % 251,)) * (number % 7) for number in range(3000)]
    files.write(handle, 2, many)
    assert files.read(handle, 2, 100_000) == b"".join(many)
    files.close(handle)
    with pytest.raises(OSError, match=r"Errno|no such"):
        files.size(handle)


def _check_names(files: Files) -> None:
    handle = files.create("b")
    files.write(handle, 0, [b"of b"])
    # A file lives as long as it is open, whatever happens to its name.
    files.rename("b", "c")
    other = files.open("c")
    assert other != handle
    assert files.read(other, 0, 10) == b"of b"
    files.remove("c")
    assert files.read(handle, 0, 10) == b"of b"
    files.close(handle)
    files.close(other)
    files.remove("c")
    for missing in ("c", "none/c"):
        with pytest.raises(FileNotFoundError):
            files.open(missing)
    with pytest.raises(FileNotFoundError):
        files.rename("c", "d")
    with pytest.raises(FileNotFoundError):
        files.create("none/c")
    files.remove("none/c")
    # Creating empties what is there; renaming replaces it.
    for name, octets in (("d", b"old"), ("e", b"new")):
        handle = files.create(name)
        files.write(handle, 0, [octets])
        files.close(handle)
    files.rename("e", "d")
    handle = files.open("d")
    assert files.read(handle, 0, 10) == b"new"
    files.close(handle)
    handle = files.create("d")
    assert files.size(handle) == 0
    files.close(handle)
    assert files.names("") == ["a", "d"]


def _check_folders(files: Files) -> None:
    assert files.names("folder") == []
    files.make_folder("folder")
    files.make_folder("folder")
    files.make_folder("folder/inner")
    for path in ("folder/2", "folder/10", "folder/inner/x"):
        files.close(files.create(path))
    assert files.names("folder") == ["10", "2", "inner"]
    files.sync_folder("folder")
    files.sync_folder("")
    files.sync_all()
    with pytest.raises(FileNotFoundError):
        files.sync_folder("none")
    with pytest.raises(FileNotFoundError):
        files.make_folder("none/folder")
    with pytest.raises(OSError, match=r"Errno|no such"):
        files.open("folder/none")
    files.remove_folder("folder")
    files.remove_folder("folder")
    assert files.names("") == ["a", "d"]
