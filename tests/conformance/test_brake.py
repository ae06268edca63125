"""Wrong logins, many of them, from one address: the others do not notice (AU-1, AU-2)."""

import contextlib
import time
from collections import deque

import pytest

from tests.support.broker import Broker
from tests.support.bystander import Bystander
from tests.support.expectation import NothingCame, PeerClosed, Unexpected
from tests.support.fixtures import StartBroker
from tests.support.wire import Client

pytestmark = [pytest.mark.slow, pytest.mark.differs_from_reference("it has no brake")]
ELSEWHERE = "127.0.0.2"


def fail(broker: Broker) -> bool:
    """Log in wrongly from elsewhere; False if nothing was read at all."""
    try:
        with broker.raw(source=ELSEWHERE) as client:
            client.handshake(password="wrong")
            client.expect("connection.close", reply_code=403)
    except (PeerClosed, ConnectionError):
        return False
    return True


@pytest.mark.rule("AU-1")
def test_an_address_that_fails_too_often_is_dropped_for_a_while(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(settings={"login_failures_per_s": 5})
    with Bystander(broker):
        there = broker.raw(source=ELSEWHERE).open()
        began = time.monotonic()
        tries = [fail(broker) for _ in range(60)]
        spent = time.monotonic() - began
        # Ten at once, five for each second that this took.
        assert 10 <= sum(tries) <= 11 + 5 * spent
        assert not tries[-1]
        broker.connect().close()
        there.channel().queue_declare(exclusive=True)
        there.close()
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(PeerClosed, ConnectionError):
            broker.raw(source=ELSEWHERE).open().close()
            break
        assert time.monotonic() < deadline, "the brake does not end"
        time.sleep(0.05)
    while "login.brake_off" not in broker.log_text():
        assert time.monotonic() < deadline, broker.log_text()[-2000:]
        time.sleep(0.05)
    assert f"login.brake_on address={ELSEWHERE} failures_per_s=5" in broker.log_text()


@pytest.mark.rule("AU-1", "AU-2")
@pytest.mark.parametrize("told", [True, False], ids=["told", "in silence"])
def test_a_thousand_wrong_logins_a_second_do_not_hurt_others(
    start_broker: StartBroker, told: bool
) -> None:
    """Sockets are left open as long as the broker lets them, which is not for long."""
    broker = start_broker()
    lingering: deque[Client] = deque()
    capabilities = {"authentication_failure_close": told}
    began = time.monotonic()
    with Bystander(broker) as bystander:
        for number in range(3000):
            ahead = number / 1000 - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
            client = Client(broker.host, broker.port, source=ELSEWHERE)
            lingering.append(client)
            with contextlib.suppress(PeerClosed, NothingCame, Unexpected, ConnectionError):
                client.handshake(password="wrong", client_properties={"capabilities": capabilities})
            if len(lingering) > 2000:
                lingering.popleft().drop()
            if number % 200 == 0:
                broker.connect().close()
        for client in lingering:
            client.drop()
    assert bystander.rounds > 100
    assert broker.log_text().count(" login.refused ") < 20 * 60
