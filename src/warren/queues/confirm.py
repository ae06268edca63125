"""Publisher confirms of one channel: numbers given, answers collected, acks coalesced (spec CO-*).

The common case needs no record per message: when every queue takes at once, all that is kept is
the last number given and the last number told. Only answers that come later, or refusals, are
recorded by number.

What queues write into the journal is answered by batch: a `Mark` says from which number on
publishes wait for a batch, and everything below the first mark may be told. So a publisher of
persistent messages costs one entry for each batch, and is told in order.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.protocol.output import Output
from warren.store.journal import Journal, Waiter

ACK_WORD: Final = (60 << 16) | 80
NACK_WORD: Final = (60 << 16) | 120


@final
class Mark:
    """Numbers from this one on, up to the next mark, wait for a batch of the journal."""

    def __init__(self, number: i64, batch: i64) -> None:
        self.number = number
        self.batch = batch


@final
class ConfirmLedger(Waiter):
    def __init__(self, channel: int, output: Output) -> None:
        super().__init__()
        self.marks: list[Mark] = []
        # The channel is gone: nobody is told anything.
        self.closed = False
        self.output = output
        self.published: i64 = 0  # the last number given
        self.told: i64 = 0  # every number up to here was answered or is in `open`
        # Numbers whose answer is outstanding -> how many queues still owe it.
        self.open: dict[int, int] = {}
        self.refused: set[int] = set()
        self.late_acks: list[int] = []
        self.late_nacks: list[int] = []
        self.listed = False
        self.opening = b"\x01" + channel.to_bytes(2, "big")

    def owe(self, number: i64, queues: int) -> None:
        """`queues` queues will answer for this publish later."""
        self.open[int(number)] = queues

    def refuse(self, number: i64) -> None:
        """A queue refused this publish at once: one nack, whatever the other queues do (LE-5)."""
        if int(number) in self.open:
            self.refused.add(int(number))
        else:
            self.late_nacks.append(int(number))

    def answer(self, number: i64, taken: bool) -> None:
        """One queue answers for a publish it owed."""
        key = int(number)
        left = self.open.get(key)
        if left is None:
            return
        if not taken:
            self.refused.add(key)
        if left > 1:
            self.open[key] = left - 1
            return
        del self.open[key]
        if key in self.refused:
            self.refused.discard(key)
            self.late_nacks.append(key)
        else:
            self.late_acks.append(key)

    # -- batches of the journal ------------------------------------------------------------------

    def mark(self, number: i64, journal: Journal) -> None:
        """A queue wrote this publish into the batch that is open now."""
        batch = journal.batch
        if self.batch != batch.number:
            self.batch = batch.number
            batch.waiters.append(self)
            self.marks.append(Mark(number, batch.number))

    def safe(self, batch: i64) -> None:
        """A batch is on the disk: tell what does not wait for a later one."""
        marks = self.marks
        while marks and marks[0].batch <= batch:
            del marks[0]
        if not self.closed:
            self.flush()

    def lost(self, batch: i64) -> None:
        """A batch will never be known to be on the disk: nobody is told that it is."""
        if not self.marks or self.closed:
            return
        number = int(self.marks[0].number)
        self.marks = []
        while number <= self.published:
            self.refuse(number)
            number += 1
        self.flush()

    def ready(self) -> i64:
        """The number up to which no publish waits for a batch."""
        return self.marks[0].number - 1 if self.marks else self.published

    def flush(self) -> None:
        """Send what is ready (CO-4)."""
        published = self.ready()
        if not self.open and not self.late_nacks and not self.late_acks:
            count = published - self.told
            if count > 0:
                self.told = published
                self._send(ACK_WORD, published, count > 1)
            return
        self._flush_mixed()

    def _flush_mixed(self) -> None:
        """Answer when some numbers are open or refused: batch below both, the rest singly."""
        most = int(self.ready())
        # What was refused above it is told with those before it: then each number is told once.
        nacks = sorted({number for number in self.late_nacks if number <= most})
        refused_now = set(nacks)
        ready = {number for number in self.late_acks if number <= most} - refused_now
        number = int(self.told) + 1
        while number <= most:
            if number not in self.open and number not in refused_now:
                ready.add(number)
            number += 1
        self.told = max(int(self.told), most)
        acks = sorted(ready)
        self.late_acks = [number for number in self.late_acks if number > most]
        self.late_nacks = [number for number in self.late_nacks if number > most]
        oldest_open = min(self.open) if self.open else most + 1
        self._send_batch(ACK_WORD, acks, min(oldest_open, nacks[0]) if nacks else oldest_open)
        self._send_batch(NACK_WORD, nacks, min(oldest_open, acks[0]) if acks else oldest_open)

    def _send_batch(self, word: int, numbers: list[int], below: int) -> None:
        count = 0
        for number in numbers:
            if number >= below:
                break
            count += 1
        if count > 0:
            self._send(word, numbers[count - 1], count > 1)
        for number in numbers[count:]:
            self._send(word, number, False)

    def _send(self, word: int, number: i64, multiple: bool) -> None:
        writer: BytesWriter = self.output.open()
        # A server's nack carries the requeue bit, meaninglessly (CO-4).
        bits = 1 if multiple else 0
        if word == NACK_WORD:
            bits |= 2
        writer.write(self.opening)
        write_i64_be(writer, (13 << 32) | word)
        write_i64_be(writer, number)
        writer.append(bits)
        writer.append(0xCE)
