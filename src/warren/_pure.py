"""Load the `.py` sources of this package although compiled twins lie beside them.

Owns the import hook behind `WARREN_PURE=1`. Invariant: it is installed before the first submodule
of `warren` is imported, so one process never mixes the two forms.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

_PREFIX = "warren."


class SourceFinder:
    """Finds modules of the package as source files, never as extension modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith(_PREFIX):
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def install() -> None:
    """Put the finder first. Installing it twice changes nothing."""
    if not any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceFinder())
