"""The TLS context of the listeners, made from the settings."""

import ssl
from typing import Final

from warren.server.config import Settings

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(settings: Settings) -> ssl.SSLContext:
    """Load certificate, key and client authorities; `OSError` if one cannot be read."""
    assert settings.tls_certfile is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_certfile, settings.tls_keyfile)
    if settings.tls_cafile is not None:
        context.load_verify_locations(settings.tls_cafile)
    context.verify_mode = _VERIFY[settings.tls_verify]
    return context
