"""`warren doctor`: look at the metadata of a node that does not start, save what can be read."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from warren.cli.exit import CONFIG, FAILED, OK, CliError
from warren.runtime.lock import FileLock, LockHeldError
from warren.server.metadata_check import Examination, examine, repair
from warren.server.metadata_file import FILE_NAME, MetadataError
from warren.server.place import default_data_dir, names_a_file


def doctor(words: Sequence[str]) -> int:
    """Check the metadata file: exit code 0 when it is sound or was repaired, 1 when it is not."""
    given = _parser().parse_args(words)
    folder = data_dir(given, os.environ)
    path = folder / FILE_NAME
    if not path.exists():
        print(f"{path}: there is no metadata; a node that is started there begins blank")
        return OK
    try:
        if given.repair:
            return _repair(folder, path)
        return _tell(path, examine(path))
    except MetadataError as refusal:
        raise CliError(str(refusal), CONFIG) from None


def _parser() -> ArgumentParser:
    made = ArgumentParser(
        prog="warren doctor",
        description="Check the metadata of a node: structure, checksums, references. Without "
        "--repair nothing is changed, and the node may be running.",
        allow_abbrev=False,
    )
    made.add_argument("--data-dir", metavar="DIR", help="data folder of the node")
    made.add_argument("--config", metavar="FILE", help="configuration file of the node")
    made.add_argument(
        "--repair",
        action="store_true",
        help="write what can be read to a new file and keep the old one beside it; the node must "
        "not run",
    )
    return made


def data_dir(given: Namespace, env: Mapping[str, str]) -> Path:
    """Return the data folder that the options and the environment name."""
    if given.data_dir:
        return Path(given.data_dir)
    if given.config or names_a_file(env):
        from warren.server.config_entry import ConfigError
        from warren.server.config_load import load

        try:
            return load(file=given.config, env=env).data_dir
        except ConfigError as refusal:
            raise CliError(f"configuration refused:\n{refusal}", CONFIG) from None
    named = env.get("WARREN_DATA_DIR")
    return Path(named) if named else default_data_dir(env)


def _tell(path: Path, found: Examination) -> int:
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    print(f"{path}: {counts or 'nothing in it'}")
    if not found.problems:
        print("sound")
        return OK
    print(f"{len(found.problems)} problems:")
    for problem in found.problems:
        print(f"  {problem}")
    print("`warren doctor --repair` keeps what can be read, and the old file beside it")
    return FAILED


def _repair(folder: Path, path: Path) -> int:
    try:
        lock = FileLock(folder / "warren.lock")
    except LockHeldError as refusal:
        raise CliError(f"not repaired: {refusal}; stop the node first", FAILED) from None
    try:
        found = examine(path)
        if not found.problems:
            _tell(path, found)
            return OK
        old = repair(path, found, stamp=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    finally:
        lock.release()
    print(f"{path}: written anew with {len(found.changes)} objects")
    print(f"the old file is {old}")
    print("lost, or not kept:")
    for problem in found.problems:
        print(f"  {problem}")
    return OK
