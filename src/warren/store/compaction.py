"""Compaction of the message store: what lives in two files moves into a new one.

When more than half of all octets are garbage and there are three files at least (MS-12), the first
two neighbours whose live bodies fit into one file (MS-13) are

1. *planned* on the loop: which records are copied, and where they will be; a body without
   references is given up, and nobody may refer to it any more;
2. *copied* on the lane of checkpoints into a file with a number of its own, which is synced;
3. *noted* on the loop: the tables point into the new file, and one batch for the state log says so;
4. *removed*, when that batch is synced.

Nothing is rewritten in place, so there is no moment at which a body is not whole in one file, and a
reader that has an old file open goes on. A crash before the batch of step 3 is whole leaves a file
that nothing names, a crash after it two that nothing names any more: the next start removes them.
What is released between 1 and 3 was copied for nothing, and is garbage of the new file.

A record whose header is not what was written is copied as it is: reading it says so. A failure ends
the compaction of these two files until the next start, one for lack of room until another file has
gone; nothing depends on it.
"""

import zlib
from typing import TYPE_CHECKING, Final, final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

from warren.store.batch import FormatError
from warren.store.body_file import (
    FILE_HEADER,
    FOLDER,
    RECORD_HEADER,
    body_path,
    decode_record_header,
    file_header,
)
from warren.store.body_store import FILES_MIN, GIVEN_UP, BodyFile, BodyStore, Home
from warren.store.full import if_full

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files

# Records that stand one after the other are read together up to this size.
PIECE_SIZE: Final = 1024 * 1024


def find_pair(bodies: BodyStore) -> tuple[Home, Home] | None:
    """The files that are to be compacted now, if any are."""
    garbage = bodies.size - bodies.valid
    if len(bodies.homes) < FILES_MIN or not int(garbage) > bodies.garbage_fraction * int(
        bodies.size
    ):
        return None
    left: Home | None = None
    for home in bodies.homes:
        if home.open or home.unsafe or home.busy or home.bad or home.valid == 0:
            left = None
            continue
        if left is not None and left.valid + home.valid <= bodies.limit():
            return left, home
        left = home
    return None


@final
class Move:
    """The records of a table that are copied, and where its bodies will be."""

    def __init__(self, file: BodyFile, at: int) -> None:
        self.file = file
        self.source = int(file.home.number)
        # Where each record begins, and the sizes of the records that are copied.
        self.pieces: list[tuple[int, list[int]]] = []
        offsets = vec[i32]()
        refs = file.refs
        behind = -1
        room = 0
        for number in range(len(refs)):
            offsets = append(offsets, i32(at))
            if refs[number] <= 0:
                refs[number] = i32(GIVEN_UP)
                continue
            begin, size = int(file.offsets[number]), int(file.size_of(number))
            if begin != behind or room < size:
                self.pieces.append((begin, []))
                room = PIECE_SIZE
            self.pieces[-1][1].append(size)
            behind = begin + size
            room -= size
            at += size
        file.refs = refs
        self.offsets: vec[i32] = append(offsets, i32(at))
        self.end = at


@final
class CompactJob:
    """Steps 1 to 3."""

    def __init__(
        self,
        bodies: BodyStore,
        pair: tuple[Home, Home],
        ended: "Callable[[CompactJob, Exception | None], None]",
    ) -> None:
        self.bodies = bodies
        self.pair = pair
        self.ended = ended
        self.target = Home(bodies.next_number, bodies.mark)
        bodies.next_number += 1
        self.moves: list[Move] = []
        at = FILE_HEADER
        for home in pair:
            home.busy = True
            for file in home.files:
                self.moves.append(Move(file, at))
                at = self.moves[-1].end
        self.size = at
        # Records whose header was not what was written.
        self.bad = 0

    def run(self, files: "Files") -> None:
        mark = int(self.target.mark)
        parts = [file_header(int(self.target.number), mark)]
        handle = -1
        source = -1
        try:
            for move in self.moves:
                if move.source != source and handle >= 0:
                    files.close(handle)
                    handle = -1
                if handle < 0:
                    handle = files.open(body_path(move.source))
                    source = move.source
                for begin, sizes in move.pieces:
                    data = files.read(handle, begin, sum(sizes))
                    self._take(data.ljust(sum(sizes), b"\0"), sizes, mark, parts)
        finally:
            if handle >= 0:
                files.close(handle)
        handle = files.create(body_path(int(self.target.number)))
        try:
            files.write(handle, 0, parts)
            files.sync(handle)
        except OSError as failure:
            raise if_full(failure) from failure
        finally:
            files.close(handle)
        files.sync_folder(FOLDER)

    def _take(self, data: bytes, sizes: list[int], mark: int, parts: list[bytes]) -> None:
        """Records as they will stand in the new file: under its mark."""
        at = 0
        for size in sizes:
            header = data[at : at + RECORD_HEADER]
            try:
                decode_record_header(header)
                header = mark.to_bytes(4, "little") + header[4:20]
                header += zlib.crc32(header).to_bytes(4, "little")
            except FormatError:
                self.bad += 1
            parts.append(header)
            parts.append(data[at + RECORD_HEADER : at + size])
            at += size

    def done(self, error: Exception | None) -> None:
        self.ended(self, error)

    def note(self) -> list[str]:
        """The bodies are on the disk: point the tables at them; return the files that were."""
        bodies = self.bodies
        left, right = self.pair
        target = self.target
        target.size = i64(self.size - FILE_HEADER)
        for move in self.moves:
            file = move.file
            file.offsets = move.offsets
            file.home = target
            target.files.append(file)
            bodies.touch(file)
        target.valid = left.valid + right.valid
        bodies.homes[bodies.homes.index(left)] = target
        bodies.homes.remove(right)
        bodies.size += target.size - left.size - right.size
        return [body_path(int(left.number)), body_path(int(right.number))]

    def give_up(self, *, full: bool) -> str:
        """It failed: leave these two as they are; return the file that was begun."""
        for home in self.pair:
            home.busy = False
            home.bad = True
            if full:
                self.bodies.crowded.append(home)
        return body_path(int(self.target.number))
