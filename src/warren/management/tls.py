"""The TLS context of the HTTP API: made of a certificate and a key, and kept up to date.

The node makes one at its start, to see that it can be made; the process makes its own. A renewed
certificate is tried in a context of its own first and then loaded into the one in use, which shows
it to the connections that come from then on; a bad one changes nothing.
"""

import asyncio
import logging
import os
import ssl
from typing import Final, final

import msgspec

_VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
_LOG: Final = logging.getLogger(__name__)


class TlsFilesError(Exception):
    """A certificate or key that cannot be used; says which setting and why."""


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings name."""

    certificate: str
    key: str
    password: str
    versions: tuple[str, ...]
    # How often the files are looked at; 0 is never.
    reload_interval_s: int


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that shows this certificate; `TlsFilesError` if there can be none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in files.versions]
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)
    # A renegotiation is a handshake that a client may ask for again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    for name, path in (("certfile", files.certificate), ("keyfile", files.key)):
        if not os.access(path, os.R_OK):
            raise TlsFilesError(f"management_tls_{name} {path} cannot be read")
    try:
        # Without an answer OpenSSL would ask the terminal for the password.
        context.load_cert_chain(files.certificate, files.key, lambda: files.password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "is not the key of the certificate"
            raise TlsFilesError(f"management_tls_keyfile {files.key} {why}") from None
        why = (error.reason or "no certificate, no key, or a wrong password").replace("_", " ")
        named = f"management_tls_certfile {files.certificate}, its key {files.key}"
        raise TlsFilesError(f"{named}: {why.lower()}") from None
    except (OSError, ValueError) as error:
        raise TlsFilesError(f"management_tls_certfile {files.certificate}: {error}") from None


@final
class Renewal:
    """Looks whether the files have changed, and loads them into the context in use."""

    def __init__(self, files: TlsFiles, context: ssl.SSLContext) -> None:
        self._files = files
        self._context = context
        self._stamp = self._look()

    async def run(self) -> None:
        while self._files.reload_interval_s:
            await asyncio.sleep(self._files.reload_interval_s)
            await asyncio.get_running_loop().run_in_executor(None, self.look)

    def look(self) -> bool:
        """Use what the files have now; False if that is the same as before, or of no use."""
        stamp = self._look()
        if stamp == self._stamp or stamp is None:
            return False
        self._stamp = stamp
        try:
            context_of(self._files)
            _load(self._context, self._files)
        except TlsFilesError as refusal:
            _LOG.error("the certificate in use stays in use: %s", refusal)
            return False
        _LOG.warning("the certificate was replaced")
        return True

    def _look(self) -> tuple[int, ...] | None:
        """What tells one state of the files from another; None while one is not there."""
        try:
            found = [os.stat(path) for path in (self._files.certificate, self._files.key)]
        except OSError:
            return None
        return tuple(part for one in found for part in (one.st_mtime_ns, one.st_size, one.st_ino))
