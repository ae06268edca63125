"""Settings from their sources; later wins: defaults, files, the environment, the command line.

`load` reads all of them, reports every problem at once (`ConfigError`), and keeps notes of what it
passed over (`Settings.notes`). The files: the main one, those of the folder `conf.d` that
RABBITMQ_CONFIG_FILES names, and the advanced one (spec rules O-2.1, O-2.2).

RabbitMQ's own way with two kinds of keys is kept for files in its notations: a limit of memory or
disk that cannot be read is an error in the log and the default is used (MA-5); a key that it has
and Warren does not is a warning.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast, final

from warren.server.config import KEYS, RABBIT_NAMES, Settings
from warren.server.config_conflict import conflicts
from warren.server.config_entry import ConfigError, Entry, Note, Problem, nearest
from warren.server.config_file import read_file, read_folder
from warren.server.place import CONFIG_VARIABLES, FURTHER_VARIABLES, default_data_dir
from warren.server.rabbit_key import gather, translate
from warren.server.rabbit_known import known, refusal

ENV_PREFIX: Final = "WARREN_"
# Variables with our prefix that are no settings.
_ENV_FOREIGN: Final = re.compile(
    r"WARREN_(PURE|REQUIRE_COMPILED|CONFIG|DEBUG|(BUILD|BENCH|TEST|SIM)_.*"
    # What Kubernetes sets in every pod for a service called "warren".
    r"|SERVICE_(HOST|PORT).*|PORT_[0-9]+_(TCP|UDP).*)\Z"
)
# Two settings for one limit: the first of a pair wins where one source gives both.
_PAIRS: Final = (
    ("vm_memory_high_watermark", "vm_memory_high_watermark_absolute"),
    ("disk_free_limit_relative", "disk_free_limit"),
)
# RabbitMQ starts with the default when it cannot read these.
_LENIENT: Final = frozenset(
    {*(name for pair in _PAIRS for name in pair), "vm_memory_calculation_strategy"}
)


def load(
    *,
    file: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    options: Sequence[Entry] = (),
) -> Settings:
    """Read all sources and return checked settings, or raise `ConfigError` with every problem.

    `file` wins over the variables that name one; `options` come from the command line.
    """
    env = os.environ if env is None else env
    reading = _Reading(env)
    for source in (*_from_files(file, env, reading.problems), _from_environment(env), options):
        reading.source(source)
    return reading.settings()


def _from_files(
    file: str | Path | None, env: Mapping[str, str], problems: list[Problem]
) -> list[list[Entry]]:
    """Return the sources that are files."""
    named = file or next((env[name] for name in CONFIG_VARIABLES if env.get(name)), None)
    main = [] if named is None else read_file(Path(named), problems)
    further, advanced = (env.get(name) for name in FURTHER_VARIABLES)
    if further and file is None and not env.get(CONFIG_VARIABLES[0]):
        main += read_folder(Path(further), problems)
        # Of a key that comes again, the later one counts, as within one file.
        main = list({one.name: one for one in main}.values())
    sources = [main]
    if advanced:
        sources.append(read_file(Path(advanced), problems, suffix=".config"))
    return sources


def _from_environment(env: Mapping[str, str]) -> list[Entry]:
    entries = []
    for name, value in sorted(env.items()):
        if not name.startswith(ENV_PREFIX) or _ENV_FOREIGN.match(name):
            continue
        # Kubernetes again: WARREN_PORT=tcp://10.0.0.1:5672 is its service link, not our port.
        if name == "WARREN_PORT" and value.startswith(("tcp://", "udp://")):
            continue
        entries.append(Entry(name.removeprefix(ENV_PREFIX).lower(), value, name))
    return entries


@final
class _Reading:
    """What the sources have given so far."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.given: dict[str, object] = {"data_dir": default_data_dir(env)}
        self.origins: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.notes: list[Note] = []
        self.defaults = Settings()

    def settings(self) -> Settings:
        origins = MappingProxyType(self.origins)
        made = Settings(**self.given, origins=origins, notes=tuple(self.notes))  # type: ignore[arg-type]
        problems = self.problems or conflicts(made)
        if problems:
            raise ConfigError(problems)
        return made

    def source(self, entries: Sequence[Entry]) -> None:
        """Take in one source; of an earlier one stays what this one says nothing about."""
        named = {
            name
            for name in [self._apply(one) for one in gather(entries, self.problems)]
            if name is not None and self.given[name] is not None
        }
        for first, second in _PAIRS:
            if first in named and second in named:
                reason = f"has no effect beside {first}"
                self.notes.append(Note("warning", self.origins[second], second, reason))
            for name, other in ((first, second), (second, first)):
                if name in named:
                    self.given.pop(other, None)
                    self.origins.pop(other, None)
                    break

    def _apply(self, entry: Entry) -> str | None:
        """Give one entry's setting its value and return its name, or note why not."""
        try:
            name, value = _read(entry, self._current)
        except KeyError:
            self._unknown(entry)
            return None
        except ValueError as refused:
            self._unreadable(entry, str(refused))
            return None
        self.given[name] = value
        self.origins[name] = entry.where
        return name

    def _current(self, name: str) -> object:
        if name in self.given:
            return self.given[name]
        return cast("object", getattr(self.defaults, name))

    def _unreadable(self, entry: Entry, reason: str) -> None:
        if entry.rabbit and _named(entry) in _LENIENT:
            reason += "; the default is used"
            self.notes.append(Note("error", entry.where, entry.name, reason))
        else:
            self.problems.append(Problem(entry.where, entry.name, reason, ""))

    def _unknown(self, entry: Entry) -> None:
        if known(entry.name):
            reason = refusal(entry)
            if reason:
                self.problems.append(Problem(entry.where, entry.name, reason, ""))
                return
            reason = "a RabbitMQ setting without effect in Warren"
            self.notes.append(Note("warning", entry.where, entry.name, reason))
            return
        near = nearest(entry.name, [*KEYS, *RABBIT_NAMES])
        self.problems.append(Problem(entry.where, entry.name, "unknown setting", near))


def _named(entry: Entry) -> str:
    """Return the setting that an entry's name means, if it is one of its plain names."""
    plain = entry.name.replace("-", "_")
    return RABBIT_NAMES.get(plain) or (plain if plain in KEYS else plain.replace(".", "_"))


def _read(entry: Entry, current: Callable[[str], object]) -> tuple[str, object]:
    """Return (setting, value) for an entry under any of its names; KeyError: there is none."""
    key = _named(entry)
    if key in KEYS:
        return key, _located(KEYS[key].kind.read(entry.value, entry.typed), entry)
    head, _, part = entry.name.partition(".")
    read_part = KEYS[head].kind.read_part if part and head in KEYS else None
    if read_part is not None:
        return head, read_part(current(head), part, entry.value, entry.typed)
    return translate(entry, current)


def _located(value: object, entry: Entry) -> object:
    """A relative path in a file is relative to that file."""
    if isinstance(value, Path) and not value.is_absolute():
        return (entry.folder or Path.cwd()) / value
    return value
