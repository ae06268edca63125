"""The whole suite: the checks, then the tests on the compiled form, then on the interpreted one.

With arguments, only pytest on the compiled package, with these arguments. The last line printed
sums the runs up; the exit code is 0 only if everything held. Needs the package installed in the
environment of the interpreter that runs this: see `./test`.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).parent.parent
REPORTS: Final = ROOT / ".cache" / "suite"
COMPILED: Final = {"WARREN_REQUIRE_COMPILED": "1"}
INTERPRETED: Final = {"WARREN_PURE": "1"}
# pytest: something ran, and nothing failed.
PASSED: Final = 0


@dataclass(slots=True, frozen=True)
class Outcome:
    """What one run of pytest came to."""

    code: int
    passed: int
    failed: int
    skipped: int


def pytest(name: str, arguments: Sequence[str], *, switches: dict[str, str]) -> Outcome:
    """Run pytest on the installed package, in the form that the switches choose."""
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    # A PYTHONPATH would put the sources before the installed package.
    inherited = {"PYTHONPATH", *COMPILED, *INTERPRETED}
    env = {key: value for key, value in os.environ.items() if key not in inherited}
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
    print(f"suite: {name}", flush=True)
    code = subprocess.run(command, cwd=ROOT, env=env | switches, check=False).returncode
    return outcome(code, report)


def outcome(code: int, report: Path) -> Outcome:
    """Read the counts from the report; a run that died before it wrote one counts as a failure."""
    if not report.is_file():
        return Outcome(code, passed=0, failed=0 if code == PASSED else 1, skipped=0)
    suite = ET.parse(report).getroot().find("testsuite")
    count = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    if suite is not None:
        count = {key: int(suite.get(key, "0")) for key in count}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    return Outcome(code, passed=passed, failed=failed, skipped=count["skipped"])


def main(arguments: Sequence[str]) -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    if arguments:
        return pytest("compiled", arguments, switches=COMPILED).code
    checks = subprocess.run([sys.executable, "tools/check.py"], cwd=ROOT, check=False).returncode
    runs = [
        pytest("compiled", (), switches=COMPILED),
        pytest("interpreted", ("-m", "not compiled"), switches=INTERPRETED),
    ]
    if checks:
        print("suite: make check failed, see above")
    print(
        f"{sum(run.passed for run in runs)} passed, "
        f"{sum(run.failed for run in runs)} failed, "
        f"{sum(run.skipped for run in runs)} skipped",
        flush=True,
    )
    return 0 if checks == 0 and all(run.code == PASSED for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
