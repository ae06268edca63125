"""What must hold before any test is worth running: format, lint, types, layers, tidiness.

Runs every check even when an earlier one failed, prints only what failed, and says how long each
took. All of them read the sources, not the installed package.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LINT_IMPORTS: Final = "from importlinter.cli import lint_imports_command as run; run()"
CHECKS: Final[dict[str, Sequence[str]]] = {
    "types": ("-m", "mypy"),
    "layers": ("-c", LINT_IMPORTS),
    "format": ("-m", "ruff", "format", "--check", "."),
    "lint": ("-m", "ruff", "check", "."),
    "tidy": ("tools/tidy.py",),
}


def check(name: str) -> bool:
    """Run one check in its own process and report on it in one piece."""
    start = monotonic()
    done = subprocess.run(
        [sys.executable, *CHECKS[name]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    passed = done.returncode == 0
    output = "" if passed else done.stdout.rstrip() + "\n"
    verdict = "ok" if passed else "FAILED"
    print(f"{output}check {name}: {verdict}, {monotonic() - start:.1f} s", flush=True)
    return passed


def main() -> int:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return 0 if all(list(pool.map(check, CHECKS))) else 1


if __name__ == "__main__":
    sys.exit(main())
