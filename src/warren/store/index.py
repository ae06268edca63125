"""The index of one queue: which sequence ids hold a stored message, and where its record is.

Sequence ids are cut into segments of 16384 (IX-1). Of a segment the index knows how many messages
entered and are not settled, which ones are settled (a bitmap that grows with the first that is
settled), and where the records are:

- below `disk_seq` in the segment's file, in *chunks*: the table of them has four numbers for each,
  so a message costs no memory here;
- from `disk_seq` on in the journal: twelve octets for each message, its lsn and its size.

Messages that are not stored (transient, or handed to a consumer that does not acknowledge) leave
gaps, which count as settled. Messages enter in the order of their ids, so lsns rise with them.

Settling is collected in runs: neighbours that are settled one after the other are one record. The
run is written before anything else of this queue is, and at the latest when a batch is sealed.

Bodies of 4096 octets and more are in the message store, and the index does not know where: their
*places* stand in the records. One bit for each id of a segment that has such says which, so that
`stored_live` counts them. Whoever settles one releases its place. When many are settled at once
by somebody who does not have the places (`settle_from`), they leave the queue at once but stay
where they are, *owed*: neither live nor marked as settled, until `owed.py` has read their records,
and released and settled them batch by batch. The ranges of such ids are in `owed`.

A queue with a history *keeps* what is settled from the id `kept_from` (its floor) to before
`kept_to`: it is no message of the queue any more, but its record stays readable, and refers to its
body, until the floor has passed it (`keeping.py`). Without a history both are equal.

Invariants: the ids of a segment below its `end` that are not marked as settled are live or owed,
and `live` of the segment counts them; a segment without such ids and without kept ones, and behind
which the queue has passed, is in `dropped` until the next checkpoint forgets its file (IX-7: never
before). What is owed is not kept.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, u8

from warren.store.index_segment import (
    SEGMENT_ENTRIES,
    SEGMENT_MASK,
    SEGMENT_SHIFT,
    Chunk,
    Segment,
    find_chunk,
)
from warren.store.journal import Journal
from warren.store.record import LEAKED, OWED

__all__ = [
    "FOREVER",
    "SEGMENT_ENTRIES",
    "SEGMENT_MASK",
    "SEGMENT_SHIFT",
    "Chunk",
    "QueueIndex",
    "Segment",
]

# Behind every id.
FOREVER: Final = 1 << 62


@final
class QueueIndex:
    def __init__(self, ident: i64, journal: Journal) -> None:
        self.ident = ident
        self.journal = journal
        self.segments: dict[int, Segment] = {}
        self.last: Segment | None = None
        # The segment that was settled in last.
        self.near: Segment | None = None
        # No id from here on was ever given by this queue, as far as is stored.
        self.next_seq: i64 = 0
        self.disk_seq: i64 = 0
        self.live: i64 = 0
        self.live_bytes: i64 = 0
        # How many have their body in the message store, owed and kept ones included.
        self.stored_live: i64 = 0
        # What is settled from one id to before the other one stays readable.
        self.kept_from: i64 = 0
        self.kept_to: i64 = 0
        # Up to where the floor is to rise; in the line of queues whose floor is to rise.
        self.floor_wanted: i64 = 0
        self.passing = False
        # First id and the one behind the last of each range that owes releases, in order.
        self.owed: vec[i64] = vec[i64]()
        # Places of bodies that could not be read, until it is settled that they are lost.
        self.unread: dict[int, int] | None = None
        # In the journal's line of queues that owe.
        self.owing = False
        # Messages that were written down since the start.
        self.written: i64 = 0
        # The number of the last journal file, and of the last batch, with a record of this queue.
        self.file: i64 = -1
        self.batch: i64 = 0
        # In the journal's list of queues with a run.
        self.listed = False
        self.run_first: i64 = 0
        self.run_count: i64 = 0
        self.run_bytes: i64 = 0
        self.dropped: list[Segment] = []
        # The queue is deleted; nothing of it is needed any more.
        self.deleted = False
        self.gone = False
        # Some message that entered has an expiry: the head has to be looked at after a start.
        self.expires = False

    # -- entering --------------------------------------------------------------------------------

    def enter(self, seq: i64, lsn: i64, size: i64, body_size: i64) -> None:
        """A record of this id is in the journal."""
        segment = self.last
        number = seq >> SEGMENT_SHIFT
        if segment is None or segment.number != number:
            segment = self._open(number)
        segment.put(seq, lsn, size)
        segment.enter(seq)
        if lsn == self.journal.stored_lsn:
            segment.mark_stored(seq)
            self.stored_live += 1
        if self.kept_from < self.kept_to:
            segment.entered += 1
            segment.octets += size + body_size if lsn == self.journal.stored_lsn else size
        self.live += 1
        self.live_bytes += body_size
        self.next_seq = seq + 1
        self.join_batch()

    def place(self, seq: i64, lsn: i64, size: i64) -> None:
        """Where the record of an id is, of which everything else is known (at a start)."""
        segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
        if segment is not None and seq < segment.end:
            segment.put(seq, lsn, size)

    def replay_enter(self, seq: i64, lsn: i64, size: i64, body_size: i64) -> None:
        """The journal has a record that no state knows of (at a start)."""
        if seq >= self.next_seq:
            self.enter(seq, lsn, size, body_size)

    def join_batch(self) -> None:
        """The open batch has a record of this queue."""
        batch = self.journal.batch
        if self.batch != batch.number:
            self.batch = batch.number
            batch.queues.append(self)

    def _open(self, number: i64) -> Segment:
        before = self.last
        if before is not None and before.live == 0 and not self.keeps(before):
            self.leave(before)
        segment = self.segments.get(int(number))
        if segment is None:
            segment = Segment(number)
            segment.at_us = self.journal.at_us
            self.segments[int(number)] = segment
        self.last = segment
        return segment

    def leave(self, segment: Segment) -> None:
        """Nothing in a segment counts or ever will: its file goes with the next checkpoint."""
        if self.segments.pop(int(segment.number), None) is None:
            return
        if segment.size > 0:
            self.dropped.append(segment)
        if self.near is segment:
            self.near = None

    # -- settling --------------------------------------------------------------------------------

    def finish(self, seq: i64, body_size: i64, place: i64) -> None:
        """A message that may have entered is settled, and its body, if it has one, released."""
        if self.settle(seq, body_size) and place != 0 and not self.is_kept(seq):
            self.journal.bodies.release(place)

    def settle(self, seq: i64, body_size: i64) -> bool:
        """A message that entered is settled: acknowledged, dropped, buried, purged.

        False if it was settled before, or never entered.
        """
        if len(self.owed) > 0 and self.is_owed(seq):
            return False
        if not self._settled(seq):
            return False
        self.live_bytes -= body_size
        if self.run_count > 0 and seq == self.run_first + self.run_count:
            self.run_count += 1
            self.run_bytes += body_size
            return True
        self.write_run()
        self.run_first = seq
        self.run_count = 1
        self.run_bytes = body_size
        if not self.listed:
            self.listed = True
            self.journal.running.append(self)
        return True

    def _settled(self, seq: i64) -> bool:
        """Note that an id is settled; False if it is already, or never entered."""
        number = seq >> SEGMENT_SHIFT
        segment = self.near
        if segment is None or segment.number != number:
            segment = self.segments.get(int(number))
            if segment is None:
                return False
            self.near = segment
        if seq >= segment.end or segment.is_settled(seq):
            return False
        segment.mark(seq)
        segment.live -= 1
        if segment.is_stored(seq) and not self.is_kept(seq):
            self.stored_live -= 1
        if len(self.owed) == 0 or not self.is_owed(seq):
            self.live -= 1
        if segment.live == 0 and segment is not self.last and not self.keeps(segment):
            self.leave(segment)
        return True

    def write_run(self) -> None:
        """Write what was settled since the last time."""
        if self.run_count > 0:
            self.journal.settle(self.ident, self.run_first, self.run_count, self.run_bytes)
            self.run_count = 0
            self.join_batch()

    def settle_from(self, seq: i64, body_bytes: i64) -> None:
        """All live ids from this one on are settled, so many octets of bodies: a purge.

        Their places in the message store are released in time; the caller releases none of them.
        """
        before = self.live
        self.write_run()
        flags: i64 = 0
        if self.stored_live > 0 and self._has_stored(seq):
            self.owe(seq, self.next_seq)
            flags = OWED
        else:
            self.replay_settled(seq, self.next_seq - seq)
        if self.live == before:
            return
        self.live_bytes -= body_bytes
        self.journal.settle(self.ident, seq, self.next_seq - seq, body_bytes, flags)
        self.join_batch()

    def first_live(self) -> i64:
        """The first live id; the caller knows that there is one."""
        lowest: Segment | None = None
        for segment in self.segments.values():
            if segment.live > 0 and (lowest is None or segment.number < lowest.number):
                lowest = segment
        assert lowest is not None
        seq = lowest.number << SEGMENT_SHIFT
        while lowest.is_settled(seq):
            seq += 1
        return seq

    def _settle_whole(self, segment: Segment) -> None:
        """Everything in a segment is settled."""
        self.live -= segment.live
        segment.live = 0
        if segment is not self.last and not self.keeps(segment):
            self.leave(segment)
            return
        count = segment.end - (segment.number << SEGMENT_SHIFT)
        settled = vec[u8]()
        while count >= 8:
            settled = append(settled, u8(255))
            count -= 8
        segment.settled = append(settled, u8((1 << count) - 1))

    def _has_stored(self, seq: i64) -> bool:
        """Whether a live id from this one on has a body that goes when it is settled."""
        for segment in self.segments.values():
            if len(segment.stored) > 0 and segment.live > 0:
                at = max(seq, segment.number << SEGMENT_SHIFT)
                while at < segment.end:
                    if (
                        segment.is_stored(at)
                        and not segment.is_settled(at)
                        and not self.is_kept(at)
                    ):
                        return True
                    at += 1
        return False

    def first_unsettled(self, seq: i64, end: i64) -> i64:
        """The first of these ids that is not settled, or the end."""
        while seq < end:
            segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
            following = ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT
            if segment is not None and segment.live > 0:
                stop = min(end, segment.end)
                while seq < stop:
                    if not segment.is_settled(seq):
                        return seq
                    seq += 1
            seq = following
        return end

    # -- what is kept ----------------------------------------------------------------------------

    def is_kept(self, seq: i64) -> bool:
        """Whether this id stays readable when it is settled."""
        return seq >= self.kept_from and seq < self.kept_to

    def keeps(self, segment: Segment) -> bool:
        """Whether settled ids of a segment are kept."""
        return (
            self.kept_from < self.kept_to
            and segment.end > self.kept_from
            and segment.number << SEGMENT_SHIFT < self.kept_to
        )

    def is_readable(self, seq: i64) -> bool:
        """Whether this id is live, or was and is kept: whether its record has to be there."""
        segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
        if segment is None or seq >= segment.end:
            return False
        if segment.is_settled(seq):
            return seq >= self.kept_from and seq < self.kept_to
        return len(self.owed) == 0 or not self.is_owed(seq)

    def has_body(self, seq: i64) -> bool:
        """Whether the message store has a body for this id, if its record says so."""
        segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
        return segment is not None and segment.is_stored(seq)

    # -- what is owed ----------------------------------------------------------------------------

    def is_owed(self, seq: i64) -> bool:
        at: i64 = 0
        while at < len(self.owed):
            if seq < self.owed[at]:
                return False
            if seq < self.owed[at + 1]:
                return True
            at += 2
        return False

    def behind_owed(self, seq: i64) -> i64:
        """This id, or the first one behind the range of owed ones that it is in."""
        at: i64 = 0
        while at < len(self.owed):
            if seq >= self.owed[at] and seq < self.owed[at + 1]:
                seq = self.owed[at + 1]
            at += 2
        return seq

    def owe(self, begin: i64, end: i64) -> bool:
        """The live ones of these leave the queue, but their records stay; True if that is news.

        Those that are to be kept are settled at once.
        """
        first = max(begin, self.kept_from)
        stop = min(end, self.kept_to)
        if first >= stop:
            return self._owe(begin, end)
        news = self.replay_settled(first, stop - first)
        if begin < first and self._owe(begin, first):
            news = True
        if stop < end and self._owe(stop, end):
            news = True
        return news

    def _owe(self, begin: i64, end: i64) -> bool:
        before = self.live
        for segment in self.segments.values():
            lowest = segment.number << SEGMENT_SHIFT
            seq = max(begin, lowest)
            stop = min(end, segment.end)
            if seq == lowest and stop == segment.end and len(self.owed) == 0:
                self.live -= segment.live
                continue
            while seq < stop and segment.live > 0:
                if not segment.is_settled(seq) and not self.is_owed(seq):
                    self.live -= 1
                seq += 1
        owed = vec[i64]()
        behind = vec[i64]()
        at: i64 = 0
        while at < len(self.owed):
            first, last = self.owed[at], self.owed[at + 1]
            at += 2
            if last < begin:
                owed = append(owed, first)
                owed = append(owed, last)
            elif first > end:
                behind = append(behind, first)
                behind = append(behind, last)
            else:
                begin = min(begin, first)
                end = max(end, last)
        owed = append(owed, begin)
        owed = append(owed, end)
        for number in behind:
            owed = append(owed, number)
        self.owed = owed
        self.journal.owe(self)
        return self.live < before

    def settle_owed(self, end: i64, released: i64) -> None:
        """Of the first range so many bodies are released up to an id: that is settled now."""
        begin = self.owed[0]
        end = min(end, self.owed[1])
        if end > begin:
            self.write_run()
            flags: i64 = 0
            before = self.stored_live
            if self.replay_settled(begin, end - begin):
                if before - self.stored_live != released:
                    self.journal.bodies.leaked = True
                    flags = LEAKED
                self.journal.settle(self.ident, begin, end - begin, 0, flags)
                self.join_batch()
        self.trim_owed(end)

    def forget_paid(self) -> None:
        """Of what is owed only what is not settled counts (at a start)."""
        owed = vec[i64]()
        at: i64 = 0
        while at < len(self.owed):
            end = self.owed[at + 1]
            first = self.first_unsettled(self.owed[at], end)
            if first < end:
                owed = append(owed, first)
                owed = append(owed, end)
            at += 2
        self.owed = owed

    def trim_owed(self, begin: i64) -> None:
        """Nothing below this id is owed."""
        owed = vec[i64]()
        at: i64 = 0
        while at < len(self.owed):
            if self.owed[at + 1] > begin:
                owed = append(owed, max(begin, self.owed[at]))
                owed = append(owed, self.owed[at + 1])
            at += 2
        self.owed = owed

    def replay_settled(self, seq: i64, count: i64) -> bool:
        """These ids are settled, as far as they entered; True if that was news.

        A whole segment costs no more than one id: a purge takes ten million at once.
        """
        news = False
        end = seq + count
        while seq < end:
            segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
            following = ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT
            if (
                segment is not None
                and seq & SEGMENT_MASK == 0
                and segment.end <= end
                and len(segment.stored) == 0
                and len(self.owed) == 0
            ):
                news = news or segment.live > 0
                self._settle_whole(segment)
            elif segment is not None:
                stop = min(end, segment.end)
                while seq < stop and segment.live > 0:
                    if self._settled(seq):
                        news = True
                    seq += 1
            seq = following
        return news

    def lose(self, first: i64, last: i64) -> i64:
        """The live ones among these ids cannot be read: they are settled; return how many."""
        self.write_run()
        before = self.live
        stored = self.stored_live
        stored -= self._release_unread(first, last)
        self.replay_settled(first, last + 1 - first)
        flags: i64 = 0
        if self.stored_live < stored:
            self.journal.bodies.leaked = True
            flags = LEAKED
        if self.live < before:
            if self.live == 0:
                self.live_bytes = 0
            self.journal.settle(self.ident, first, last + 1 - first, 0, flags)
            self.join_batch()
        return before - self.live

    def _release_unread(self, first: i64, last: i64) -> i64:
        """Release the bodies that could not be read, of records that could; return how many."""
        unread = self.unread
        released: i64 = 0
        if unread is None:
            return released
        while first <= last:
            place = i64(unread.pop(int(first), 0))
            if place != 0 and self.is_live(first) and not self.is_kept(first):
                self.journal.bodies.release(place)
                released += 1
            first += 1
        return released

    def lose_places(self, begin: i64, end: i64) -> i64:
        """What the journal has between two lsns cannot be read."""
        lost: i64 = 0
        for segment in list(self.segments.values()):
            entries: i64 = len(segment.lsns)
            first = segment.first
            place: i64 = 0
            while place < entries:
                lsn = segment.lsns[place]
                if lsn < end and lsn > 0 and lsn + i64(segment.sizes[place]) > begin:
                    lost += self.lose(first + place, first + place)
                    # Nor is it kept.
                    lsns = segment.lsns
                    lsns[place] = 0
                    segment.lsns = lsns
                place += 1
        return lost

    def is_settled(self, seq: i64) -> bool:
        """Whether nothing of an id counts any more, or ever did."""
        segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
        return segment is None or seq >= segment.end or segment.is_settled(seq)

    def is_live(self, seq: i64) -> bool:
        segment = self.segments.get(int(seq >> SEGMENT_SHIFT))
        if segment is None or seq >= segment.end or segment.is_settled(seq):
            return False
        return len(self.owed) == 0 or not self.is_owed(seq)

    # -- places ----------------------------------------------------------------------------------

    def chunk_at(self, seq: i64, history: bool = False) -> Chunk | None:
        """The chunk that has the first record at or after an id, below `disk_seq`.

        Segments without a live message are passed over, unless it is about the history.
        """
        number = seq >> SEGMENT_SHIFT
        last = (self.disk_seq - 1) >> SEGMENT_SHIFT
        while number <= last:
            segment = self.segments.get(int(number))
            if segment is not None and (segment.live > 0 or history):
                found = find_chunk(segment, seq)
                if found is not None:
                    return found
            number += 1
        return None
