"""A disk that forgets: `warren.core.seam.Files` in memory, with everything a crash may do to it.

A file has what is *on the disk* and what is in the *cache*: reading sees the cache, `sync` brings
what was written onto the disk. A folder likewise: that a name is there, or is not, is on the disk
after `sync_folder`. `after_power_cut` is the disk as the next start finds it:

- of what was written and not synced any sectors of 512 octets are there, in any combination, or
  the file is as long as it would be and has zeros there;
- of the names that came or went and were not synced any are as they were before, but what happened
  to one name happened in order, and a rename happens to both of its names or to none;
- what is below a folder whose own name is not there is lost.

`after_kill` is the disk when only the process died: the cache is still there, and not yet synced.

`fail` is asked before each call and may answer with an error: a write that fails leaves a part of
its octets, a sync that fails leaves any of them on the disk and *forgets* the rest: the cache still
shows them, and no later sync writes them. That is what Linux does.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, final

SECTOR: Final = 512
MISSING: Final = errno.ENOENT


@final
class File:
    def __init__(self) -> None:
        self.disk = b""
        # None: the same as on the disk.
        self.cache: bytearray | None = None
        # Offset and octets of a write; octets of None: cut to the offset.
        self.pending: list[tuple[int, bytes | None]] = []

    def seen(self) -> bytes | bytearray:
        return self.disk if self.cache is None else self.cache

    def change(self, offset: int, data: bytes | None) -> None:
        if self.cache is None:
            self.cache = bytearray(self.disk)
        _apply(self.cache, offset, data)
        self.pending.append((offset, data))

    def sync(self) -> None:
        if self.pending:
            # What an earlier sync forgot is not on the disk, however well the cache shows it.
            disk = bytearray(self.disk)
            for offset, data in self.pending:
                _apply(disk, offset, data)
            self.disk = bytes(disk)
            self.pending = []
            if self.cache == disk:
                self.cache = None

    def torn(self, random: Random) -> bytes:
        """What may be on the disk when the power is cut now."""
        if not self.pending:
            return self.disk
        disk = bytearray(self.disk)
        whole = random.random()
        for offset, data in self.pending:
            if data is None:
                if random.random() < 0.5:
                    _apply(disk, offset, None)
                continue
            chance = random.choice((0.0, 1.0, 0.5, 0.9, 0.1)) if whole > 0.2 else float(whole > 0.1)
            end = offset + len(data)
            prefix = random.randrange(offset, end + 1) if random.random() < 0.2 else -1
            at = offset
            while at < end:
                until = min(end, (at // SECTOR + 1) * SECTOR)
                if until <= prefix if prefix >= 0 else random.random() < chance:
                    _apply(disk, at, data[at - offset : until - offset])
                at = until
            if len(disk) < end and random.random() < 0.3:
                disk.extend(bytes(random.randrange(len(disk), end + 1) - len(disk)))
        return bytes(disk)


@final
class Folder:
    def __init__(self) -> None:
        self.disk: dict[str, File | Folder] = {}
        self.entries: dict[str, File | Folder] = {}


# One change of names: the folder, the name, and what has it now.
Change = tuple[Folder, str, "File | Folder | None"]


def _apply(image: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del image[offset:]
        image.extend(bytes(offset - len(image)))
        return
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _no_failure(call: str, path: str) -> OSError | None:
    return None


@final
class SimFiles:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.root = Folder()
        self.names_pending: list[list[Change]] = []
        self.handles: dict[int, tuple[str, File]] = {}
        self.next_handle = 3
        # Called before each call: where other threads go on, and where a crash may be.
        self.gate: Callable[[str, str], None] | None = None
        self.fail: Callable[[str, str], OSError | None] = _no_failure
        self.calls = 0

    # -- crashes ---------------------------------------------------------------------------------

    def after_power_cut(self, random: Random) -> "SimFiles":
        after = SimFiles(random)
        kept: list[list[Change]] = []
        undone: set[tuple[int, str]] = set()
        chance = random.choice((0.0, 1.0, 0.5, 0.8))
        for changes in self.names_pending:
            places = {(id(folder), name) for folder, name, _ in changes}
            if places & undone or random.random() >= chance:
                undone |= places
            else:
                kept.append(changes)
        held: dict[int, dict[str, File | Folder | None]] = {}
        for changes in kept:
            for folder, name, node in changes:
                held.setdefault(id(folder), {})[name] = node
        copies: dict[int, File] = {}

        def copy(folder: Folder) -> Folder:
            result = Folder()
            entries: dict[str, File | Folder | None] = dict(folder.disk)
            entries.update(held.get(id(folder), {}))
            for name, node in entries.items():
                if isinstance(node, Folder):
                    result.disk[name] = copy(node)
                elif node is not None:
                    if id(node) not in copies:
                        copies[id(node)] = File()
                        copies[id(node)].disk = node.torn(random)
                    result.disk[name] = copies[id(node)]
            result.entries = dict(result.disk)
            return result

        after.root = copy(self.root)
        return after

    def after_kill(self, random: Random) -> "SimFiles":
        after = SimFiles(random)
        copies: dict[int, File | Folder] = {}

        def copy(node: "File | Folder | None") -> "File | Folder | None":
            if node is None or id(node) in copies:
                return None if node is None else copies[id(node)]
            if isinstance(node, File):
                file = File()
                file.disk = node.disk
                # What a failed sync forgot is seen until the cache lets go of it.
                forgot = node.cache is not None and not node.pending
                if node.cache is not None and not (forgot and random.random() < 0.5):
                    file.cache = bytearray(node.cache)
                    file.pending = list(node.pending)
                copies[id(node)] = file
                return file
            folder = Folder()
            copies[id(node)] = folder
            for entries, others in ((node.disk, folder.disk), (node.entries, folder.entries)):
                for name, entry in entries.items():
                    other = copy(entry)
                    assert other is not None
                    others[name] = other
            return folder

        root = copy(self.root)
        assert isinstance(root, Folder)
        after.root = root
        for changes in self.names_pending:
            others: list[Change] = []
            for folder, name, node in changes:
                place = copy(folder)
                assert isinstance(place, Folder)
                others.append((place, name, copy(node)))
            after.names_pending.append(others)
        return after

    def paths(self) -> dict[str, File]:
        """All files that have a name now."""
        found: dict[str, File] = {}

        def walk(folder: Folder, prefix: str) -> None:
            for name, node in sorted(folder.entries.items()):
                if isinstance(node, Folder):
                    walk(node, f"{prefix}{name}/")
                else:
                    found[prefix + name] = node

        walk(self.root, "")
        return found

    # -- the seam --------------------------------------------------------------------------------

    def _begin(self, call: str, path: str) -> None:
        if self.gate is not None:
            self.gate(call, path)
        self.calls += 1
        if call in ("write", "sync"):
            return
        error = self.fail(call, path)
        if error is not None:
            raise error

    def _folder(self, path: str) -> Folder:
        folder = self.root
        for name in path.split("/"):
            if name in ("", "."):
                continue
            node = folder.entries.get(name)
            if node is None:
                raise FileNotFoundError(MISSING, "no such folder", path)
            if not isinstance(node, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "no folder", path)
            folder = node
        return folder

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name

    def _file(self, path: str) -> File:
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            raise FileNotFoundError(MISSING, "no such file", path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        return node

    def _name(self, *changes: Change) -> None:
        for folder, name, node in changes:
            if node is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = node
        self.names_pending.append(list(changes))

    def _handle(self, path: str, file: File) -> int:
        handle = self.next_handle
        self.next_handle += 1
        self.handles[handle] = path, file
        return handle

    def create(self, path: str) -> int:
        self._begin("create", path)
        folder, name = self._parent(path)
        if name in folder.entries:
            file = self._file(path)
            if file.seen():
                file.change(0, None)
        else:
            file = File()
            self._name((folder, name, file))
        return self._handle(path, file)

    def open(self, path: str) -> int:
        self._begin("open", path)
        return self._handle(path, self._file(path))

    def _of(self, call: str, handle: int) -> tuple[str, File]:
        path, file = self.handles.get(handle, ("", None))
        if file is None:
            raise OSError(errno.EBADF, "no such handle")
        self._begin(call, path)
        return path, file

    def close(self, handle: int) -> None:
        self._of("close", handle)
        del self.handles[handle]

    def write(self, handle: int, offset: int, parts: Sequence[bytes]) -> None:
        path, file = self._of("write", handle)
        data = b"".join(parts)
        error = self.fail("write", path)
        if error is not None:
            part = data[: self.random.randrange(len(data) + 1)]
            if part:
                file.change(offset, part)
            raise error
        if data:
            file.change(offset, data)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        _, file = self._of("read", handle)
        return bytes(file.seen()[offset : offset + size])

    def sync(self, handle: int) -> None:
        path, file = self._of("sync", handle)
        error = self.fail("sync", path)
        if error is not None:
            file.disk = file.torn(self.random)
            file.pending = []
            raise error
        file.sync()

    def size(self, handle: int) -> int:
        _, file = self._of("size", handle)
        return len(file.seen())

    def truncate(self, handle: int, size: int) -> None:
        _, file = self._of("truncate", handle)
        file.change(size, None)

    def rename(self, old: str, new: str) -> None:
        self._begin("rename", old)
        file = self._file(old)
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        self._name((source, old_name, None), (target, new_name, file))

    def remove(self, path: str) -> None:
        self._begin("remove", path)
        try:
            self._file(path)
        except FileNotFoundError:
            return
        folder, name = self._parent(path)
        self._name((folder, name, None))

    def make_folder(self, path: str) -> None:
        self._begin("make_folder", path)
        folder, name = self._parent(path)
        if name not in folder.entries:
            self._name((folder, name, Folder()))

    def remove_folder(self, path: str) -> None:
        self._begin("remove_folder", path)
        try:
            folder = self._folder(path)
        except FileNotFoundError:
            return
        for name, node in sorted(folder.entries.items()):
            if isinstance(node, Folder):
                self.remove_folder(f"{path}/{name}")
            else:
                self._name((folder, name, None))
        parent, name = self._parent(path)
        self._name((parent, name, None))

    def sync_folder(self, path: str) -> None:
        self._begin("sync_folder", path)
        folder = self._folder(path)
        left: list[list[Change]] = []
        for changes in self.names_pending:
            if all(place is not folder for place, _, _ in changes):
                left.append(changes)
            else:
                _keep(changes)
        self.names_pending = left

    def sync_all(self) -> None:
        self._begin("sync_all", "")
        for changes in self.names_pending:
            _keep(changes)
        self.names_pending = []

        def walk(folder: Folder) -> None:
            for node in folder.entries.values():
                if isinstance(node, Folder):
                    walk(node)
                else:
                    node.sync()

        walk(self.root)

    def names(self, path: str) -> list[str]:
        self._begin("names", path)
        try:
            return sorted(self._folder(path).entries)
        except FileNotFoundError:
            return []


def _keep(changes: list[Change]) -> None:
    for folder, name, node in changes:
        if node is None:
            folder.disk.pop(name, None)
        else:
            folder.disk[name] = node
