"""Parts of the node's answers that need no node: build, settings with origins, health, waits.

The node joins them with its own numbers to the replies of `view`.
"""

import os
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import warren
from warren._build import forms
from warren.flow.wait import WORDS, Reason, Subject, Wait
from warren.runtime.process import descriptor_count, descriptor_count_max, resident_bytes
from warren.server.config import KEYS, Settings
from warren.server.view import (
    CertificateRow,
    Diag,
    HealthCheck,
    HealthReason,
    ModuleForm,
    SettingRow,
    WhyReply,
    WhyStep,
)

# New connections and store files need descriptors; fewer than this left is trouble ahead.
DESCRIPTORS_LEFT_MIN: Final = 64
_STATES: Final = {
    Reason.CREDIT: "flow",
    Reason.ROUTING_BUSY: "flow",
    Reason.QUEUE_BUSY: "flow",
    Reason.PUBLISH_RATE: "flow",
    Reason.JOURNAL_FULL: "flow",
    Reason.MEMORY_ALARM: "blocked",
    Reason.DISK_ALARM: "blocked",
    Reason.PARKED_BUDGET: "blocked",
    Reason.QUEUE_SUSPENDED: "suspended",
}
# What is in flow is not the bottleneck: the first one downstream that is not is.
_FLOW: Final = frozenset(reason for reason, state in _STATES.items() if state == "flow")


def diagnose(settings: Settings, *, event_loop: str) -> Diag:
    """Return what a bug report needs."""
    packages = {}
    for name in ("msgspec", "uvloop", "librt"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    modules = tuple(ModuleForm(module=one, compiled=form) for one, form in forms().items())
    return Diag(
        version=warren.__version__,
        node=settings.node_name,
        pid=os.getpid(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        event_loop=event_loop,
        packages=packages,
        modules=modules,
        settings=setting_rows(settings),
        paths={
            "data_dir": str(settings.data_dir),
            "control_socket": str(settings.socket_path()),
            "log_file": str(settings.log_file or "none"),
            "python": sys.executable,
        },
        limits={
            "descriptors": descriptor_count(),
            "descriptors_max": descriptor_count_max(),
            "memory_bytes": resident_bytes(),
            "processors": os.cpu_count() or 0,
        },
    )


def setting_rows(settings: Settings) -> tuple[SettingRow, ...]:
    """Return every setting in force with its origin; secrets are masked."""
    return tuple(
        SettingRow(name=name, value=settings.shown(name), origin=settings.origin(name))
        for name in KEYS
    )


def check_descriptors() -> HealthCheck:
    """Check that the process may open enough files."""
    used, most = descriptor_count(), descriptor_count_max()
    if most < 0 or most - used >= DESCRIPTORS_LEFT_MIN:
        return HealthCheck(name="descriptors", ok=True)
    return HealthCheck(
        name="descriptors",
        ok=False,
        reason=HealthReason.DESCRIPTORS_LOW,
        detail=f"{used} of {most} are open",
        advice="raise the limit of open files (LimitNOFILE, ulimit -n)",
    )


def check_certificate(row: CertificateRow) -> HealthCheck:
    """Check that clients can still accept the node's certificate, and warn before they cannot."""
    advice = "replace the files and run `warren reload-tls`"
    if row.state in ("expired", "not_yet_valid"):
        edge = row.not_after if row.state == "expired" else row.not_before
        return HealthCheck(
            name="certificate",
            ok=False,
            reason=HealthReason.CERTIFICATE_EXPIRED,
            detail=f"{row.file} is {row.state.replace('_', ' ')} ({edge})",
            advice=advice,
        )
    if row.state == "expiring":
        detail = f"{row.file} is valid until {row.not_after}, {row.days_left} days more"
        return HealthCheck(name="certificate", ok=True, detail=detail, advice=advice)
    return HealthCheck(name="certificate", ok=True)


def why_reply(
    subject: Subject | None, waits: Iterable[Wait], *, now_ns: int, unlisted: int = 0
) -> WhyReply:
    """Put waits into words."""
    every = list(waits)
    waiting = {wait.subject for wait in every}
    ends = dict.fromkeys(
        str(wait.cause)
        for wait in every
        if wait.reason in _FLOW and wait.cause is not None and wait.cause not in waiting
    )
    return WhyReply(
        subject="" if subject is None else str(subject),
        steps=tuple(_step(wait, now_ns) for wait in every),
        bottlenecks=tuple(ends),
        unlisted=unlisted,
    )


def _step(wait: Wait, now_ns: int) -> WhyStep:
    words = WORDS[wait.reason]
    subject = str(wait.subject)
    cause = "" if wait.cause is None else str(wait.cause)
    named = {"subject": subject, "cause": cause or "the node"}
    return WhyStep(
        subject=subject,
        state=_STATES.get(wait.reason, "waiting"),
        reason=wait.reason.value,
        fact=words.fact.format(**named),
        cause=cause,
        since_ms=max(0, now_ns - wait.since_ns) // 1_000_000,
        setting=wait.setting or "",
        advice=words.advice.format(**named),
        detail=wait.detail,
    )
