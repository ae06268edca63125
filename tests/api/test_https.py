"""The HTTP API with TLS: listeners, certificates, their renewal."""

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificate import Authority, needs_openssl, openssl
from tests.support.fixtures import StartBroker
from tests.support.http import PATIENCE_S, SETTINGS, basic, managed
from warren.cli.exit import CliError

pytestmark = [needs_openssl, pytest.mark.slow]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    pytest.importorskip("uvicorn")
    return Authority(tmp_path / "authority")


def tls_settings(files: Any, **more: str | int) -> dict[str, str | int]:
    return {
        **SETTINGS,
        "management.ssl.port": 0,
        "management.ssl.certfile": str(files.certificate),
        "management.ssl.keyfile": str(files.key),
        **more,
    }


def ask(port: int, context: ssl.SSLContext) -> tuple[Any, str]:
    """Return what /api/whoami says, and whose certificate was shown."""
    opened = http.client.HTTPSConnection("localhost", port, context=context, timeout=PATIENCE_S)
    try:
        opened.request("GET", "/api/whoami", headers={"authorization": basic("guest", "guest")})
        assert isinstance(opened.sock, ssl.SSLSocket)
        certificate = opened.sock.getpeercert()
        assert certificate is not None
        name = str(certificate["subject"]).split("'commonName', '")[1].split("'")[0]
        return json.loads(opened.getresponse().read()), name
    finally:
        opened.close()


def https_port(broker: Any) -> int:
    rows = broker.control("status")["listeners"]
    return int(next(row["port"] for row in rows if row["protocol"] == "https"))


def test_both_listeners_answer(start_broker: StartBroker, authority: Authority) -> None:
    site = managed(start_broker(tls_settings(authority.server("one"))))
    port = https_port(site.broker)
    assert ask(port, authority.client_context()) == (site.get("/api/whoami"), "one")
    listeners = site.until("/api/overview", lambda one: "listeners" in one)["listeners"]
    assert ("https", port) in {(one["protocol"], one["port"]) for one in listeners}
    # No TLS without trust in who signed, and no plain HTTP there.
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(port, ssl.create_default_context())
    with pytest.raises((http.client.HTTPException, OSError)):
        site.ask("GET", "/api/whoami", port=port)


def test_only_with_tls_and_an_encrypted_key(
    start_broker: StartBroker, authority: Authority, tmp_path: Path
) -> None:
    files = authority.server("one")
    locked = tmp_path / "locked.pem"
    words = ("pkey", "-in", str(files.key), "-aes256", "-passout", "pass:hunter2")
    openssl(*words, "-out", str(locked))
    settings = tls_settings(files, management_port="none", prometheus_port="none")
    settings["management.ssl.keyfile"] = str(locked)
    with pytest.raises(AssertionError, match="wrong password"):
        start_broker({**settings, "management.ssl.password": "wrong"})
    broker = start_broker({**settings, "management.ssl.password": "hunter2"})
    assert {row["protocol"] for row in broker.control("status")["listeners"]} == {"amqp", "https"}
    assert ask(https_port(broker), authority.client_context())[0]["name"] == "guest"
    # Nobody else on the machine is told the password.
    assert broker.process is not None
    mine = broker.process.pid
    child = Path(f"/proc/{mine}/task/{mine}/children").read_text().split()[0]
    assert b"hunter2" not in Path(f"/proc/{child}/cmdline").read_bytes()


def test_a_renewed_certificate_is_shown_soon(
    start_broker: StartBroker, authority: Authority
) -> None:
    files = authority.server("first")
    broker = start_broker(tls_settings(files, tls_reload_interval_s=1))
    port, context = https_port(broker), authority.client_context()
    assert ask(port, context)[1] == "first"
    good = files.key.read_bytes()
    # One that does not fit is not used, and the next one is.
    files.key.write_bytes(authority.server("other").key.read_bytes())
    deadline = time.monotonic() + PATIENCE_S
    while "the certificate in use stays in use" not in broker.log_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ask(port, context)[1] == "first"
    files.key.write_bytes(good)
    files.replace(authority.server("second"))
    while ask(port, context)[1] != "second":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_certificate_that_cannot_be_used_stops_the_start(
    start_broker: StartBroker, authority: Authority
) -> None:
    files = authority.server("one")
    files.key.write_bytes(authority.server("other").key.read_bytes())
    with pytest.raises(AssertionError, match="is not the key of the certificate"):
        start_broker(tls_settings(files))


def test_stop_app_and_start_app_keep_it(start_broker: StartBroker, authority: Authority) -> None:
    broker = start_broker(tls_settings(authority.server("one")))
    broker.control("stop_app")
    with pytest.raises(CliError):
        broker.control("status")
    broker.control("start_app")
    assert ask(https_port(broker), authority.client_context())[1] == "one"
