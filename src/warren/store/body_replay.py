"""What the records of the journal do to the files of the message store at a start.

Each file is taken as its last record in the state log has it; records behind the lsn at which that
was true add bodies and references and take references away. A file that no state knows begins
empty. One that had already gone when the journal began is only known by what it lost: its counts
end at zero or below, and it is none.
"""

from typing import TYPE_CHECKING, final

from librt.strings import read_i32_le, read_i64_le
from librt.vecs import append
from mypy_extensions import i32, i64

from warren.store.body_file import FILE_HEADER, RECORD_HEADER
from warren.store.body_store import BodyFile, BodyStore, Home

if TYPE_CHECKING:
    from librt.vecs import vec


@final
class BodyReplay:
    def __init__(self, files: dict[int, BodyFile], taken: dict[int, i64]) -> None:
        self.files = files
        # The lsn at which the state of a file was true.
        self.taken = taken
        self.last: BodyFile | None = None
        self.last_taken: i64 = 0
        self.highest: i64 = -1
        # References were lost with damaged records.
        self.leaked = False
        # Files that something happened to since their state.
        self.seen: set[int] = set()

    def _find(self, number: i64) -> BodyFile:
        file = self.last
        if file is None or file.number != number:
            self.highest = max(self.highest, number)
            file = self.files.get(int(number))
            if file is None:
                file = BodyFile(number, Home(number, 0))
                self.files[int(number)] = file
            self.seen.add(int(number))
            self.last = file
            self.last_taken = self.taken.get(int(number), i64(0))
        return file

    def hold(self, place: i64, lsn: i64) -> None:
        file = self._find(place >> 32)
        if lsn >= self.last_taken:
            _add(file, (place & 0xFFFFFFFF) - 1, 1)

    def release(self, number: i64, first: i64, count: i64, lsn: i64) -> None:
        file = self._find(number)
        if lsn < self.last_taken:
            return
        end = first + count
        while first < end:
            _add(file, first, -1)
            first += 1

    def append(self, number: i64, first: i64, count: i64, lsn: i64, data: bytes, pos: i64) -> None:
        """Bodies came to a file: the record about it is at a position in `data`."""
        file = self._find(number)
        offset = read_i64_le(data, pos + 32)
        offsets = file.offsets
        place: i64 = len(offsets)
        place -= 1
        if lsn < self.last_taken or place != first or i64(offsets[place]) != offset:
            return
        at = pos + 40
        while count > 0:
            offset += i64(read_i32_le(data, at)) + RECORD_HEADER
            offsets = append(offsets, i32(offset))
            at += 4
            count -= 1
        file.offsets = offsets


def _add(file: BodyFile, number: i64, change: i64) -> None:
    refs = file.refs
    while number >= len(refs):
        refs = append(refs, i32(0))
    refs[number] = i32(i64(refs[number]) + change)
    file.refs = refs


def count(file: BodyFile) -> bool:
    """Count what is referred to; False if there is no place for some of it."""
    refs = file.refs
    known: i64 = len(file.offsets)
    known -= 1
    number: i64 = 0
    file.live = 0
    valid: i64 = 0
    while number < len(refs):
        if refs[number] > 0:
            if number >= known:
                return False
            file.live += 1
            valid += file.size_of(number)
        number += 1
    while number < known:
        refs = append(refs, i32(0))
        number += 1
    file.refs = refs
    file.home.valid += valid
    return True


def end_of(offsets: "vec[i32]") -> i64:
    """Where the last record of a file ends."""
    count: i64 = len(offsets)
    return i64(offsets[count - 1])


def install(bodies: BodyStore, file: BodyFile) -> None:
    """This file is one of the store: everything in it is closed, as far as is known."""
    home = file.home
    if len(home.files) == 0:
        bodies.homes.append(home)
    home.files.append(file)
    home.size = max(home.size, end_of(file.offsets) - FILE_HEADER)
    bodies.files[int(file.number)] = file
