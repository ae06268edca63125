"""The node's certificate: loaded at the start, looked at now and then, replaced without a restart.

Owns the TLS context that new connections use. A replacement is loaded and checked beside the one
in use, off the loop, and takes its place only when everything is right: the files can be read, the
key belongs to the certificate, and it is valid today. A bad one is refused with the reason; the old
one stays. Connections that are open keep what they were opened with.

Every connection is verified in full: where clients show certificates, TLS sessions are not resumed
by ticket, and the length of the chain (`tls_depth`), which Python cannot set in the context, is
looked at after the handshake.
"""

import asyncio
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, cast, final

from warren.core import Clock
from warren.core.log import EventLog
from warren.security import (
    EXTERNAL,
    Certificate,
    CertificateError,
    External,
    LoginFrom,
    LoginRule,
    NameKind,
    distinguished_name,
    first_of_pem,
    read_certificate,
)
from warren.server.config import Settings
from warren.server.view import CertificateRow

DAY_S: Final = 86_400
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(Exception):
    """A certificate, key or authority that cannot be used; says which setting and why."""


@dataclass(frozen=True)
class Loaded:
    """One state of the files."""

    context: ssl.SSLContext
    certificate: Certificate
    stamp: "Stamp"


# Modification time and size of each file: what a look compares.
Stamp = tuple[tuple[int, int], ...]


class _Verified(Protocol):
    """The part of an `SSLObject` that has the verified chain before Python 3.13 shows it."""

    def get_verified_chain(self) -> list[object] | None: ...


@final
class Tls:
    """The certificate in use, and its replacement."""

    def __init__(self, settings: Settings, clock: Clock, log: EventLog) -> None:
        self._settings = settings
        self._clock = clock
        self._log = log
        self._loaded: Loaded | None = None
        self._refused: Stamp | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._warned_day = -1
        self.rule = LoginRule(
            LoginFrom(settings.tls_cert_login_from),
            NameKind(settings.tls_cert_login_san_type),
            settings.tls_cert_login_san_index,
        )

    def start(self) -> None:
        """Load what the settings name; `TlsError` if it cannot be used at all."""
        if self._settings.tls_certfile is None:
            return
        self._loaded = load(self._settings)
        if self.row().state != "valid":
            self._warn()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def enabled(self) -> bool:
        return self._loaded is not None

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        assert self._loaded is not None
        return self._loaded.context

    def row(self) -> CertificateRow:
        """Return what people are told of the certificate in use."""
        assert self._loaded is not None
        assert self._settings.tls_certfile is not None
        found = self._loaded.certificate
        now_s = self._clock.wall_ns() // 1_000_000_000
        days = (found.not_after_s - now_s) // DAY_S
        state = "valid"
        if now_s >= found.not_after_s:
            state = "expired"
        elif now_s < found.not_before_s:
            state = "not_yet_valid"
        elif days < self._settings.tls_expiry_warning_days:
            state = "expiring"
        return CertificateRow(
            file=str(self._settings.tls_certfile),
            subject=distinguished_name(found),
            not_before=_moment(found.not_before_s),
            not_after=_moment(found.not_after_s),
            days_left=days,
            state=state,
        )

    async def reload(self) -> CertificateRow:
        """Load the files anew and use them from now on; `TlsError` keeps what is in use."""
        settings = self._settings
        try:
            fresh = await asyncio.get_running_loop().run_in_executor(None, load, settings)
            self._refused = fresh.stamp
            self._check_dates(fresh.certificate)
        except TlsError as refusal:
            self._log.event("error", "tls.reload_refused", {"detail": str(refusal)})
            raise
        self._loaded = fresh
        self._refused = None
        row = self.row()
        self._log.event(
            "info", "tls.reloaded", {"subject": row.subject, "not_after": row.not_after}
        )
        return row

    def reload_soon(self) -> None:
        """Begin a reload whose outcome only the log tells; one at a time."""
        if self.enabled and self._reloading is None:
            self._reloading = asyncio.get_running_loop().create_task(self._reload_quietly())

    async def _reload_quietly(self) -> None:
        try:
            await self.reload()
        except TlsError:
            # It is in the log, and what is in use stays in use.
            return
        finally:
            self._reloading = None

    def external(self, found: ssl.SSLObject) -> External | None:
        """Return the mechanism of a peer that showed a certificate, where EXTERNAL is enabled.

        The context has verified it: without verification no certificate is asked for.
        """
        if EXTERNAL not in self._settings.auth_mechanisms or self._settings.tls_verify == "none":
            return None
        der = found.getpeercert(binary_form=True)
        return External(der, self.rule) if der else None

    def too_deep(self, found: ssl.SSLObject) -> bool:
        """Whether a peer's chain has more intermediate authorities than are allowed.

        The chain of a resumed session is not known; it was looked at when the session began, and
        an aborted connection's session cannot be resumed.
        """
        if self._settings.tls_verify == "none":
            return False
        holder = found if hasattr(found, "get_verified_chain") else getattr(found, "_sslobj", None)
        chain = cast("_Verified", holder).get_verified_chain() if holder is not None else None
        return chain is not None and len(chain) - 2 > self._settings.tls_depth

    def _check_dates(self, certificate: Certificate) -> None:
        now_s = self._clock.wall_ns() // 1_000_000_000
        named = f"tls_certfile {self._settings.tls_certfile}"
        if now_s >= certificate.not_after_s:
            raise TlsError(f"{named} has expired, on {_moment(certificate.not_after_s)}")
        if now_s < certificate.not_before_s:
            raise TlsError(f"{named} is not valid before {_moment(certificate.not_before_s)}")

    def _arm(self) -> None:
        interval_s = self._settings.tls_reload_interval_s
        if interval_s:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(interval_s, self._look)

    def _look(self) -> None:
        """See whether the files have changed, off the loop as well; files may be far away."""
        self._arm()
        if self.row().state != "valid":
            self._warn()
        if self._reloading is None:
            self._reloading = asyncio.get_running_loop().create_task(self._compare())

    async def _compare(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            stamp = await loop.run_in_executor(None, stamp_of, self._settings)
            if self._loaded is not None and stamp not in (self._loaded.stamp, self._refused):
                self._refused = stamp
                await self.reload()
        except TlsError:
            # A file that is missing at the moment is being replaced; a bad one is in the log.
            return
        finally:
            self._reloading = None

    def _warn(self) -> None:
        """Once a day, as long as the certificate is not well."""
        day = self._clock.wall_ns() // 1_000_000_000 // DAY_S
        if day == self._warned_day:
            return
        self._warned_day = day
        row = self.row()
        self._log.event(
            "warning",
            "tls.certificate_expires",
            {
                "file": row.file,
                "state": row.state,
                "not_after": row.not_after,
                "days_left": row.days_left,
            },
        )


def load(settings: Settings) -> Loaded:
    """Read certificate, key and authorities and make a context of them; `TlsError` if it fails."""
    certfile, keyfile = settings.tls_certfile, settings.tls_keyfile
    assert certfile is not None
    assert keyfile is not None
    # Before the files are read: what changes meanwhile is seen as a change by the next look.
    stamp = stamp_of(settings)
    try:
        certificate = read_certificate(first_of_pem(_octets("tls_certfile", certfile)))
    except CertificateError as error:
        raise TlsError(f"tls_certfile {certfile}: {error}") from None
    context = _context(settings)
    encrypted = b"ENCRYPTED" in _octets("tls_keyfile", keyfile)
    try:
        context.load_cert_chain(certfile, keyfile, lambda: _password(settings))
    except ssl.SSLError as error:
        raise TlsError(_key_trouble(settings, error, encrypted)) from None
    except OSError as error:
        raise TlsError(f"tls_certfile {certfile}: {error.strerror}") from None
    if settings.tls_cafile is not None:
        _octets("tls_cafile", settings.tls_cafile)
        try:
            context.load_verify_locations(settings.tls_cafile)
        except (ssl.SSLError, OSError) as error:
            raise TlsError(f"tls_cafile {settings.tls_cafile}: {_words(error)}") from None
    return Loaded(context, certificate, stamp)


def stamp_of(settings: Settings) -> Stamp:
    """Return what tells one state of the files from another."""
    found = []
    for name, path in _files(settings):
        try:
            stat = path.stat()
        except OSError as error:
            raise TlsError(f"{name} {path}: {error.strerror}") from None
        found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _files(settings: Settings) -> list[tuple[str, Path]]:
    named = {
        "tls_certfile": settings.tls_certfile,
        "tls_keyfile": settings.tls_keyfile,
        "tls_cafile": settings.tls_cafile,
    }
    return [(name, path) for name, path in named.items() if path is not None]


def _context(settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in settings.tls_versions]
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)
    context.verify_mode = _VERIFY[settings.tls_verify]
    # A renegotiation is a handshake that a client may ask for again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.tls_verify != "none":
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _octets(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{name} {path}: {error.strerror}") from None


def _password(settings: Settings) -> str:
    """Asked for by an encrypted key only; without an answer OpenSSL would ask the terminal."""
    if not settings.tls_password:
        raise TlsError(f"tls_keyfile {settings.tls_keyfile} is encrypted: set tls_password")
    return settings.tls_password


def _key_trouble(settings: Settings, error: ssl.SSLError, encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"tls_keyfile {settings.tls_keyfile} is not the key of the certificate in "
            f"tls_certfile {settings.tls_certfile}"
        )
    if error.reason in (None, "PEM_LIB", "NO_START_LINE", "BAD_DECRYPT", "BAD_PASSWORD_READ"):
        what = "tls_password does not decrypt it" if encrypted else "no private key in PEM form"
        return f"tls_keyfile {settings.tls_keyfile}: {what}"
    return f"tls_certfile {settings.tls_certfile}: {_words(error)}"


def _words(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or error).replace("_", " ").lower()


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
