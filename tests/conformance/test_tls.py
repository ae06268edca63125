"""The same protocol inside TLS: nothing is lost, split or held back by its records."""

import contextlib
import ssl
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.certificate import needs_openssl, self_signed
from tests.support.fixtures import StartBroker
from tests.support.tls import listen

pytestmark = needs_openssl


@pytest.fixture
def tls_broker(start_broker: StartBroker, tmp_path: Path) -> tuple[Broker, ssl.SSLContext]:
    """A broker with a TLS listener, and a context that trusts its certificate."""
    pair = self_signed(tmp_path, "server", "/CN=localhost", "subjectAltName=DNS:localhost")
    broker = listen(
        start_broker,
        pair,
        {"ssl_options.verify": "verify_none", "ssl_options.fail_if_no_peer_cert": "false"},
        authorities=pair.certificate,
    )
    return broker, ssl.create_default_context(cafile=str(pair.certificate))


@pytest.mark.slow
@pytest.mark.rule("WI-1", "WI-2", "NG-3", "AU-1")
def test_a_session_over_tls(tls_broker: tuple[Broker, ssl.SSLContext]) -> None:
    """Sizes around those of frames and TLS records; octet by octet; and a refused login."""
    broker, context = tls_broker
    client = broker.connect(tls=context)
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.confirm_select()
    sizes = [0, 1, 16384 - 8, 16384, 131064, 131065, 1_000_000]
    for size in sizes:
        channel.publish(b"x" * size, routing_key=queue)
    assert set(channel.wait_confirms(len(sizes)).values()) == {"ack"}
    channel.consume(queue, no_ack=True)
    assert [len(channel.recv_delivery().body) for _ in sizes] == sizes
    client.close()
    dribbling = broker.raw(tls=context, dribble=True).open()
    dribbling.channel().queue_declare(exclusive=True)
    dribbling.close()
    refused = broker.raw(tls=context)
    refused.handshake(password="wrong")
    refused.expect("connection.close", reply_code=403)


@pytest.mark.slow
@pytest.mark.rule("NG-1", "NG-2")
def test_plain_text_on_the_tls_port_is_dropped(
    tls_broker: tuple[Broker, ssl.SSLContext],
) -> None:
    broker, context = tls_broker
    broker.port, plain_port = broker.tls_port or 0, broker.port
    confused = broker.raw()
    broker.port = plain_port
    confused.send_raw(b"AMQP\x00\x00\x09\x01")
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := confused.socket.recv(100):
            received += part
    assert b"AMQP" not in received
    broker.connect(tls=context).close()
