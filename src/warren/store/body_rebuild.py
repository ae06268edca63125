"""The message store found again from what lies in its files and in the records of queues (MS-27).

What a start without damage never does: every file is read, and every record in it checked; every
record of a queue that lives counts one reference. It is right about what is there, and slow.

A file is gone through by its records (MS-28). One whose header is whole and whose body is not is
passed over; behind anything else the next header with the mark of the file is looked for. Of a
file that a compaction copied and that is still there twice, the copy with more bodies counts.
"""

import zlib
from typing import TYPE_CHECKING, final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

from warren.store.batch import FormatError
from warren.store.body_file import (
    FILE_HEADER,
    RECORD_HEADER,
    body_numbers,
    body_path,
    decode_record_header,
    read_mark,
)
from warren.store.body_replay import count, install
from warren.store.body_store import BodyFile, BodyStore, Home

if TYPE_CHECKING:
    from collections import Counter

    from warren.core.seam import Files


@final
class BodyRebuild:
    def __init__(self, files: "Files", bodies: BodyStore, references: "Counter[int]") -> None:
        self.disk = files
        self.bodies = bodies
        # How often records name each place.
        self.references = references
        # Of each file on the disk, and of each file that its bodies were first written to: number
        # of the body, where its record begins and ends.
        self.found: dict[int, dict[int, dict[int, tuple[int, int]]]] = {}

    def run(self) -> None:
        for number in body_numbers(self.disk):
            self._knows(number)
            self._scan(number, self._whole(number))
        chosen: dict[int, tuple[int, int]] = {}
        for at, tables in self.found.items():
            for number, records in tables.items():
                self._knows(number)
                referred = sum((number << 32) + place + 1 in self.references for place in records)
                chosen[number] = max(chosen.get(number, (0, -1)), (referred, at))
        for place in self.references:
            self._knows(place >> 32)
        homes: dict[int, Home] = {}
        for number in sorted(chosen):
            referred, at = chosen[number]
            if referred:
                home = homes.setdefault(at, Home(i64(at), i64(0)))
                self._install(number, home, self.found[at][number])

    def _knows(self, number: int) -> None:
        self.bodies.next_number = max(self.bodies.next_number, i64(number + 1))

    def _install(self, number: int, home: Home, records: dict[int, tuple[int, int]]) -> None:
        """Have a table of these; numbers of which there is no record have no octets."""
        file = BodyFile(i64(number), home)
        offsets = vec[i32]()
        refs = vec[i32]()
        end = FILE_HEADER
        for place in range(max(records) + 1):
            record = records.get(place)
            if record is None:
                offsets = append(offsets, i32(end))
                refs = append(refs, i32(-1))
                continue
            begin, end = record
            offsets = append(offsets, i32(begin))
            refs = append(refs, i32(self.references[(number << 32) + place + 1]))
        file.offsets = append(offsets, i32(end))
        file.refs = refs
        count(file)
        install(self.bodies, file)
        self.bodies.touch(file)

    # -- looking through a file ------------------------------------------------------------------

    def _scan(self, number: int, data: bytes) -> None:
        tables: dict[int, dict[int, tuple[int, int]]] = {}
        self.found[number] = tables
        try:
            mark = read_mark(data[:FILE_HEADER], number).to_bytes(4, "little")
        except FormatError:
            # The first record has the mark as well.
            mark = data[FILE_HEADER : FILE_HEADER + 4]
        last = -1, -1
        at = FILE_HEADER
        while at < len(data):
            try:
                file, place, size, body_sum = _header(data, at, mark)
            except FormatError:
                at = data.find(mark, at + 1) if mark else -1
                if at < 0:
                    break
                continue
            begin = at + RECORD_HEADER
            end = begin + size
            if zlib.crc32(memoryview(data)[begin:end]) == body_sum and (file, place) > last:
                tables.setdefault(file, {})[place] = at, end
                last = file, place
            at = end

    def _whole(self, number: int) -> bytes:
        handle = self.disk.open(body_path(number))
        try:
            return self.disk.read(handle, 0, self.disk.size(handle))
        finally:
            self.disk.close(handle)


def _header(data: bytes, at: int, mark: bytes) -> tuple[int, int, int, int]:
    found = decode_record_header(data[at : at + RECORD_HEADER])
    if data[at : at + 4] != mark or at + RECORD_HEADER + found[2] > len(data):
        raise FormatError("no record is where one should be")
    return found
