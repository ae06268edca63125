"""A store on a simulated disk, whose jobs are done at once, for the tests of this folder."""

from random import Random

from tests.support.sim_files import SimFiles
from tests.support.store_model import Store
from warren.store.body_file import FILE_HEADER
from warren.store.index import QueueIndex
from warren.store.reading import Reading
from warren.store.record import PERSISTENT, Publish

PROPS = b"\x10\x00\x02"


class Rig:
    """A store on a simulated disk, whose jobs are done at once."""

    def __init__(self, files: SimFiles | None = None, known: tuple[int, ...] = (1, 2, 3)) -> None:
        self.files = SimFiles(Random(1)) if files is None else files
        self.calls: list[tuple[str, str]] = []
        self.files.gate = lambda call, path: self.calls.append((call, path))
        self.store = Store(self.files, known)
        self.persistence = self.store.persistence
        self.bodies = self.persistence.bodies
        self.bodies.file_size_limit = 100_000

    def commit(self) -> None:
        self.persistence.end_turn()
        self.store.direct.run()

    def queue(self, number: int) -> QueueIndex:
        return self.persistence.open(number)

    def publish(self, number: int, body: bytes, place: int = 0) -> int:
        index = self.queue(number)
        journal = self.persistence.journal
        seq = int(index.next_seq)
        before = journal.position()
        if not place and self.bodies.takes(len(body), len(PROPS)):
            place = int(self.bodies.put(body, None, len(body)))
        if place:
            lsn = journal.publish_stored(
                number, seq, PERSISTENT, 0, 0, b"", PROPS, b"", place, len(body), 0
            )
        else:
            lsn = journal.publish(
                number, seq, PERSISTENT, 0, 0, b"", PROPS, b"", body, None, len(body), 0
            )
        index.enter(seq, lsn, journal.position() - before, len(body))
        return place

    def settle(self, number: int, seq: int, place: int, size: int = 0) -> None:
        self.queue(number).settle(seq, size)
        if place:
            self.bodies.release(place)

    def read(self, number: int, seq: int = 0, most: int = 1 << 30) -> Reading:
        """One reading, with everything that it asks for."""
        ended: list[Reading] = []
        assert self.persistence.read(
            self.queue(number), seq, lambda reading, error: ended.append(reading), most
        )
        self.store.direct.run()
        return ended[0]

    def records(self, number: int) -> list[Publish]:
        return self.store.read_all(self.queue(number), 1 << 30)

    def sizes(self) -> dict[int, int]:
        """The octets of records in the files that are on the disk."""
        return {
            int(path.rpartition("/")[2][:-4]): len(file.seen()) - FILE_HEADER
            for path, file in self.files.paths().items()
            if path.endswith(".rdq")
        }

    def again(self, known: tuple[int, ...] = (1, 2, 3)) -> "Rig":
        """The process dies, another one starts."""
        self.files.gate = None
        return Rig(self.files.after_kill(Random(2)), known)


def checkpoint(rig: Rig) -> None:
    """Have everything in segments."""
    rig.persistence.end.close(rig.files)
    rig.publish(3, b"other")
    rig.commit()
    rig.persistence.checkpoint(1)
    rig.store.direct.run()
    assert not rig.persistence.checkpointing
