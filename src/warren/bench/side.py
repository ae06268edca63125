"""Builds the two sides of a run: connects, consumes, selects confirms; judges losses at the end."""

import struct
import time

from warren.bench import frame
from warren.bench.confirm import Ledger
from warren.bench.consumer import Consumer, Consumers
from warren.bench.histogram import Histogram
from warren.bench.link import Link
from warren.bench.message import block_messages, build_blocks, filler, queue_name
from warren.bench.option import Options
from warren.bench.producer import Producer, Producers
from warren.bench.result import ConsumersResult, ProducersResult
from warren.bench.stream import Stream
from warren.bench.topology import (
    build_track,
    consumed_queues,
    count_messages,
    is_loss_known,
    share,
)
from warren.bench.verify import Cursor, Track, Verdict

# A message of a queue that the consumer does not consume is below the first one it could get.
FOREIGN_START = 1 << 62


class ProducingSide:
    """Producers with their connections."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.links = [Link(options.address, options.tls) for _ in range(options.producers)]
        interval_ns = 1e9 * options.producers / options.rate if options.rate else 0.0
        lateness = Histogram()
        producers: list[Producer] = []
        for index, link in enumerate(self.links):
            ledger = Ledger()
            if options.confirm:
                link.call(frame.CONFIRM_SELECT, b"\0", frame.CONFIRM_SELECT_OK)
            blocks = build_blocks(options, index, link.frame_max)
            extra = 1 if index < options.messages % options.producers else 0
            producer = Producer(
                link.sock,
                blocks=blocks,
                block_messages=block_messages(options, blocks),
                stream=publisher_stream(ledger),
                ledger=ledger,
                limit=options.messages // options.producers + extra,
                window=options.confirm,
                interval_ns=interval_ns,
                stamped=options.latency,
                lateness=lateness,
            )
            producer.finished = options.messages > 0 and producer.limit == 0
            rest = link.release()
            if rest:
                producer.stream.feed(rest, time.monotonic_ns())
                producer.take_events()
            producers.append(producer)
        self.loop = Producers(
            producers,
            seconds=0.0 if options.messages else options.seconds,
            rated=options.rate > 0,
            coalesce_us=options.coalesce_us,
            timeout_s=options.drain_timeout,
        )

    def result(self) -> ProducersResult:
        if self.options.mode == "publish-only" and not self.options.confirm:
            self.wait_until_taken()
        return self.loop.result()

    def wait_until_taken(self) -> None:
        """A queue has taken everything once a call behind the last message is answered."""
        for index, link in enumerate(self.links):
            link.sock.settimeout(max(60.0, self.options.drain_timeout))
            link.received = b""
            count_messages(link, self.options, index % self.options.queues)
        self.loop.published_ns = self.loop.confirmed_ns = time.monotonic_ns()

    def close(self) -> None:
        for link in self.links:
            link.close(politely=not self.loop.timed_out)


def publisher_stream(ledger: Ledger) -> Stream:
    return Stream(
        channel=1,
        cursors=[],
        sizes=[0],
        verdict=Verdict(),
        latency=Histogram(),
        ledger=ledger,
        ack_every=0,
        stamped=False,
        filler=b"",
    )


class ConsumingSide:
    """Consumers with their connections, and the tracks of what they should get."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.expected_at_begin = 0
        self.published: list[int] = []
        # The producers gave up in the middle of a block: some of its messages may have gone.
        self.cut_short = False
        self.tracks: list[list[Track]] = [
            [build_track(options, queue) for _ in range(options.producers)]
            for queue in consumed_queues(options)
        ]
        self.links = [
            Link(
                options.address,
                options.tls,
                channel=options.consumer_channel + (index if options.spread_channels else 0),
                frame_max=options.frame_max,
            )
            for index in range(options.consumers)
        ]
        if options.mode == "drain":
            self.expected_at_begin = sum(
                count_messages(self.links[0], options, queue) for queue in consumed_queues(options)
            )
        verdict, latency = Verdict(), Histogram()
        self.loop = Consumers(
            [self.build_consumer(index, verdict, latency) for index in range(options.consumers)],
            tracks=self.tracks,
            verdict=verdict,
            latency=latency,
            coalesce_us=options.coalesce_us,
            timeout_s=options.drain_timeout,
            warmup_s=options.warmup if options.latency else 0.0,
            rate=options.consume_rate,
        )

    def build_consumer(self, index: int, verdict: Verdict, latency: Histogram) -> Consumer:
        options, link = self.options, self.links[index]
        stream = Stream(
            channel=link.channel,
            cursors=self.build_cursors(index),
            queues=options.queues if options.every_queue else 1,
            sizes=list(options.sizes) if len(set(options.sizes)) > 1 else [options.sizes[0]],
            verdict=verdict,
            latency=latency,
            ledger=Ledger(),
            ack_every=options.ack_every,
            stamped=options.latency,
            filler=filler(max(options.sizes)) if options.verify_body else b"",
        )
        if options.prefetch:
            link.call(frame.QOS, struct.pack(">IHB", 0, options.prefetch, 0), frame.QOS_OK)
        if options.mode != "drain":
            self.consume(index)
            rest = link.release()
            if rest:
                stream.feed(rest, time.monotonic_ns())
        return Consumer(link.sock, stream)

    def queues_of(self, index: int) -> range:
        """The queues that a consumer takes."""
        options = self.options
        if options.every_queue:
            return range(index, options.queues, options.consumers)
        return range(index % options.queues, index % options.queues + 1)

    def build_cursors(self, index: int) -> list[Cursor]:
        if not self.options.every_queue:
            return [Cursor(track) for track in self.tracks[index % self.options.queues]]
        own = self.queues_of(index)
        foreign = Cursor(Track(FOREIGN_START, 1))
        return [
            Cursor(track) if queue in own else foreign
            for queue, tracks in enumerate(self.tracks)
            for track in tracks
        ]

    def consume(self, index: int) -> None:
        options, link = self.options, self.links[index]
        flags = b"\0" if options.ack_every else b"\x02"
        for queue in self.queues_of(index):
            name = frame.short_string(queue_name(options, queue))
            arguments = b"\0\0" + name + b"\0" + flags + frame.table({})
            if options.mode == "drain":  # the answer is passed over by the loop
                link.send(link.channel, frame.CONSUME, arguments)
            else:
                link.call(frame.CONSUME, arguments, frame.CONSUME_OK)
        if options.mode == "drain":
            link.release()

    def begin(self, begin_ns: int) -> None:
        self.loop.begin(begin_ns)
        if self.options.mode == "drain":
            for index in range(self.options.consumers):
                self.consume(index)
            self.loop.expect(self.expected_at_begin)

    def expect(self, published: list[int], *, cut_short: bool) -> None:
        """The producers are done with so many messages each."""
        self.published = published
        self.cut_short = cut_short
        if not is_loss_known(self.options):
            self.loop.expect(-1)
            return
        self.loop.expect(
            sum(
                share(self.options, queue, producer, count)
                for queue in consumed_queues(self.options)
                for producer, count in enumerate(published)
            )
        )

    def result(self) -> ConsumersResult:
        self.loop.finish()
        return self.loop.result(*self.judge())

    def judge(self) -> tuple[int, int]:
        """Lost, and foreign: beyond what was published."""
        options = self.options
        if options.mode == "drain":
            holes = sum(
                track.reach() - track.unique() for tracks in self.tracks for track in tracks
            )
            return holes + max(0, self.expected_at_begin - self.loop.consumed), 0
        if not is_loss_known(options):
            return 0, 0
        lost = foreign = 0
        for queue, tracks in enumerate(self.tracks):
            for producer, track in enumerate(tracks):
                missing = share(options, queue, producer, self.published[producer])
                missing -= track.unique()
                lost += max(0, missing)
                foreign += max(0, -missing)
        return lost, 0 if self.cut_short else foreign

    def close(self) -> None:
        for link in self.links:
            link.close(politely=not self.loop.timed_out)
