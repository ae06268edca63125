"""A child process: started without a copy of this one, heard of when it ends, never left behind.

The child's standard input is a pipe. What the child is told comes there, where nobody else sees it,
and nothing more: the pipe ends with this process, however that ends, and the child is to end then.
Signals that a terminal sends to this process do not reach it.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, final

# Where the system has no descriptors for processes.
POLL_S: Final = 0.5


@final
class Child:
    """A running process; `on_end` hears its exit status, negative for a signal, on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        command: Sequence[str],
        *,
        told: bytes,
        descriptors: Sequence[int],
        on_end: Callable[[int], None],
    ) -> None:
        """Start it, with these descriptors open in it under their numbers."""
        self._loop = loop
        self._on_end = on_end
        # Without a function to run in the child, Python starts it by vfork: the memory of this
        # process is not copied, however large it is.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdin is not None
        # Far below what a pipe holds. A child that has ended already is noticed below.
        with suppress(BrokenPipeError):
            self._process.stdin.write(told)
            self._process.stdin.flush()
        self._watched = -1
        with suppress(OSError, AttributeError):
            self._watched = os.pidfd_open(self.pid)
        if self._watched >= 0:
            loop.add_reader(self._watched, self._look)
        else:
            loop.call_later(POLL_S, self._look)

    def _look(self) -> None:
        status = self._process.poll()
        if status is not None:
            self._let_go()
            self._on_end(status)
        elif self._watched < 0:
            self._loop.call_later(POLL_S, self._look)

    def _let_go(self) -> None:
        if self._watched >= 0:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = -1
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def ask_to_end(self) -> None:
        """Ask it to end in order."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, and wait for that: the system needs no time worth telling."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._let_go()
