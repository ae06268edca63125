"""The node's log: one event, one line, fields not prose.

`Log.event("info", "connection.accepted", peer=...)` writes to stderr and to a file; `log_line` has
the forms. Invariants: the caller never waits for a disk or a pipe (a thread writes, a full queue
counts what it dropped and tells it later); memory is bounded; a failed output stops nothing.

Events of one (name, reason) beyond `LINES_PER_WINDOW` in `WINDOW_NS` are counted, and the count is
told by one `log.suppressed` line. So are events of one name beyond `LINES_PER_NAME`, whatever
their reasons: some have words of clients in them. A moved file is noticed at the next line
(rotation by `mv` needs no signal); `reopen` is for SIGHUP. Spec rules O-11.1, O-11.2.
"""

import logging
import queue
import sys
import threading
from collections.abc import Mapping, Sequence
from logging.handlers import WatchedFileHandler
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO, final

from warren.core.seam import Clock
from warren.server.config import Settings
from warren.server.log_line import json_line, text_line

# A storm of one reason shows itself in twenty lines; twenty lines a second of each do not hurt.
LINES_PER_WINDOW: Final = 20
LINES_PER_NAME: Final = 100
WINDOW_NS: Final = 1_000_000_000
# Reasons come from code: a node knows a few hundred. Past this the oldest count is told and left.
REASONS_MAX: Final = 1024
# About 10 MiB of lines while the disk stalls.
LINES_WAITING_MAX: Final = 32_768
# How long the end of the node waits for a stuck output.
CLOSE_WAIT_S: Final = 2.0

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "debug": logging.DEBUG,
        "info": logging.INFO,
        "warning": logging.WARNING,
        "error": logging.ERROR,
        "critical": logging.CRITICAL,
        "none": logging.CRITICAL + 1,
    }
)
_NO_FIELDS: Final[Mapping[str, object]] = MappingProxyType({})


class _File(WatchedFileHandler):
    """The log file; what cannot be written (full disk, folder gone) is lost, the node goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        return


class _Console(logging.StreamHandler[TextIO]):
    """The terminal or the journal; a closed pipe is no reason to stop."""

    def handleError(self, record: logging.LogRecord) -> None:
        return


@final
class _Writer:
    """The thread that writes lines, so that the event loop does not."""

    def __init__(self, outputs: Sequence[logging.Handler]) -> None:
        self.dropped = 0
        self._outputs = outputs
        self._lines: queue.Queue[str | threading.Event | None] = queue.Queue(LINES_WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="warren-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Hand over a line; drop and count it when the outputs are too far behind."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def flush(self, wait_s: float) -> bool:
        """Wait until what was handed over before is written; False when it takes too long."""
        written = threading.Event()
        try:
            self._lines.put(written, timeout=wait_s)
        except queue.Full:
            return False
        return written.wait(wait_s)

    def close(self) -> None:
        """Write what waits, within `CLOSE_WAIT_S`."""
        try:
            self._lines.put(None, timeout=CLOSE_WAIT_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            if isinstance(line, threading.Event):
                line.set()
                continue
            record = logging.LogRecord("warren", logging.INFO, "", 0, line, None, None)
            for output in self._outputs:
                output.handle(record)


class _LibraryHandler(logging.Handler):
    """Turns records of libraries (asyncio) into events."""

    def __init__(self, log: "Log") -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"logger": record.name, "message": record.getMessage()}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields["error"] = repr(error)
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                fields["at"] = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        self._log.event(record.levelname.lower(), "log.library", fields)


@final
class Log:
    """The log of one node; an `EventLog` for the packages below."""

    def __init__(
        self,
        *,
        clock: Clock,
        level: str = "info",
        form: str = "text",
        file: Path | None = None,
        console: TextIO | None = sys.stderr,
    ) -> None:
        """Open the log; a file that cannot be opened is an `OSError` now, not a loss later."""
        self._clock = clock
        self._least = LEVELS[level]
        self._line = json_line if form == "json" else text_line
        self._counts: dict[tuple[str, str], list[int]] = {}
        # Per name, whatever the reason: the window's start and the lines in it.
        self._names: dict[str, list[int]] = {}
        self._file: _File | None = None
        outputs: list[logging.Handler] = []
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = _File(file, encoding="utf-8", errors="backslashreplace")
            outputs.append(self._file)
        if console is not None:
            outputs.append(_Console(console))
        self._writer = _Writer(outputs)
        self._library = _LibraryHandler(self)
        self._open = True

    def event(
        self,
        level: str,
        name: str,
        fields: Mapping[str, object] = _NO_FIELDS,
        /,
        **more: object,
    ) -> None:
        """Write one event, unless it is below the level or one too many of its reason."""
        number = LEVELS.get(level, logging.ERROR)
        if number < self._least or not self._open:
            return
        if more:
            fields = {**fields, **more}
        now = self._clock.monotonic_ns()
        key = (name, str(fields.get("reason", "")))
        count = self._counts.get(key)
        if count is None or now - count[0] >= WINDOW_NS:
            self._tell_suppressed(key, count)
            if count is None and len(self._counts) >= REASONS_MAX:
                oldest = next(iter(self._counts))
                self._tell_suppressed(oldest, self._counts.pop(oldest))
            self._counts[key] = [now, 1]
        elif count[1] >= LINES_PER_WINDOW:
            count[1] += 1
            return
        else:
            count[1] += 1
        if self._within_name(name, now):
            self._write(level, name, fields)

    def _within_name(self, name: str, now: int) -> bool:
        """Count a line of this name; False when there are enough of it in this window."""
        total = self._names.get(name)
        if total is None or now - total[0] >= WINDOW_NS:
            self._tell_more_of_name(name, total)
            self._names[name] = [now, 1]
            return True
        total[1] += 1
        return total[1] <= LINES_PER_NAME

    def _tell_more_of_name(self, name: str, total: list[int] | None) -> None:
        if total is not None and total[1] > LINES_PER_NAME:
            fields = {"event": name, "count": total[1] - LINES_PER_NAME, "reason": "any"}
            self._write("warning", "log.suppressed", fields)

    def level(self, level: str) -> None:
        """Change the least level that is written."""
        self._least = LEVELS[level]

    def tell_suppressed(self) -> None:
        """Write the counts of storms that ended; for a timer, or quiet hides them."""
        now = self._clock.monotonic_ns()
        for key, count in list(self._counts.items()):
            if now - count[0] >= WINDOW_NS:
                self._tell_suppressed(key, count)
                del self._counts[key]
        for name, total in list(self._names.items()):
            if now - total[0] >= WINDOW_NS:
                self._tell_more_of_name(name, total)
                del self._names[name]

    def adopt_libraries(self) -> None:
        """Take over the records of libraries (asyncio's warnings), from `warning` up."""
        logging.getLogger().handlers[:] = [self._library]

    def reopen(self) -> None:
        """Close the file and open its name again, for SIGHUP."""
        if self._file is None:
            return
        self._file.acquire()
        try:
            self._file.close()
            # `emit` opens the name again when there is no stream.
            self._file.stream = None
        finally:
            self._file.release()

    def flush(self, wait_s: float = CLOSE_WAIT_S) -> bool:
        """Wait until everything so far is written: before an exit that runs no `close`."""
        return self._writer.flush(wait_s)

    def close(self) -> None:
        """Tell what was suppressed, write what waits, close the file."""
        if not self._open:
            return
        for key, count in self._counts.items():
            self._tell_suppressed(key, count)
        for name, total in self._names.items():
            self._tell_more_of_name(name, total)
        self._open = False
        logging.getLogger().removeHandler(self._library)
        self._writer.close()
        if self._file is not None:
            self._file.close()

    def _tell_suppressed(self, key: tuple[str, str], count: list[int] | None) -> None:
        if count is None or count[1] <= LINES_PER_WINDOW:
            return
        fields: dict[str, object] = {"event": key[0], "count": count[1] - LINES_PER_WINDOW}
        if key[1]:
            fields["reason"] = key[1]
        self._write("warning", "log.suppressed", fields)

    def _write(self, level: str, name: str, fields: Mapping[str, object]) -> None:
        now = self._clock.wall_ns()
        if self._writer.dropped:
            lost = {"count": self._writer.dropped, "reason": "outputs too slow"}
            self._writer.dropped = 0
            self._writer.put(self._line(now, "error", "log.dropped", lost))
        self._writer.put(self._line(now, level, name, fields))


def open_log(settings: Settings, clock: Clock) -> Log:
    """Open the log that the settings describe."""
    return Log(
        clock=clock,
        level=settings.log_level,
        form=settings.log_format,
        file=settings.log_file,
        console=sys.stderr if settings.log_console else None,
    )
