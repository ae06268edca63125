"""The message store: which bodies are in which file, and how many queues refer to each.

A body is known by its *place*: the file that it was first written to and its number there, packed
into one number. The place is what records of queues name, and never changes. Where the octets are
now is known by the `BodyFile` with the first of these numbers: it has for each body an offset and
a count of references, eight octets together, and a `Home`, the file on the disk. After a compaction
the bodies of several `BodyFile`s have one home.

`put` appends a body to the open commit; it counts for nothing until `hold` adds a reference, which
`Journal.publish_stored` does with the record that is the reference. `release` takes one away, in
the batch in which the message is settled. So counts are never written by themselves: a start takes
them as of the last record of a file in the state log, and replays what the journal says since.

A body without references when its batch is sealed is garbage, and nobody may refer to it again:
`holds` says whether a place may still be published. Garbage is never touched (MS-4); a file without
anything else goes when the batch that made it so is safe (MS-14), and of others `compaction.py`
copies what lives.

Bodies go to the file that is open, until one reaches the limit (MS-2). The next file is begun with
the next body. Invariants: `offsets` has one number more than there are bodies and never falls, so
the difference of two is the size of a record; a count below zero is a body that was given up.
"""

from typing import Final, final

from librt.strings import BytesWriter
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from warren.store.body_file import FILE_HEADER, RECORD_HEADER
from warren.store.record import pack_place, write_appended, write_released

EMBED_BELOW: Final = 4096
FILE_SIZE_LIMIT: Final = 16 * 1024 * 1024
# Whatever the limit: offsets have four octets, and a body of half as much may come on top.
FILE_SIZE_MAX: Final = 1 << 30
GARBAGE_FRACTION: Final = 0.5
FILES_MIN: Final = 3
GIVEN_UP: Final = -1


@final
class Home:
    """A file on the disk."""

    def __init__(self, number: i64, mark: i64) -> None:
        self.number = number
        self.mark = mark
        # Octets of all records, and of those that are referred to.
        self.size: i64 = 0
        self.valid: i64 = 0
        self.files: list[BodyFile] = []
        # Written to; some of it is in no commit that has ended; being compacted; not to be
        # compacted, because that failed.
        self.open = False
        self.unsafe = False
        self.busy = False
        self.bad = False


@final
class BodyFile:
    """The bodies whose places name this number."""

    def __init__(self, number: i64, home: Home) -> None:
        self.number = number
        self.home = home
        self.offsets: vec[i32] = append(vec[i32](), i32(FILE_HEADER))
        self.refs: vec[i32] = vec[i32]()
        # Bodies that are referred to.
        self.live: i64 = 0
        # In the store's lists of files that may be dead, and of those that the state log lacks.
        self.dying = False
        self.touched = False

    def size_of(self, number: i64) -> i64:
        """The size of a record."""
        return i64(self.offsets[number + 1]) - i64(self.offsets[number])

    def extend(self, size: i64) -> None:
        """A record of this size comes to the end."""
        offsets = self.offsets
        self.offsets = append(offsets, i32(i64(offsets[len(offsets) - 1]) + size))
        self.refs = append(self.refs, i32(0))


@final
class BodyAppend:
    """Bodies of one commit for one file: what the lane writes with one call."""

    def __init__(self, home: Home, file: BodyFile, *, fresh: bool) -> None:
        self.home = int(home.number)
        self.mark = int(home.mark)
        # The file has to be made.
        self.fresh = fresh
        self.offset = int(file.offsets[len(file.offsets) - 1])
        self.file = int(file.number)
        self.first: i64 = len(file.refs)
        # Sizes of the bodies; their octets one after the other, in parts.
        self.sizes: vec[i64] = vec[i64]()
        self.parts: list[bytes] = []
        # It is the last one for the file.
        self.full = False
        # Of so many the journal has been told, and the offset behind them.
        self.told: i64 = 0
        self.told_offset: i64 = i64(self.offset)


@final
class BodyStore:
    def __init__(self, mark: i64 = 0) -> None:
        self.mark = mark
        self.embed_below: i64 = EMBED_BELOW
        self.file_size_limit: i64 = FILE_SIZE_LIMIT
        self.garbage_fraction = GARBAGE_FRACTION
        self.files: dict[int, BodyFile] = {}
        # The files on the disk, oldest first. A compacted one takes the position of the older.
        self.homes: list[Home] = []
        # Octets of all records, and of those that are referred to.
        self.size: i64 = 0
        self.valid: i64 = 0
        # No file from this number on ever was.
        self.next_number: i64 = 0
        self.current: BodyFile | None = None
        # The file that was released in last.
        self.near: BodyFile | None = None
        # The open commit.
        self.appends: list[BodyAppend] = []
        self.open_bytes: i64 = 0
        self.runs: vec[i64] = vec[i64]()
        self.run_file: i64 = 0
        self.run_first: i64 = 0
        self.run_count: i64 = 0
        self.closed: list[Home] = []
        self.dying: list[BodyFile] = []
        self.touched: list[BodyFile] = []
        # Files that are no more and of which the state log has to hear.
        self.gone: list[int] = []
        # There are references that nothing is left of: the next start counts them anew.
        self.leaked = False
        # Files that could not be compacted because there was no room.
        self.crowded: list[Home] = []

    # -- appending -------------------------------------------------------------------------------

    def takes(self, body_size: i64, props_size: i64) -> bool:
        """Whether such a message is stored here and not embedded (ST-1, ST-2)."""
        return body_size + props_size >= self.embed_below

    def limit(self) -> i64:
        """The size that closes a file."""
        if self.file_size_limit > FILE_SIZE_MAX:
            return FILE_SIZE_MAX
        return self.file_size_limit

    def put(self, body: bytes, more: list[bytes] | None, size: i64) -> i64:
        """Append a body, or its chunks, to the open commit; return its place."""
        file = self.current
        if file is not None and file.home.size >= self.limit():
            # The limit was another one.
            self._close(file)
            file = None
        fresh = file is None
        if file is None:
            file = self._begin()
        appends = self.appends
        last: BodyAppend | None = None
        if len(appends) > 0:
            last = appends[len(appends) - 1]
        if last is None or last.full or fresh:
            last = BodyAppend(file.home, file, fresh=fresh)
            appends.append(last)
        number: i64 = len(file.refs)
        last.sizes = append(last.sizes, size)
        if more is None:
            more = [body]
        for part in more:
            if len(part) > 0:
                last.parts.append(part)
        record = size + RECORD_HEADER
        self.open_bytes += record
        file.extend(record)
        file.home.size += record
        self.size += record
        self.touch(file)
        if file.home.size >= self.limit():
            last.full = True
            self._close(file)
        return pack_place(file.number, number)

    def _begin(self) -> BodyFile:
        home = Home(self.next_number, self.mark)
        home.open = True
        home.unsafe = True
        file = BodyFile(self.next_number, home)
        home.files.append(file)
        self.homes.append(home)
        self.files[int(file.number)] = file
        self.next_number += 1
        self.current = file
        return file

    def _close(self, file: BodyFile) -> None:
        file.home.open = False
        self.closed.append(file.home)
        self.current = None
        self._suspect(file)

    # -- references ------------------------------------------------------------------------------

    def find(self, number: i64) -> BodyFile | None:
        file = self.near
        if file is None or file.number != number:
            file = self.files.get(int(number))
            if file is not None:
                self.near = file
        return file

    def holds(self, place: i64) -> bool:
        """Whether the body is still there to be published once more."""
        file = self.find(place >> 32)
        number = (place & 0xFFFFFFFF) - 1
        return file is not None and number < len(file.refs) and file.refs[number] >= 0

    def hold(self, place: i64) -> None:
        """A record refers to this body."""
        file = self.find(place >> 32)
        number = (place & 0xFFFFFFFF) - 1
        if file is None or number >= len(file.refs) or file.refs[number] < 0:
            raise LookupError(f"the message store has no body {place >> 32}/{number}")
        refs = file.refs
        count = i64(refs[number]) + 1
        refs[number] = i32(count)
        file.refs = refs
        if count == 1:
            size = file.size_of(number)
            file.live += 1
            file.home.valid += size
            self.valid += size
        self.touch(file)

    def release(self, place: i64) -> None:
        """A reference is settled; in the same batch as the settling."""
        number = (place & 0xFFFFFFFF) - 1
        if not self.drop(place >> 32, number):
            return
        if self.run_count > 0:
            if place >> 32 == self.run_file and number == self.run_first + self.run_count:
                self.run_count += 1
                return
            self._end_run()
        self.run_file = place >> 32
        self.run_first = number
        self.run_count = 1

    def drop(self, number: i64, record: i64) -> bool:
        """A reference is gone; False if there was none."""
        file = self.find(number)
        if file is None or record >= len(file.refs) or file.refs[record] <= 0:
            return False
        refs = file.refs
        count = i64(refs[record]) - 1
        refs[record] = i32(count)
        file.refs = refs
        if count == 0:
            size = file.size_of(record)
            file.live -= 1
            file.home.valid -= size
            self.valid -= size
            if file.live == 0:
                self._suspect(file)
        self.touch(file)
        return True

    def touch(self, file: BodyFile) -> None:
        """The state log does not know it as it is now."""
        if not file.touched:
            file.touched = True
            self.touched.append(file)

    def _suspect(self, file: BodyFile) -> None:
        if file.live == 0 and not file.dying:
            file.dying = True
            self.dying.append(file)

    def _end_run(self) -> None:
        runs = append(self.runs, self.run_file)
        runs = append(runs, self.run_first)
        self.runs = append(runs, self.run_count)
        self.run_count = 0

    # -- the journal -----------------------------------------------------------------------------

    def write_records(self, writer: BytesWriter) -> None:
        """Write what was appended and released since the last time."""
        for some in self.appends:
            count: i64 = len(some.sizes)
            if some.told < count:
                first = some.first + some.told
                write_appended(writer, some.file, first, some.told_offset, some.sizes, some.told)
                while some.told < count:
                    some.told_offset += some.sizes[some.told] + RECORD_HEADER
                    some.told += 1
        if self.run_count > 0:
            self._end_run()
        runs = self.runs
        at: i64 = 0
        while at < len(runs):
            write_released(writer, runs[at], runs[at + 1], runs[at + 2])
            at += 3
        if at > 0:
            self.runs = vec[i64]()

    def take_appends(self) -> list[BodyAppend]:
        """What the commit that is sealed now has to write first."""
        appends = self.appends
        if len(appends) > 0:
            self.appends = []
            self.open_bytes = 0
        return appends

    def take_closed(self) -> list[Home]:
        """The files whose last octets are in the commit that is sealed now."""
        closed = self.closed
        if len(closed) > 0:
            self.closed = []
        return closed

    def bury(self) -> list[int]:
        """Give up files without references; return those on the disk that may go with the batch."""
        dead: list[int] = []
        if len(self.dying) == 0:
            return dead
        dying = self.dying
        self.dying = []
        for file in dying:
            file.dying = False
            home = file.home
            if file.live > 0 or home.open:
                continue
            if home.busy:
                self._suspect(file)
                continue
            self._bury(file)
            if len(home.files) == 0:
                dead.append(int(home.number))
        return dead

    def forgive(self) -> None:
        """There may be room again."""
        for home in self.crowded:
            home.bad = False
        self.crowded = []

    def _bury(self, file: BodyFile) -> None:
        home = file.home
        del self.files[int(file.number)]
        self.gone.append(int(file.number))
        self.near = None
        home.files.remove(file)
        if len(home.files) == 0:
            self.size -= home.size
            self.homes.remove(home)
