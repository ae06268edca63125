"""The documents of the tree as tests read them: titles, fenced blocks, links, tables."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Written by `make bench`; a tree without measurements does not have them.
MEASURED: Final = ("docs/benchmarks.md", "docs/benchmarks.svg")
_FENCE: Final = re.compile(r"```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: the word behind its fence, and its text."""

    kind: str
    text: str


@dataclass(frozen=True)
class Document:
    path: str
    text: str

    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self, kind: str | None = None) -> list[Block]:
        found = [Block(match[1], match[2]) for match in _FENCE.finditer(self.text)]
        return [block for block in found if kind is None or block.kind == kind]

    def titles(self, mark: str = "#") -> list[str]:
        return re.findall(rf"^{mark} (.+)$", self.prose(), re.MULTILINE)

    def anchors(self) -> set[str]:
        """What a link may name behind `#`."""
        headings = re.findall(r"^#+ (.+)$", self.prose(), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}

    def links(self) -> list[str]:
        return [one for one in _LINK.findall(self.prose()) if not re.match(r"\w+:", one)]

    def code(self) -> list[str]:
        """What stands between single backticks."""
        return re.findall(r"`([^`\n]+)`", self.prose())

    def rows(self, heading: str) -> list[list[str]]:
        """The cells of the table whose first column is headed so; without heading and rule."""
        lines = self.text.splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |"))
        rows = []
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        return rows


def document(path: str) -> Document:
    return Document(path, (ROOT / path).read_text())


def document_paths() -> list[str]:
    top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
    return top + sorted(str(one.relative_to(ROOT)) for one in (ROOT / "docs").rglob("*.md"))
