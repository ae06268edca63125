"""Print the requirements of the package (`run`) or of one of its extras, one per line, for pip."""

import sys
import tomllib
from pathlib import Path


def requirements(lists: dict[str, list[str]], name: str) -> list[str]:
    """Return one list, with references to other extras of the project resolved."""
    found: list[str] = []
    for line in lists[name]:
        if line.startswith("warren["):
            found += requirements(lists, line.removeprefix("warren[").rstrip("]"))
        else:
            found.append(line)
    return found


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    lists = {"run": project["dependencies"], **project["optional-dependencies"]}
    print("\n".join(requirements(lists, sys.argv[1])))


if __name__ == "__main__":
    main()
