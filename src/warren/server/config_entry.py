"""What passes between the sources of configuration and the table of settings: entries, problems."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One `name = value` as a source gave it, and where it stands.

    `typed`: the value has its type already, and is not text. `rabbit`: the source is a file in one
    of RabbitMQ's notations.
    """

    name: str
    value: object
    where: str
    typed: bool = False
    folder: Path | None = None
    rabbit: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """What was not taken as it was given, without being a reason to refuse the rest.

    `level` is that of the log line which tells it.
    """

    level: str
    where: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an entry was refused: where it stands, its key, the reason, the nearest known key."""

    where: str
    key: str
    reason: str
    near: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.key}" if self.key else self.where
        hint = f"; did you mean {self.near}?" if self.near else ""
        return f"{place}: {self.reason}{hint}"


class ConfigError(Exception):
    """The configuration was refused; holds every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(one) for one in problems))
        self.problems = tuple(problems)


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name most like this one, or nothing when none is close."""
    plain = name.lower().replace("-", "_")
    return next(iter(difflib.get_close_matches(plain, list(known), n=1, cutoff=cutoff)), "")
