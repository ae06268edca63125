"""Certificates for tests, made with openssl: authorities, and what they sign.

Keys are of the P-256 curve, which takes milliseconds to make. Everything is written under the
folder of the authority; names of files are those given.
"""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

OPENSSL: Final = shutil.which("openssl") or ""
needs_openssl = pytest.mark.skipif(not OPENSSL, reason="openssl makes the certificates")
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Pair:
    """A certificate with its key."""

    certificate: Path
    key: Path

    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())

    def replace(self, other: "Pair") -> None:
        """Put another pair's contents into this one's files, each in one step."""
        for mine, others in ((self.certificate, other.certificate), (self.key, other.key)):
            fresh = mine.with_suffix(".new")
            fresh.write_bytes(others.read_bytes())
            fresh.replace(mine)


class Authority:
    """A certificate authority, a root or below another one."""

    def __init__(self, folder: Path, name: str = "root", above: "Authority | None" = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.above = above
        constraints = "basicConstraints=critical,CA:TRUE"
        if above is None:
            self.pair = self_signed(folder, name, f"/CN={name}", constraints)
        else:
            self.pair = above.sign(name, f"/CN={name}", constraints)

    def sign(self, name: str, subject: str, *extensions: str, days: int = 2) -> Pair:
        """Issue a certificate; extensions as openssl writes them: `subjectAltName=DNS:x`."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        asked = self.folder / f"{name}.csr"
        asking = ["req", "-new", *_KEY, "-utf8", "-subj", subject]
        openssl(*asking, "-keyout", str(pair.key), "-out", str(asked))
        given = self.folder / f"{name}.ext"
        given.write_text("[given]\n" + "\n".join(extensions) + "\n")
        signing = ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
        signing += ["-CAcreateserial", "-days", str(days)]
        if extensions:
            signing += ["-extfile", str(given), "-extensions", "given"]
        openssl("x509", "-req", "-in", str(asked), *signing, "-out", str(pair.certificate))
        return pair

    def server(self, name: str = "server", *, days: int = 2) -> Pair:
        """A certificate that clients accept for localhost."""
        return self.sign(name, f"/CN={name}", "subjectAltName=DNS:localhost", days=days)

    def chained(self, pair: Pair) -> Pair:
        """The same pair with the certificates of the authorities below the root behind it."""
        text = pair.certificate.read_text()
        authority: Authority | None = self
        while authority is not None and authority.above is not None:
            text += authority.pair.certificate.read_text()
            authority = authority.above
        whole = pair.certificate.with_suffix(".chain.pem")
        whole.write_text(text)
        return Pair(whole, pair.key)

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client that trusts this authority, and shows a certificate if it is given one."""
        context = ssl.create_default_context(cafile=str(self.pair.certificate))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


def self_signed(folder: Path, name: str, subject: str, *extensions: str, days: int = 2) -> Pair:
    """A certificate that vouches for itself."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    words = ["req", "-x509", *_KEY, "-utf8", "-days", str(days), "-subj", subject]
    for extension in extensions:
        words += ["-addext", extension]
    openssl(*words, "-keyout", str(pair.key), "-out", str(pair.certificate))
    return pair


def openssl(*words: str) -> None:
    done = subprocess.run([OPENSSL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
