"""What single settings cannot show: settings against each other, files that are not there."""

import os
from typing import TYPE_CHECKING, Final, cast

from warren.security import EXTERNAL
from warren.server.config_entry import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from warren.server.config import Settings

# sun_path holds 108 octets on Linux, the last one a zero.
SOCKET_PATH_OCTETS_MAX: Final = 107

Found = list[tuple[str, str]]


def conflicts(settings: "Settings") -> list[Problem]:
    """Return a problem for each setting that cannot work together with the others."""
    found = [*_tls(settings), *_management_tls(settings), *_login(settings)]
    definitions = settings.load_definitions
    if definitions is not None and not os.access(definitions, os.R_OK):
        found.append(("load_definitions", f"cannot be read: {definitions}"))
    if not settings.tcp_listeners() and not settings.tls_listeners():
        found.append(("port", "there is no listener at all: set port or tls_certfile"))
    octets = len(os.fsencode(settings.socket_path()))
    if octets > SOCKET_PATH_OCTETS_MAX:
        name = "control_socket" if settings.control_socket else "data_dir"
        most = SOCKET_PATH_OCTETS_MAX
        reason = f"the control socket's path has {octets} octets, the system allows {most}"
        found.append((name, f"{reason}; set control_socket to a shorter one"))
    return [Problem(settings.origin(name), name, reason, "") for name, reason in found]


def _tls(settings: "Settings") -> Found:
    found: Found = []
    if settings.tls_certfile is None:
        needing = ["tls_keyfile", "tls_port", "tls_bind", "tls_extra_listeners"]
        idle = "has no effect without tls_certfile"
        found += [(name, idle) for name in needing if name in settings.origins]
    elif settings.tls_keyfile is None:
        found.append(("tls_certfile", "needs tls_keyfile, the private key of the certificate"))
    if settings.tls_verify != "none" and settings.tls_cafile is None:
        found.append(("tls_verify", "needs tls_cafile, the authorities that may sign clients"))
    if not settings.tls_versions:
        found.append(("tls_versions", "needs at least one version"))
    for name in ("tls_certfile", "tls_keyfile", "tls_cafile"):
        named = cast("Path | None", getattr(settings, name))
        if named is not None and not os.access(named, os.R_OK):
            found.append((name, f"cannot be read: {named}"))
    return found


def _management_tls(settings: "Settings") -> Found:
    found: Found = []
    if settings.management_tls_certfile is None:
        idle = "has no effect without management_tls_certfile"
        needing = ["management_tls_keyfile", "management_tls_port", "management_tls_bind"]
        found += [(name, idle) for name in needing if name in settings.origins]
        if settings.management_port is None and settings.management != "off":
            reason = "the HTTP API has no listener: set management_tls_certfile, or management off"
            found.append(("management_port", reason))
    elif settings.management_tls_keyfile is None:
        reason = "needs management_tls_keyfile, the private key of the certificate"
        found.append(("management_tls_certfile", reason))
    for name in ("management_tls_certfile", "management_tls_keyfile"):
        named = cast("Path | None", getattr(settings, name))
        if named is not None and not os.access(named, os.R_OK):
            found.append((name, f"cannot be read: {named}"))
    return found


def _login(settings: "Settings") -> Found:
    enabled = settings.auth_mechanisms
    if not enabled:
        return [("auth_mechanisms", "nobody could log in: name at least one")]
    if EXTERNAL not in enabled:
        return []
    if settings.tls_certfile is None or settings.tls_verify == "none":
        reason = "EXTERNAL needs tls_certfile and tls_verify, optional or required"
        return [("auth_mechanisms", f"{reason}: it asks for a client's certificate")]
    return []
