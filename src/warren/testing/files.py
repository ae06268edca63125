"""The disk of a test's broker: `warren.core.seam.Files` in memory, and lanes without threads.

What was written is there for the next node, synced or not, as after the death of a process. A
killed node goes on writing to what nobody reads any more: the next one has a copy that was made
before. Jobs are done when they are handed over and told on the loop, so nothing that a test waits
for is ever under way anywhere else.
"""

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from warren.core.seam import Files, Job


@final
class MemoryFiles:
    def __init__(self) -> None:
        # Files by path; folders are there when they were made, the data folder always.
        self._files: dict[str, bytearray] = {}
        self._folders: set[str] = {""}
        self._open: dict[int, bytearray] = {}
        self._next = 3

    def copy(self) -> "MemoryFiles":
        """Return the disk as it is now, with nothing open."""
        made = MemoryFiles()
        made._files = {path: bytearray(data) for path, data in self._files.items()}
        made._folders = set(self._folders)
        return made

    def create(self, path: str) -> int:
        self._look_for_folder(path)
        data = self._files.setdefault(path, bytearray())
        data.clear()
        return self._handle(data)

    def open(self, path: str) -> int:
        return self._handle(self._named(path))

    def close(self, handle: int) -> None:
        self._of(handle)
        del self._open[handle]

    def write(self, handle: int, offset: int, parts: Sequence[bytes]) -> None:
        data = self._of(handle)
        for part in parts:
            if len(data) < offset and part:
                data.extend(bytes(offset - len(data)))
            data[offset : offset + len(part)] = part
            offset += len(part)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        return bytes(self._of(handle)[offset : offset + size])

    def sync(self, handle: int) -> None:
        self._of(handle)

    def size(self, handle: int) -> int:
        return len(self._of(handle))

    def truncate(self, handle: int, size: int) -> None:
        data = self._of(handle)
        del data[size:]
        data.extend(bytes(size - len(data)))

    def rename(self, old: str, new: str) -> None:
        data = self._named(old)
        self._look_for_folder(new)
        self._files[new] = data
        if new != old:
            del self._files[old]

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def make_folder(self, path: str) -> None:
        self._look_for_folder(path)
        self._folders.add(path)

    def remove_folder(self, path: str) -> None:
        inside = f"{path}/"
        self._folders = {one for one in self._folders if one != path and not one.startswith(inside)}
        for one in [one for one in self._files if one.startswith(inside)]:
            del self._files[one]

    def sync_folder(self, path: str) -> None:
        if path not in self._folders:
            raise _missing(path)

    def sync_all(self) -> None:
        """Nothing is ever lost here."""

    def names(self, path: str) -> list[str]:
        inside = f"{path}/" if path else ""
        below = [*self._files, *self._folders]
        found = {one[len(inside) :] for one in below if one.startswith(inside) and one != path}
        return sorted(one for one in found if one and "/" not in one)

    def _handle(self, data: bytearray) -> int:
        handle = self._next
        self._next += 1
        self._open[handle] = data
        return handle

    def _look_for_folder(self, path: str) -> None:
        """Refuse a name in a folder that is not there."""
        if path.rpartition("/")[0] not in self._folders:
            raise _missing(path)

    def _named(self, path: str) -> bytearray:
        data = self._files.get(path)
        if data is None:
            raise _missing(path)
        return data

    def _of(self, handle: int) -> bytearray:
        data = self._open.get(handle)
        if data is None:
            raise OSError(errno.EBADF, "no such handle")
        return data


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no such file", path)


@final
class DirectLanes:
    """Jobs are done at once; `call` has their ends told on the loop."""

    def __init__(
        self,
        files: "Files",
        call: "Callable[[Callable[[Exception | None], None], Exception | None], object]",
    ) -> None:
        self.files = files
        self.call = call

    def submit(self, lane: int, job: "Job") -> None:
        error: Exception | None = None
        try:
            job.run(self.files)
        except Exception as failure:  # As the lanes of the machine do.
            error = failure
        self.call(job.done, error)

    def close(self) -> bool:
        """Everything is done."""
        return True
