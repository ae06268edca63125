"""Definitions that are imported at each start, before anybody connects (O-7.3).

`load_definitions` names a JSON file, or a folder of which every `*.json` is taken in the order of
the names. Each file is one import: true as a whole or not at all. What cannot be imported stops the
start: a node without its users and queues serves nobody.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from warren.server.control import ControlError
from warren.server.importing import Importer
from warren.vhost.change import Change
from warren.vhost.definition import DefinitionError, read

if TYPE_CHECKING:
    from warren.server.node import Node

# Ten times what the largest documents in the field have.
FILE_OCTETS_MAX: Final = 1 << 30


class BootDefinitionsError(Exception):
    """Definitions that the configuration names cannot be imported."""


async def load_definitions(node: "Node", place: Path) -> None:
    """Import a file, or the files of a folder."""
    importer = Importer(node)
    for file in _files(place):
        changes = _changes(file)
        try:
            number = importer.begin()
            importer.add(number, changes)
            await importer.apply(number)
        except ControlError as refusal:
            raise BootDefinitionsError(f"{file}: {refusal}") from None


def _files(place: Path) -> list[Path]:
    return sorted(place.glob("*.json")) if place.is_dir() else [place]


def _changes(file: Path) -> tuple[Change, ...]:
    """Return what a file says."""
    try:
        if file.stat().st_size > FILE_OCTETS_MAX:
            raise BootDefinitionsError(f"{file}: is larger than {FILE_OCTETS_MAX} bytes")
        return tuple(read(msgspec.json.decode(file.read_bytes(), type=dict[str, object])))
    except OSError as failure:
        raise BootDefinitionsError(f"{file}: {failure.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as failure:
        raise BootDefinitionsError(f"{file}: is no JSON object: {failure}") from None
    except DefinitionError as refusal:
        raise BootDefinitionsError(f"{file}: {refusal}") from None
