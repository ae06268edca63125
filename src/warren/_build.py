"""What was compiled when the package was built, and which form of each module is loaded.

Owns the note `build.json` that the build leaves beside this file; a source checkout has none, and
then no module is compiled. `warren diag` prints `forms()`; `require_compiled()` is behind
`WARREN_REQUIRE_COMPILED=1`.
"""

import json
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent


def compiled_modules() -> tuple[str, ...]:
    """Return the modules the build was told to compile; empty for a source checkout."""
    try:
        note = json.loads((_PACKAGE / "build.json").read_text())
    except FileNotFoundError:
        return ()
    return tuple(note["modules"])


def is_compiled(module: str) -> bool:
    """Whether the loaded module is native code or, if it is not loaded, whether it would be."""
    loaded = sys.modules.get(module)
    if loaded is not None and loaded.__spec__ is not None:
        return isinstance(loaded.__spec__.loader, ExtensionFileLoader)
    stem = _PACKAGE.joinpath(*module.split(".")[1:])
    return not _pure_hook_installed() and any(
        stem.with_name(stem.name + suffix).is_file() for suffix in EXTENSION_SUFFIXES
    )


def forms() -> dict[str, bool]:
    """Return each listed module with whether it is compiled, in the order of the list."""
    return {module: is_compiled(module) for module in compiled_modules()}


def require_compiled() -> None:
    """Refuse to run when a listed module is not native code, or when nothing was compiled."""
    found = forms()
    if not found:
        raise ImportError("WARREN_REQUIRE_COMPILED is set, but this build compiled no module")
    interpreted = [module for module, compiled in found.items() if not compiled]
    if interpreted:
        raise ImportError(
            f"WARREN_REQUIRE_COMPILED is set, but not compiled: {', '.join(interpreted)}"
        )


def _pure_hook_installed() -> bool:
    return any(type(finder).__module__ == "warren._pure" for finder in sys.meta_path)
