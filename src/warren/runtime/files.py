"""The machine's files, as `warren.core.seam.Files`, below one folder.

Every call blocks and lets other threads run meanwhile. `sync` is fdatasync: it takes the size of a
file along, and that is all of a file's attributes that matter here.
"""

import ctypes
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

# The kernel takes so many parts in one call.
PARTS_MAX: Final = 1024
READ_MAX: Final = 1 << 30


@final
class SystemFiles:
    def __init__(self, root: Path, *, look_only: bool = False) -> None:
        self.root = root
        # Files are opened for reading, and need to be no more than readable.
        self.look_only = look_only
        self._libc: ctypes.CDLL | None = None
        with suppress(OSError):
            self._libc = ctypes.CDLL(None, use_errno=True)

    def create(self, path: str) -> int:
        return os.open(self.root / path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def open(self, path: str) -> int:
        mode = os.O_RDONLY if self.look_only else os.O_RDWR
        return os.open(self.root / path, mode | os.O_CLOEXEC)

    def close(self, handle: int) -> None:
        os.close(handle)

    def write(self, handle: int, offset: int, parts: Sequence[bytes]) -> None:
        for begin in range(0, len(parts), PARTS_MAX):
            some = parts[begin : begin + PARTS_MAX]
            wanted = sum(len(part) for part in some)
            done = os.pwritev(handle, some, offset)
            while done < wanted:
                # A disk that is nearly full, or a signal, takes a part; the rest is asked again.
                rest = memoryview(b"".join(some))[done:]
                done += os.pwrite(handle, rest, offset + done)
            offset += wanted

    def read(self, handle: int, offset: int, size: int) -> bytes:
        data = os.pread(handle, min(size, READ_MAX), offset)
        if len(data) == size:
            return data
        pieces = [data]
        have = len(data)
        while data and have < size:
            data = os.pread(handle, min(size - have, READ_MAX), offset + have)
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)

    def sync(self, handle: int) -> None:
        os.fdatasync(handle)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.root / old, self.root / new)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def make_folder(self, path: str) -> None:
        (self.root / path).mkdir(mode=0o700, exist_ok=True)

    def remove_folder(self, path: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.root / path)

    def sync_folder(self, path: str) -> None:
        handle = os.open(self.root / path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sync_all(self) -> None:
        syncfs = getattr(self._libc, "syncfs", None)
        if syncfs is None:
            # Where there is no such call, everything of the machine is synced.
            os.sync()
            return
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(handle)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except FileNotFoundError:
            return []
