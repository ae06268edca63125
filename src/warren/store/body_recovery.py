"""The message store at a start: tables from the state log and the journal, without reading bodies.

1. `take` notes what the state log says of each file (`state.py`).
2. The journal is replayed (`body_replay.py`): what was appended, referred to and released since.
3. `finish` makes the store of it: files without references are none, and what lies on the disk
   without being known is removed; that is, what a compaction or a commit left that did not come to
   its end. The last file is gone on with (MS-29): what is behind the last body that the journal
   names is cut off, because the commit that wrote it never ended.

After damage to the journal or the state log, or when damage cost records of which nobody knows what
they referred to, nothing of that is trusted (MS-27): `body_rebuild.py` looks at all files and at
all records of queues instead.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store.batch import FormatError
from warren.store.body_file import FILE_HEADER, body_numbers, body_path, read_mark
from warren.store.body_rebuild import BodyRebuild
from warren.store.body_replay import BodyReplay, count, end_of, install
from warren.store.body_store import BodyFile, BodyStore, Home
from warren.store.state import decode_file

if TYPE_CHECKING:
    from collections import Counter

    from warren.core.seam import Files


@final
class BodyRecovery:
    def __init__(self, files: "Files", bodies: BodyStore) -> None:
        self.disk = files
        self.bodies = bodies
        # The last record of each file.
        self.latest: dict[int, bytes] = {}
        self.tables: dict[int, BodyFile] = {}
        self.taken: dict[int, i64] = {}
        self.replay = BodyReplay(self.tables, self.taken)
        # The state log says that references are lost.
        self.leaked = False
        self.torn_bytes = 0

    # -- the state log ---------------------------------------------------------------------------

    def take(self, number: int, record: bytes) -> None:
        self.latest[number] = record

    def forget(self, number: int, lsn: int) -> None:
        self.latest.pop(number, None)
        self.taken[number] = i64(lsn)

    def decode(self) -> None:
        """The state log is read: know the files as it has them."""
        homes: dict[int, Home] = {}
        for number, record in self.latest.items():
            file, lsn = decode_file(record, 0)
            file.home = homes.setdefault(int(file.home.number), file.home)
            self.tables[number] = file
            self.taken[number] = lsn
            self.knows(number)
            self.knows(int(file.home.number))

    def knows(self, number: int) -> None:
        """This number was given."""
        self.bodies.next_number = max(self.bodies.next_number, i64(number + 1))

    # -- the end ---------------------------------------------------------------------------------

    def finish(self) -> bool:
        """Make the store of what was found; False if some of it cannot be true."""
        bodies = self.bodies
        self.knows(int(self.replay.highest))
        there = body_numbers(self.disk)
        for number in there:
            self.knows(number)
        for file in self.tables.values():
            file.home.valid = 0
        for file in self.tables.values():
            if not count(file):
                return False
        last: BodyFile | None = None
        for number in sorted(self.tables):
            file = self.tables[number]
            if file.live > 0:
                install(bodies, file)
                last = file
            elif number in self.latest:
                bodies.gone.append(number)
        for number in self.replay.seen:
            if number in bodies.files:
                bodies.touch(bodies.files[number])
        if last is not None and last.number == last.home.number and int(last.number) in there:
            self._resume(last)
        bodies.size = i64(sum(int(home.size) for home in bodies.homes))
        bodies.valid = i64(sum(int(home.valid) for home in bodies.homes))
        self.clear()
        return True

    def rebuild(self, references: "Counter[int]") -> None:
        """Make the store of the files themselves and of what records refer to."""
        bodies = self.bodies
        self.knows(int(self.replay.highest))
        BodyRebuild(self.disk, bodies, references).run()
        bodies.size = i64(sum(int(home.size) for home in bodies.homes))
        bodies.valid = i64(sum(int(home.valid) for home in bodies.homes))
        bodies.gone = []
        bodies.leaked = False
        self.clear()

    def clear(self) -> None:
        """Remove files that hold nothing."""
        named = {int(home.number) for home in self.bodies.homes}
        for number in body_numbers(self.disk):
            if number not in named:
                self.disk.remove(body_path(number))

    def _resume(self, file: BodyFile) -> None:
        """Go on writing to the last file, if it is what it should be and has room."""
        end = int(end_of(file.offsets))
        if end - FILE_HEADER >= self.bodies.file_size_limit:
            return
        path = body_path(int(file.number))
        handle = self.disk.open(path)
        try:
            size = self.disk.size(handle)
            try:
                mark = read_mark(self.disk.read(handle, 0, FILE_HEADER), int(file.number))
            except FormatError:
                return
            if size < end:
                return
            if size > end:
                self.torn_bytes += size - end
                self.disk.truncate(handle, end)
                self.disk.sync(handle)
        finally:
            self.disk.close(handle)
        file.home.mark = i64(mark)
        file.home.open = True
        file.home.unsafe = True
        self.bodies.current = file
