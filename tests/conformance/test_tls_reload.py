"""Certificates replaced while the node runs, and chains of authorities."""

import signal
import socket
import ssl
import time
from pathlib import Path

import pytest

from tests.support.broker import Broker, Settings
from tests.support.certificate import Authority, Pair, needs_openssl
from tests.support.fixtures import StartBroker
from tests.support.tls import listen
from warren.cli.exit import CliError

pytestmark = [
    needs_openssl,
    pytest.mark.slow,
    pytest.mark.differs_from_reference("commands of the node itself"),
]


def shown(broker: Broker, context: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection is shown."""
    with broker.raw(tls=context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        certificate = client.socket.getpeercert()
        assert certificate is not None
        return str(certificate["subject"]).split("'commonName', '")[1].split("'")[0]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def test_a_new_certificate_without_a_restart(
    start_broker: StartBroker, authority: Authority
) -> None:
    """By command, and by SIGHUP; what is open goes on; a bad one changes nothing."""
    files = authority.server("first", days=100)
    broker = listen(start_broker, files)
    context = authority.client_context()
    old = broker.connect(tls=context)
    channel = old.channel()
    queue = channel.queue_declare(exclusive=True).queue
    files.replace(authority.server("second", days=100))
    assert shown(broker, context) == "first"
    assert broker.control("reload_tls")["subject"] == "CN=second"
    assert shown(broker, context) == "second"
    good = files.key.read_bytes()
    files.key.write_bytes(authority.server("third").key.read_bytes())
    with pytest.raises(CliError, match="is not the key of the certificate"):
        broker.control("reload_tls")
    assert shown(broker, context) == "second"
    files.key.write_bytes(good)
    files.replace(authority.server("fourth", days=100))
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while shown(broker, context) != "fourth":
        assert time.monotonic() < deadline, "the certificate was not replaced"
    channel.publish(b"still here", routing_key=queue)
    assert channel.get(queue).body == b"still here"
    old.close()
    certificate = broker.control("status")["certificate"]
    assert isinstance(certificate, dict)
    assert (certificate["subject"], certificate["state"]) == ("CN=fourth", "valid")
    assert certificate["days_left"] in (99, 100)


def test_changed_files_are_noticed(start_broker: StartBroker, authority: Authority) -> None:
    files = authority.server("first")
    broker = listen(start_broker, files, {"tls_reload_interval_s": 1})
    context = authority.client_context()
    assert shown(broker, context) == "first"
    files.replace(authority.server("second"))
    deadline = time.monotonic() + 10
    while shown(broker, context) != "second":
        assert time.monotonic() < deadline, "the change was not noticed"
        time.sleep(0.05)
    assert broker.control("health")["ok"]


def test_a_node_without_tls_says_so(start_broker: StartBroker) -> None:
    with pytest.raises(CliError, match="does not listen with TLS"):
        start_broker().control("reload_tls")


def test_a_certificate_that_cannot_be_used_stops_the_start(
    start_broker: StartBroker, authority: Authority
) -> None:
    other = authority.server("other")
    files = Pair(authority.server().certificate, other.key)
    with pytest.raises(AssertionError, match=r"not started: tls_keyfile .* is not the key"):
        listen(start_broker, files)


def received_in(
    broker: Broker, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[bytes, ssl.SSLSession | None]:
    """Begin the protocol; return what came, and the TLS session if it came to one.

    With TLS 1.2 a client may be dropped before its side of the handshake has ended.
    """
    plain = socket.create_connection((broker.host, broker.tls_port or 0), timeout=10)
    try:
        found = context.wrap_socket(plain, server_hostname="localhost", session=session)
    except (ssl.SSLError, ConnectionError):
        plain.close()
        return b"", None
    with found:
        assert not found.session_reused
        try:
            found.sendall(b"AMQP\x00\x00\x09\x01")
            return found.recv(1), found.session
        except (ssl.SSLError, ConnectionError):
            return b"", found.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_length_of_a_clients_chain(
    start_broker: StartBroker, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """One authority between is allowed here, two are not; nor by resuming a session."""
    root = Authority(tmp_path / "root")
    one = Authority(tmp_path / "one", "one", root)
    two = Authority(tmp_path / "two", "two", one)
    settings: Settings = {
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "true",
        "ssl_options.depth": 1,
    }
    broker = listen(
        start_broker,
        root.server(),
        settings,
        authorities=root.pair.certificate,
    )
    near = root.client_context(one.chained(one.sign("near", "/CN=near")))
    far = root.client_context(two.chained(two.sign("far", "/CN=far")))
    near.maximum_version = far.maximum_version = version
    broker.connect(tls=near).close()
    received, session = received_in(broker, far)
    assert received == b""
    received, _ = received_in(broker, far, session)
    assert received == b""
    broker.connect(tls=near).close()
