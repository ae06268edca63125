"""Write `docs/internals/rules.md`: which rule is pinned down by which test.

Run as `python -m tools.gen_rules`; with `--check` it only compares and exits 1 on a difference.
"""

import sys
from typing import Final

from tests import rules

TARGET: Final = rules.ROOT / "docs" / "internals" / "rules.md"


def main(arguments: list[str]) -> int:
    text = rules.page(rules.read())
    if "--check" in arguments:
        return 0 if TARGET.exists() and TARGET.read_text() == text else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
