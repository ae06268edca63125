"""Steps between loads: the broker ends, in good order or killed, and begins again on its data.

Measured: how long it took to end, how long until it answered a handshake and until the first
message was delivered, both from the launch, and the memory then. The first message is not
acknowledged, so the queue is left as it was.
"""

import time
from typing import Final

from tools.bench.broker import HOST, Broker, StartError
from warren.bench import frame
from warren.bench.link import BenchError, Link
from warren.bench.option import Address, TlsOptions
from warren.bench.procfs import ProcessTree

# How often a broker that refuses is asked again: some answer before their queues do.
RETRY_S: Final = 0.01
FIRST_DELIVERY_TIMEOUT_S: Final = 600.0
# How long the broker may settle before its memory is read.
SETTLE_S: Final = 2.0
DELIVER: Final = (60, 60)


def connect(broker: Broker) -> Link:
    address = Address(
        host=HOST, port=broker.place.port, user="guest", password="guest", vhost="/", tls=False
    )
    return Link(address, TlsOptions(ca_file=None, cert_file=None, key_file=None, insecure=False))


def restart(broker: Broker, *, kill: bool, queue: str) -> tuple[dict[str, object] | None, str]:
    """End the broker, begin again, and take one message; the result, or why there is none."""
    try:
        stop_s = broker.end(kill=kill)
        began_s = broker.begin_again()
        up_s = time.monotonic() - began_s
        wait_for_delivery(broker, queue, began_s)
    except (StartError, BenchError, OSError) as error:
        return None, str(error) or type(error).__name__
    first_s = time.monotonic() - began_s
    tree = ProcessTree((broker.pid,))
    cpu_s = tree.cpu_s()
    time.sleep(SETTLE_S)
    tree.scan()
    return {
        "ok": True,
        "mode": "kill" if kill else "stop",
        "stop_s": round(stop_s, 3),
        "up_s": round(up_s, 3),
        "first_delivery_s": round(first_s, 3),
        "start_cpu_s": round(cpu_s, 3),
        "rss_end_mib": round(tree.memory().rss, 1),
    }, ""


def wait_for_delivery(broker: Broker, queue: str, began_s: float) -> None:
    """Consume one message; it goes back when the connection closes."""
    while True:
        try:
            deliver_one(broker, queue)
            return
        except (BenchError, OSError) as error:
            took_s = time.monotonic() - began_s
            if broker.process.poll() is not None or took_s > FIRST_DELIVERY_TIMEOUT_S:
                raise BenchError(f"no delivery from {queue} in {took_s:.0f} s: {error}") from error
            if "404" in str(error):
                raise BenchError(f"{queue} is gone after the restart") from error
        time.sleep(RETRY_S)


def deliver_one(broker: Broker, queue: str) -> None:
    link = connect(broker)
    try:
        link.call(frame.QOS, b"\0\0\0\0\0\x01\0", frame.QOS_OK)
        name = b"\0\0" + frame.short_string(queue)
        counted = link.call(
            frame.QUEUE_DECLARE, name + b"\x01" + frame.table({}), frame.QUEUE_DECLARE_OK
        )
        if counted[5 + counted[4] :][:4] == b"\0\0\0\0":
            raise BenchError(f"404: nothing is left in {queue}")
        arguments = name + b"\0\0" + frame.table({})
        link.call(frame.CONSUME, arguments, frame.CONSUME_OK)
        link.expect(DELIVER)
    finally:
        link.close()
