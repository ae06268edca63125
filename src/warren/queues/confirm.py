"""Publisher confirms of one channel: numbers given, answers collected, acks coalesced (spec CO-*).

The common case needs no record per message: when every queue takes at once, all that is kept is
the last number given and the last number told. Only answers that come later, or refusals, are
recorded by number.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.protocol.output import Output

ACK_WORD: Final = (60 << 16) | 80
NACK_WORD: Final = (60 << 16) | 120


@final
class ConfirmLedger:
    def __init__(self, channel: int, output: Output) -> None:
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

    def flush(self) -> None:
        """Send what is ready (CO-4)."""
        published = self.published
        if not self.open and not self.late_nacks and not self.late_acks:
            count = published - self.told
            if count > 0:
                self.told = published
                self._send(ACK_WORD, published, count > 1)
            return
        self._flush_mixed()

    def _flush_mixed(self) -> None:
        """Answer when some numbers are open or refused: batch below both, the rest singly."""
        nacks = sorted(self.late_nacks)
        refused_now = set(nacks)
        ready = set(self.late_acks)
        number = int(self.told) + 1
        while number <= self.published:
            if number not in self.open and number not in refused_now:
                ready.add(number)
            number += 1
        self.told = self.published
        acks = sorted(ready)
        self.late_acks = []
        self.late_nacks = []
        oldest_open = min(self.open) if self.open else int(self.published) + 1
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
