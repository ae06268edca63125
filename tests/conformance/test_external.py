"""EXTERNAL over TLS: who a client is according to its certificate."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.certificate import Authority, Pair, needs_openssl
from tests.support.expectation import PeerClosed
from tests.support.fixtures import StartBroker
from tests.support.tls import listen

pytestmark = [needs_openssl, pytest.mark.slow]
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
    "For details see the broker logfile."
)
# The broker under test makes one user at its start; its name is the client's.
VERIFY: Any = {"ssl_options.verify": "verify_peer", "ssl_options.fail_if_no_peer_cert": "false"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.server()


@pytest.fixture(scope="module")
def client(authority: Authority) -> Pair:
    names = "subjectAltName=DNS:one.example,DNS:two.example,email:me@example"
    return authority.sign("client", "/O=Example, Inc./OU=Sales/CN=zoe", names)


def start(
    start_broker: StartBroker, authority: Authority, server: Pair, user: str, **more: str
) -> Broker:
    settings = VERIFY | {"default_user": user, "auth_mechanisms.1": "EXTERNAL"}
    settings |= {"auth_mechanisms.2": "PLAIN", "loopback_users": "none"}
    return listen(start_broker, server, settings | more, authorities=authority.pair.certificate)


def log_in(broker: Broker, context: ssl.SSLContext, **options: Any) -> Any:
    return broker.raw(tls=context).open(mechanism="EXTERNAL", response=b"", **options)


@pytest.mark.rule("AM-3")
@pytest.mark.parametrize(
    ("user", "more"),
    [
        ("CN=zoe,OU=Sales,O=Example\\, Inc.", {}),
        ("zoe", {"ssl_cert_login_from": "common_name"}),
        ("one.example", {"ssl_cert_login_from": "subject_alternative_name"}),
        (
            "me@example",
            {
                "ssl_cert_login_from": "subject_alternative_name",
                "ssl_cert_login_san_type": "email",
                "ssl_cert_login_san_index": "0",
            },
        ),
    ],
)
def test_the_certificate_says_who_it_is(
    start_broker: StartBroker,
    authority: Authority,
    server: Pair,
    client: Pair,
    user: str,
    more: dict[str, str],
) -> None:
    broker = start(start_broker, authority, server, user, **more)
    found = log_in(broker, authority.client_context(client))
    assert found.start.mechanisms == b"EXTERNAL PLAIN"
    channel = found.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"mine", routing_key=queue, user_id=user)
    assert channel.get(queue).properties == {"user_id": user}
    found.close()


@pytest.mark.rule("AM-3", "AU-1", "AU-2")
def test_who_is_not_let_in(
    start_broker: StartBroker, authority: Authority, server: Pair, client: Pair, tmp_path: Path
) -> None:
    """Another user's certificate, none, one of a stranger, and a plain connection."""
    broker = start(start_broker, authority, server, "zoe", ssl_cert_login_from="common_name")
    for name, subject in (("bob", "/CN=bob"), ("nameless", "/O=nobody")):
        stranger = broker.raw(tls=authority.client_context(authority.sign(name, subject)))
        stranger.handshake(mechanism="EXTERNAL", response=b"zoe")
        stranger.expect_close(403, REFUSED)
    for context in (authority.client_context(), None):
        bare = broker.raw(tls=context)
        start_method = bare.handshake(mechanism="EXTERNAL", response=b"zoe")
        assert start_method.mechanisms == b"PLAIN"
        assert bare.expect_socket_closed(within=6.0) > 2.0
    forger = Authority(tmp_path, "root").sign("forged", "/CN=zoe")
    with pytest.raises((ssl.SSLError, ConnectionError, PeerClosed)):
        log_in(broker, authority.client_context(forger))
    log_in(broker, authority.client_context(client)).close()
    broker.connect(user="zoe", password="guest").close()


@pytest.mark.rule("AM-3")
def test_external_alone_leaves_plain_connections_without_a_way_in(
    start_broker: StartBroker, authority: Authority, server: Pair, client: Pair
) -> None:
    settings = VERIFY | {"auth_mechanisms.1": "EXTERNAL", "default_user": "zoe"}
    settings |= {"ssl_cert_login_from": "common_name", "loopback_users": "none"}
    broker = listen(start_broker, server, settings, authorities=authority.pair.certificate)
    bare = broker.raw()
    assert bare.handshake(user="zoe", mechanism="PLAIN").mechanisms == b""
    assert bare.expect_socket_closed(within=6.0) > 2.0
    log_in(broker, authority.client_context(client)).close()
