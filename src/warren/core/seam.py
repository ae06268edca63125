"""The seam to the machine: what the sans-IO packages may ask for, as Protocols.

`warren.runtime` implements them on the real machine, tests and the simulator on a virtual one.
Sockets cross the seam as octets handed in and out by whoever drives a machine, files as jobs.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Clock(Protocol):
    """Monotonic time for intervals, wall time for people and for wire timestamps."""

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class Random(Protocol):
    """Randomness: salts, generated names, tokens."""

    def octets(self, count: int) -> bytes: ...


class Files(Protocol):
    """Files of one data folder, by path from it. Calls block: only jobs on a `Lanes` make them.

    What was written is safe after `sync` of that file; that a file has its name (or has lost it)
    is safe after `sync_folder` of its folder. Failures are `OSError`.
    """

    def create(self, path: str) -> int:
        """Make an empty file, or empty the one that is there; return its handle."""
        ...

    def open(self, path: str) -> int: ...

    def close(self, handle: int) -> None: ...

    def write(self, handle: int, offset: int, parts: "Sequence[bytes]") -> None:
        """Write all of these octets, one part after the other."""
        ...

    def read(self, handle: int, offset: int, size: int) -> bytes:
        """Read up to `size` octets; fewer only where the file ends."""
        ...

    def sync(self, handle: int) -> None: ...

    def size(self, handle: int) -> int: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file, or nothing if it is not there."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder, unless it is there."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with everything in it, or nothing if it is not there."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def sync_all(self) -> None:
        """Sync every file and folder of the data folder: cheaper than very many `sync`s."""
        ...

    def names(self, path: str) -> list[str]:
        """What a folder holds, sorted; nothing if it is not there."""
        ...


class Job(Protocol):
    """Work on files that is done elsewhere and reported here."""

    def run(self, files: Files) -> None:
        """Do it, on the lane's own thread. An exception is handed to `done`."""
        ...

    def done(self, error: Exception | None) -> None:
        """Hear of it, where the machine runs."""
        ...


class Lanes(Protocol):
    """Threads for jobs: those of one lane are done one after the other, in order."""

    def submit(self, lane: int, job: Job) -> None: ...
