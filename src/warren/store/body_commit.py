"""The part of a commit that takes bodies to the message store.

Order of writes in a commit: the octets of each file with one call, its sync, the folder if a file
was made; then the batch of the journal that names them. So no journal ever names a body that is not
on the disk, and a crash in between leaves octets that nothing names: the next start cuts them off
(`body_recovery.py`). A batch without bodies costs nothing here, one with bodies one sync more, and
another for each file that became full.
"""

import zlib
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store.body_file import FOLDER, body_path, file_header, record_header
from warren.store.full import if_full

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.body_store import BodyAppend


@final
class BodyEnd:
    """The file that is open; belongs to the journal's lane."""

    def __init__(self) -> None:
        self.number = -1
        self.handle = -1

    def write(self, files: "Files", appends: "list[BodyAppend]") -> None:
        """Write and sync these."""
        made = False
        for some in appends:
            octets = _records(some)
            offset = some.offset
            try:
                if some.fresh:
                    self.close(files)
                    self.handle = files.create(body_path(some.home))
                    self.number = some.home
                    octets.insert(0, file_header(some.home, some.mark))
                    offset = 0
                    made = True
                elif self.number != some.home:
                    self.close(files)
                    self.handle = files.open(body_path(some.home))
                    self.number = some.home
                files.write(self.handle, offset, octets)
            except OSError as failure:
                raise if_full(failure) from failure
            files.sync(self.handle)
            if some.full:
                self.close(files)
        if made:
            files.sync_folder(FOLDER)

    def close(self, files: "Files") -> None:
        if self.handle >= 0:
            handle = self.handle
            self.handle = -1
            self.number = -1
            files.close(handle)


def _records(some: "BodyAppend") -> list[bytes]:
    """Headers and bodies, as they are written; a body in parts is not joined."""
    octets: list[bytes] = []
    parts = some.parts
    at = 0
    number = int(some.first)
    place: i64 = 0
    while place < len(some.sizes):
        size = int(some.sizes[place])
        begin = at
        left = size
        body_sum = 0
        while left > 0:
            body_sum = zlib.crc32(parts[at], body_sum)
            left -= len(parts[at])
            at += 1
        octets.append(
            record_header(
                mark=some.mark, file=some.file, number=number, size=size, body_sum=body_sum
            )
        )
        octets.extend(parts[begin:at])
        number += 1
        place += 1
    return octets
