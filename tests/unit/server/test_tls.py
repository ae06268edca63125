"""The node's certificate: what is refused and in which words, replacement, dates."""

import asyncio
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certificate import OPENSSL, Authority, Pair, needs_openssl, self_signed
from tests.unit.server.fake_node import Events
from warren.security import LoginFrom, LoginRule, NameKind
from warren.server.config import Settings
from warren.server.diagnosis import check_certificate
from warren.server.tls import DAY_S, Tls, TlsError, load
from warren.server.view import HealthReason

pytestmark = needs_openssl
Change = Callable[[Pair], None]


class Clock:
    """Shows the wall time it is set to; the day certificates of the tests are made is 0."""

    def __init__(self, days: float = 0.5) -> None:
        self.days = days
        self.made_s = 0

    def monotonic_ns(self) -> int:
        return 0

    def wall_ns(self) -> int:
        return int((self.made_s + self.days * DAY_S) * 1_000_000_000)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return self_signed(tmp_path, "server", "/CN=first", days=100)


def settings_of(pair: Pair, **more: object) -> Settings:
    return Settings(tls_certfile=pair.certificate, tls_keyfile=pair.key, **more)  # type: ignore[arg-type]


def clock_for(pair: Pair, days: float = 0.5) -> Clock:
    clock = Clock(days)
    clock.made_s = load(settings_of(pair)).certificate.not_before_s
    return clock


def encrypt(pair: Pair) -> None:
    words = [
        OPENSSL,
        "ec",
        "-in",
        str(pair.key),
        "-out",
        str(pair.key),
        "-aes256",
        "-passout",
        "pass:secret",
    ]
    subprocess.run(words, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pair: pair.certificate.unlink(), "tls_certfile .*: No such file"),
        (lambda pair: pair.key.unlink(), "tls_keyfile .*: No such file"),
        (lambda pair: pair.certificate.write_bytes(b"x"), "tls_certfile .*: there is no certif"),
        (lambda pair: pair.key.write_bytes(b"x"), "tls_keyfile .*: no private key in PEM"),
        (
            lambda pair: pair.key.write_bytes(
                self_signed(pair.key.parent, "other", "/CN=other").key.read_bytes()
            ),
            "tls_keyfile .* is not the key of the certificate in tls_certfile",
        ),
        (encrypt, "tls_keyfile .* is encrypted: set tls_password"),
        (
            lambda pair: pair.certificate.write_text(
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
            ),
            "tls_certfile .*: expected the element",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(pair: Pair, change: Change, words: str) -> None:
    change(pair)
    with pytest.raises(TlsError, match=words):
        load(settings_of(pair))


def test_an_encrypted_key_needs_its_password(pair: Pair) -> None:
    encrypt(pair)
    with pytest.raises(TlsError, match=r"tls_password does not decrypt it"):
        load(settings_of(pair, tls_password="wrong"))
    assert load(settings_of(pair, tls_password="secret")).certificate.subject


def test_authorities_that_cannot_be_read_are_refused(pair: Pair, tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    with pytest.raises(TlsError, match=r"tls_cafile .*: No such file"):
        load(settings_of(pair, tls_cafile=authorities))
    authorities.write_text("nothing")
    with pytest.raises(TlsError, match=r"tls_cafile .*: no certificate or crl found"):
        load(settings_of(pair, tls_cafile=authorities))


def test_the_context_follows_the_settings(pair: Pair, authority: Authority) -> None:
    plain = load(settings_of(pair)).context
    assert plain.minimum_version is ssl.TLSVersion.TLSv1_2
    assert plain.maximum_version is ssl.TLSVersion.TLSv1_3
    assert plain.verify_mode is ssl.CERT_NONE
    assert plain.options & ssl.OP_NO_RENEGOTIATION
    strict = load(
        settings_of(
            pair,
            tls_versions=("tlsv1.3",),
            tls_verify="required",
            tls_cafile=authority.pair.certificate,
        )
    ).context
    assert strict.minimum_version is ssl.TLSVersion.TLSv1_3
    assert strict.verify_mode is ssl.CERT_REQUIRED
    assert strict.num_tickets == 0
    assert strict.options & ssl.OP_NO_TICKET


@pytest.mark.parametrize(
    ("days", "state", "left"),
    [(0.5, "valid", 99), (70.5, "expiring", 29), (99.5, "expiring", 0), (100.5, "expired", -1)],
)
def test_the_dates_of_the_certificate_are_told(
    pair: Pair, days: float, state: str, left: int
) -> None:
    events = Events()
    tls = Tls(settings_of(pair, tls_reload_interval_s=0), clock_for(pair, days), events)
    tls.start()
    row = tls.row()
    assert (row.state, row.days_left, row.subject) == (state, left, "CN=first")
    assert [name for _, name, _ in events.seen] == (
        [] if state == "valid" else ["tls.certificate_expires"]
    )
    check = check_certificate(row)
    assert check.ok == (state != "expired")
    assert bool(check.detail) == (state != "valid")
    assert check.reason == (HealthReason.CERTIFICATE_EXPIRED if state == "expired" else None)


def test_a_replacement_holds_from_the_next_context_on(pair: Pair, tmp_path: Path) -> None:
    events = Events()
    tls = Tls(settings_of(pair, tls_reload_interval_s=0), clock_for(pair), events)
    tls.start()
    before = tls.context()
    pair.replace(self_signed(tmp_path, "second", "/CN=second", days=50))
    row = asyncio.run(tls.reload())
    assert (row.subject, row.days_left) == ("CN=second", 49)
    assert tls.context() is not before
    assert events.seen[-1][:2] == ("info", "tls.reloaded")


def test_a_bad_replacement_leaves_what_there_was(pair: Pair, tmp_path: Path) -> None:
    events = Events()
    clock = clock_for(pair)
    tls = Tls(settings_of(pair, tls_reload_interval_s=0), clock, events)
    tls.start()
    before = tls.context()
    second = self_signed(tmp_path, "second", "/CN=second", days=10)
    pair.key.write_bytes(second.key.read_bytes())
    with pytest.raises(TlsError, match="is not the key"):
        asyncio.run(tls.reload())
    pair.replace(second)
    clock.days = 10.5
    with pytest.raises(TlsError, match="has expired, on "):
        asyncio.run(tls.reload())
    clock.days = -0.5
    with pytest.raises(TlsError, match="is not valid before "):
        asyncio.run(tls.reload())
    assert tls.context() is before
    assert tls.row().subject == "CN=first"
    assert {name for _, name, _ in events.seen} == {"tls.reload_refused"}
    clock.days = 0.5
    assert asyncio.run(tls.reload()).subject == "CN=second"


def test_changed_files_are_taken_and_bad_ones_told_once(pair: Pair, tmp_path: Path) -> None:
    events = Events()
    clock = clock_for(pair)
    tls = Tls(settings_of(pair, tls_reload_interval_s=3600), clock, events)

    async def look() -> None:
        tls._look()
        assert tls._reloading is not None
        await tls._reloading

    async def scene() -> None:
        tls.start()
        await look()
        assert events.seen == []
        whole = pair.certificate.read_bytes()
        pair.certificate.write_bytes(b"half")
        await look()
        await look()
        assert [name for _, name, _ in events.seen] == ["tls.reload_refused"]
        pair.certificate.unlink()
        await look()
        pair.certificate.write_bytes(whole)
        pair.replace(self_signed(tmp_path, "second", "/CN=second", days=50))
        await look()
        await look()
        assert [name for _, name, _ in events.seen][1:] == ["tls.reloaded"]
        assert tls.row().subject == "CN=second"
        tls.stop()

    asyncio.run(scene())


def test_reload_in_the_background_tells_the_log_only(pair: Pair) -> None:
    events = Events()
    tls = Tls(settings_of(pair, tls_reload_interval_s=0), clock_for(pair), events)
    Tls(Settings(), Clock(), events).reload_soon()

    async def scene() -> None:
        tls.start()
        tls.reload_soon()
        pending = tls._reloading
        tls.reload_soon()
        assert tls._reloading is pending
        assert pending is not None
        await pending
        pair.key.unlink()
        tls.reload_soon()
        assert tls._reloading is not None
        await tls._reloading

    asyncio.run(scene())
    assert [name for _, name, _ in events.seen] == ["tls.reloaded", "tls.reload_refused"]


def test_the_rule_of_names_comes_from_the_settings() -> None:
    settings = Settings(
        tls_cert_login_from="subject_alternative_name",
        tls_cert_login_san_type="email",
        tls_cert_login_san_index=2,
    )
    wanted = LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, NameKind.EMAIL, 2)
    assert Tls(settings, Clock(), Events()).rule == wanted
