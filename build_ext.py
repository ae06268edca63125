"""How the hot path is compiled: the list of compiled modules, and the commands that build them.

The typed `.py` files are the only source; mypyc turns the modules in `COMPILED` into one shared
library with one small extension per module beside the `.py`, which stays installed and can be
loaded instead (`WARREN_PURE=1`, see `warren._pure`). Read docs/decisions/0001-python-and-mypyc.md.

Switches at build time:

- `WARREN_PURE=1`: compile nothing.
- `WARREN_REQUIRE_COMPILED=1`: any module that cannot be compiled fails the build. Without it a
  machine that lacks a C compiler still gets a working, slower package, with a warning.
- `WARREN_DEBUG=1`: keep line tables in the library (`-g1`), for profilers and core dumps.
- `WARREN_BUILD_JOBS=n`: C compilers at a time; the default is the number of processors.

Rebuilds are quick because an object file is kept with a digest of everything that went into it.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError

ROOT: Final = Path(__file__).parent
SOURCE: Final = "src"

# The one list. A module belongs here when it is on the path of every message of the broker or of
# the load generator, and stays only while its measurement says so. All of them form one group:
# calls between them are C calls, whatever the package.
COMPILED: Final = (
    "warren.bench.block",
    "warren.bench.confirm",
    "warren.bench.consumer",
    "warren.bench.histogram",
    "warren.bench.producer",
    "warren.bench.stream",
    "warren.bench.verify",
    "warren.flow.bucket",
    "warren.flow.credit",
    "warren.protocol.delay",
    "warren.protocol.frame",
    "warren.protocol.header",
    "warren.protocol.methods",
    "warren.protocol.output",
    "warren.protocol.properties",
    "warren.protocol.table",
    "warren.protocol.value",
    "warren.protocol.wire",
    "warren.queues.backlog",
    "warren.queues.calendar",
    "warren.queues.confirm",
    "warren.queues.consumer",
    "warren.queues.deduplication",
    "warren.queues.delay_store",
    "warren.queues.delayed",
    "warren.queues.gate",
    "warren.queues.history",
    "warren.queues.keeper",
    "warren.queues.level",
    "warren.queues.message",
    "warren.queues.outlet",
    "warren.queues.paging",
    "warren.queues.queue",
    "warren.queues.ref",
    "warren.queues.ruled",
    "warren.queues.rules",
    "warren.queues.storage",
    "warren.queues.stored",
    "warren.queues.timer",
    "warren.queues.turn",
    "warren.queues.unacked",
    "warren.queues.unused",
    "warren.routing.chance",
    "warren.routing.delayed",
    "warren.routing.digest",
    "warren.routing.direct",
    "warren.routing.exchange",
    "warren.routing.hash_tree",
    "warren.routing.hashing",
    "warren.routing.headers",
    "warren.routing.keeper",
    "warren.routing.kinds",
    "warren.routing.matcher",
    "warren.routing.node",
    "warren.routing.recent",
    "warren.routing.refusal",
    "warren.routing.table",
    "warren.routing.topic",
    "warren.server.hub",
    "warren.server.socket_link",
    "warren.session.access",
    "warren.session.basic_method",
    "warren.session.block_wait",
    "warren.session.channel",
    "warren.session.connection",
    "warren.session.dispatch",
    "warren.session.ending",
    "warren.session.exchange_method",
    "warren.session.frame_error",
    "warren.session.handshake",
    "warren.session.load",
    "warren.session.pace",
    "warren.session.parking",
    "warren.session.phase",
    "warren.session.piece",
    "warren.session.publish",
    "warren.session.queue_method",
    "warren.session.route",
    "warren.session.settle",
    "warren.session.tx_method",
    "warren.session.watch",
    "warren.store.body_commit",
    "warren.store.body_read",
    "warren.store.body_replay",
    "warren.store.body_store",
    "warren.store.checkpoint",
    "warren.store.compaction",
    "warren.store.index",
    "warren.store.index_segment",
    "warren.store.journal",
    "warren.store.keeping",
    "warren.store.owed",
    "warren.store.pages",
    "warren.store.readable",
    "warren.store.reading",
    "warren.store.record",
    "warren.store.replay",
    "warren.store.state",
    "warren.vhost.broker",
    "warren.vhost.dead_letter",
    "warren.vhost.delayed_exchange",
    "warren.vhost.exchange_memory",
    "warren.vhost.queue_argument",
    "warren.vhost.reply_address",
    "warren.vhost.throttle",
    "warren.vhost.vhost",
)

GROUP: Final = "warren"  # The shared library is warren__mypyc.
OPT_LEVEL: Final = "3"
# Each interpreter has its own folder: object files of one do not link into another.
BUILD_BASE: Final = f".cache/build/{sys.implementation.cache_tag}"
C_FOLDER: Final = f"{BUILD_BASE}/c"
BUILDING: Final = frozenset({"bdist", "bdist_wheel", "build", "build_ext", "develop", "install"})
# Calls between the files of the one library need no symbol lookup; nothing outside links to it.
EXTRA_FLAGS: Final = ("-fvisibility=hidden",)


def flag(name: str) -> bool:
    return os.environ.get(name, "") not in {"", "0"}


def source_path(module: str) -> Path:
    return ROOT / SOURCE / Path(*module.split(".")).with_suffix(".py")


def missing() -> list[str]:
    """Listed modules that have no source file."""
    return [module for module in COMPILED if not source_path(module).is_file()]


def extensions(arguments: Sequence[str]) -> list[Extension]:
    """Run mypyc over the list. What this returns is what setuptools hands to the C compiler.

    pip runs `setup.py` three times, twice of them only for metadata: then nothing is translated.
    """
    if flag("WARREN_PURE") or BUILDING.isdisjoint(arguments):
        return []
    absent = missing()
    if absent:
        refuse(f"no source file for {', '.join(absent)}")
    paths = [str(source_path(m).relative_to(ROOT)) for m in COMPILED if m not in absent]
    try:
        return translate(paths)
    except ImportError as error:
        refuse(f"mypyc is not installed ({error})")
    except SystemExit as error:  # mypyc prints the errors it found and leaves.
        refuse(f"mypyc found errors ({error})")
    return []


def translate(paths: Sequence[str]) -> list[Extension]:
    from mypyc.build import mypycify  # Not needed, and perhaps not there, for an interpreted build.

    built: list[Any] = mypycify(
        # The check is `make check`'s business; here only what stops the compiler is an error.
        ["--config-file=", f"--cache-dir={BUILD_BASE}/mypy", *paths],
        opt_level=OPT_LEVEL,
        debug_level="1" if flag("WARREN_DEBUG") else "0",
        multi_file=True,  # One C file per module bounds the C compiler's memory.
        separate=False,
        group_name=GROUP,
        target_dir=C_FOLDER,
    )
    if os.name == "posix":
        for extension in built:
            extension.extra_compile_args.extend(EXTRA_FLAGS)
    return built


def refuse(reason: str) -> None:
    """Fail the build when the compiled form is required, warn when it is not."""
    if flag("WARREN_REQUIRE_COMPILED"):
        sys.exit(f"warren: cannot compile: {reason}")
    print(f"warren: warning: not everything is compiled: {reason}", file=sys.stderr)


class BuildSources(build_py):
    """Copy the sources into an empty folder, with a note of what was meant to be compiled."""

    def run(self) -> None:
        # A module that was deleted or renamed must not live on in the next wheel.
        rmtree(self.build_lib, ignore_errors=True)
        super().run()
        note = Path(self.build_lib, "warren", "build.json")
        if note.parent.is_dir():
            modules = [] if flag("WARREN_PURE") else list(COMPILED)
            note.write_text(json.dumps({"modules": modules, "opt_level": OPT_LEVEL}) + "\n")


class BuildExtensions(build_ext):
    """Compile in parallel, object by object, and only what changed."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # Objects are compiled in parallel below; extensions one after the other.
        self.parallel = None

    def build_extensions(self) -> None:
        compiler: Any = self.compiler
        compiler.compile = ObjectCache(compiler, self.extensions)
        try:
            super().build_extensions()
        except BaseError as error:
            refuse(f"the C compiler failed ({error})")
            # Half a group is worse than none: the shims import the library.
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


class ObjectCache:
    """Stands in for the compiler's `compile`: only what changed is compiled, in parallel."""

    def __init__(self, compiler: Any, built: Sequence[Extension]) -> None:
        self._compile_one: Callable[..., list[str]] = compiler.compile
        self._object_names: Callable[..., list[str]] = compiler.object_filenames
        self._command = " ".join(getattr(compiler, "compiler_so", []))
        headers = sorted({path for extension in built for path in extension.depends})
        self._headers = b"".join(Path(path).read_bytes() for path in headers)
        self._jobs = int(os.environ.get("WARREN_BUILD_JOBS", "0")) or os.cpu_count() or 1

    def __call__(self, sources: Sequence[str], output_dir: str, **options: Any) -> list[str]:
        def compiled(source: str) -> str:
            (target,) = self._object_names([source], output_dir=output_dir)
            digest = self._digest(source, options)
            stamp = Path(f"{target}.digest")
            if not (Path(target).is_file() and stamp.is_file() and stamp.read_text() == digest):
                self._compile_one([source], output_dir=output_dir, **options)
                stamp.write_text(digest)
            return target

        # The largest file first, so that no processor is left with it at the end.
        ordered = sorted(sources, key=os.path.getsize, reverse=True)
        with ThreadPoolExecutor(self._jobs) as pool:
            return sorted(pool.map(compiled, ordered))

    def _digest(self, source: str, options: dict[str, Any]) -> str:
        # The include paths stay out: pip's isolated environment has another name each time. What
        # they hold comes with the interpreter and with mypy, whose versions are in.
        flags = [sys.version, version("mypy"), self._command]
        flags += options.get("extra_postargs") or []
        digest = hashlib.sha256("\0".join(flags).encode())
        digest.update(self._headers)
        digest.update(Path(source).read_bytes())
        return digest.hexdigest()


COMMANDS: Final[dict[str, Any]] = {
    "build_py": BuildSources,
    "build_ext": BuildExtensions,
}
