"""One node per data folder: an advisory lock that the system drops when the process dies.

The lock is on an open file, so a crash leaves nothing to clean up; the file itself stays and holds
the owner's pid for the message only.
"""

import fcntl
import os
from pathlib import Path
from typing import final


class LockHeldError(Exception):
    """Another process holds the lock."""

    def __init__(self, path: Path, pid: str) -> None:
        owner = f"process {pid}" if pid else "another process"
        super().__init__(f"{path.parent} is in use by {owner} (lock file {path.name})")
        self.path = path
        self.pid = pid


@final
class FileLock:
    """A held lock; released by `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock at once or raise `LockHeldError`; `OSError`: no such folder or no right."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise LockHeldError(path, pid) from None
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@final
class LookLock:
    """Keeps a node from starting while somebody looks at its files; writes nothing.

    Several may hold it. Where there is no lock file, no node ever ran and there is nothing to hold.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock at once or raise `LockHeldError`: a node runs there."""
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            self.release()
            raise LockHeldError(path, pid) from None

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
