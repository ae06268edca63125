"""Reading bodies of the message store: for records that were just read, on the reading lane.

`Wanted` notes the places that records name, in the order of their ids, and stops where there are
octets enough: the records behind that are for the next reading. `fetch` reads file by file, by
rising offsets, and checks each body.

Where a body is is looked up in the tables of the loop when it is read. A compaction may move it in
between: then its file is not there, or another record is in its place, and it is looked up again. A
body that is not where the tables say, at the second look still, or is not what was written, is lost
to the message; `problem` says why.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store.batch import FormatError
from warren.store.body_file import RECORD_HEADER, body_path, check_record
from warren.store.record import RecordSink, body_size_at, place_at

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.body_store import BodyStore
    from warren.store.index import QueueIndex


@final
class Wanted(RecordSink):
    """The places in records of a queue from an id on, up to so many octets of bodies."""

    def __init__(
        self, index: "QueueIndex", seq: i64, end: i64, most: i64, history: bool = False
    ) -> None:
        self.index = index
        self.history = history
        self.seq = seq
        # Records from this id on are not wanted (any more).
        self.end = end
        self.left = most
        self.places: dict[int, int] = {}

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        if seq < self.seq or seq >= self.end:
            return
        place = place_at(data, position)
        if place == 0 or not self._wants(seq):
            return
        if self.left <= 0:
            self.end = seq
            return
        wanted = body_size_at(data, position)
        self.places[int(place)] = int(wanted)
        self.left -= wanted

    def _wants(self, seq: i64) -> bool:
        index = self.index
        if self.history:
            return index.is_readable(seq) and index.has_body(seq)
        return index.is_live(seq)


@final
class Fetch:
    """Bodies by place, and why some of them are not there."""

    def __init__(self, bodies: "BodyStore") -> None:
        self.bodies = bodies
        self.found: dict[int, bytes] = {}
        self.problem = ""
        self.handle = -1
        self.number = -1

    def run(self, files: "Files", places: dict[int, int]) -> None:
        order = sorted((*self._locate(place), place) for place in places)
        try:
            for home, offset, place in order:
                self._read(files, home, offset, place, places[place])
        finally:
            self._close(files)

    def _locate(self, place: int) -> tuple[int, int]:
        """The number of the file that has a body now, and where it begins there; or -1."""
        file = self.bodies.files.get(place >> 32)
        number: i64 = (i64(place) & 0xFFFFFFFF) - 1
        if file is None or number + 1 >= len(file.offsets):
            return -1, -1
        return int(file.home.number), int(file.offsets[number])

    def _read(self, files: "Files", home: int, offset: int, place: int, size: int) -> None:
        problem = self._try(files, home, offset, place, size)
        while problem:
            again = self._locate(place)
            if again == (home, offset):
                self.problem = f"{body_path(home)} at {offset}: {problem}"
                return
            home, offset = again
            problem = self._try(files, home, offset, place, size)

    def _try(self, files: "Files", home: int, offset: int, place: int, size: int) -> str:
        """Read a body; return what is wrong."""
        if home < 0:
            return "the message store does not know it"
        try:
            if home != self.number:
                self._close(files)
                self.handle = files.open(body_path(home))
                self.number = home
            data = files.read(self.handle, offset, RECORD_HEADER + size)
            number = (place & 0xFFFFFFFF) - 1
            self.found[place] = check_record(data, file=place >> 32, number=number, size=size)
        except FileNotFoundError:
            return "the file is not there"
        except FormatError as problem:
            return str(problem)
        return ""

    def _close(self, files: "Files") -> None:
        if self.handle >= 0:
            handle = self.handle
            self.handle = -1
            self.number = -1
            files.close(handle)
