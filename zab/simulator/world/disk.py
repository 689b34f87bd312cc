"""A disk in memory that keeps only what it must: `datatree.log.disk.Disk` for simulated members and for tests.

It models a POSIX file system at its least helpful:

- An unsynced write may survive or not, sector by sector (512 bytes, each atomic), in any order; a file that grew may
  have any length in between, and lost sectors read as their old content, or zeros.
- A name that was created, renamed or removed survives only after `sync_directory`; until then any subset of such
  changes may.
- After a failed sync, the dirty sectors count as clean: they can be read, but no later sync writes them.
- A full disk takes the part of a write that fits, and refuses the rest.

`crash(rng)` is a power cut: it decides all of that with the given `random.Random`, so one seed gives one outcome.
`kill` ends only the process: its writes can still be read, durable or not.
`fail_after(n)` makes the n-th operation from now fail with an `OSError` after it took effect without durability;
`crash_after(n)` makes it raise `PowerLossError` there, and every one after it, until `crash` is called. An operation is
one system call: `replace` is four (write, sync, rename, directory sync). Reads are not counted.
"""

import errno
from collections import deque
from collections.abc import Callable, Mapping
from random import Random

from attrs import define, field

SECTOR_BYTES = 512
CAPACITY_BYTES = 1 << 40

_TEXTS = {
    errno.EIO: "Input/output error",
    errno.ENOSPC: "No space left on device",
    errno.ENOENT: "No such file or directory",
    errno.EEXIST: "File exists",
}


def _error(number: int, path: str) -> OSError:
    return OSError(number, _TEXTS.get(number, "error"), path)


def _name_and_place(path: str) -> tuple[str, str]:
    """The name of a file, and the directory that it is in."""
    directory, _, name = path.rpartition("/")
    return name, directory


class PowerLossError(Exception):
    """The power is lost at this operation; call `crash` to get what is left."""


@define(eq=False)
class _Inode:
    """The current content of a file, and how to get back to the durable content."""

    number: int
    data: bytearray = field(factory=bytearray)
    durable_bytes: int = 0
    undo: dict[int, bytes] = field(factory=dict)
    """Sector → durable content, for each sector that a sync would write; empty if it had none."""
    lost: dict[int, bytes] = field(factory=dict)
    """Sector → durable content, for each sector that no sync will write."""
    cut: int | None = None
    """A truncation whose sync failed."""

    def dirty(self, start: int, end: int) -> None:
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            if sector in self.lost:
                self.undo[sector] = self.lost.pop(sector)
            elif sector not in self.undo:
                at = sector * SECTOR_BYTES
                self.undo[sector] = bytes(self.data[at : min(at + SECTOR_BYTES, self.durable_bytes)])

    def put(self, start: int, data: bytes) -> None:
        if start > len(self.data):
            self.data.extend(bytes(start - len(self.data)))
        self.data[start : start + len(data)] = data

    def clean(self) -> None:
        self.undo.clear()
        self.cut = None
        self.durable_bytes = len(self.data)

    def clean_range(self, start: int, end: int) -> None:
        """Make durable what one write with RWF_DSYNC does: its own sectors, and the length of the file up to its
        end."""
        if not self.undo and not self.lost:
            self.durable_bytes = max(self.durable_bytes, end)
            return
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            self.undo.pop(sector, None)
            self.lost.pop(sector, None)
        self.durable_bytes = max(self.durable_bytes, end)

    def settle(self, rng: Random) -> None:
        """Take the state after a power cut."""
        survival = rng.choice((0.0, 0.5, 1.0))
        size = len(self.data)
        if size > self.durable_bytes:
            size = rng.choice((self.durable_bytes, size, rng.randint(self.durable_bytes, size)))
        for sector, content in [*sorted(self.undo.items()), *sorted(self.lost.items())]:
            if sector in self.undo and rng.random() < survival:
                continue
            at = sector * SECTOR_BYTES
            width = min(SECTOR_BYTES, max(len(self.data) - at, 0))
            self.data[at : at + width] = content[:width].ljust(width, b"\0")
        if self.cut is not None and rng.random() < 0.5:
            size = min(size, self.cut)
        del self.data[size:]
        self.undo.clear()
        self.lost.clear()
        self.cut = None
        self.durable_bytes = len(self.data)


@define(eq=False)
class _Change:
    """A change of names that no directory sync has covered: `new` is `inode` now, and `old` is gone.

    Without an inode it is a rename of a file, or of a directory, of which both names end with a slash."""

    old: str | None
    new: str | None
    inode: _Inode | None
    unsynced: set[str] = field(init=False)
    """The directories of the change that were not synced since: one, or two if the file moved between directories."""

    def __attrs_post_init__(self) -> None:
        self.unsynced = {_name_and_place(path.rstrip("/"))[1] for path in (self.old, self.new) if path is not None}

    def apply(self, names: dict[str, _Inode]) -> None:
        inode = self.inode
        if self.old is not None and self.old.endswith("/"):
            for path in [path for path in names if path.startswith(self.old)]:
                names[self.moved(path)] = names.pop(path)
            return
        if self.old is not None:
            inode = names.pop(self.old, None)
        if self.new is not None and inode is not None:
            names[self.new] = inode

    def follow(self, rename: "_Change") -> None:
        """Happen in a directory that was renamed durably since."""
        self.old = None if self.old is None else rename.moved(self.old)
        self.new = None if self.new is None else rename.moved(self.new)
        self.unsynced = {rename.moved(f"{directory}/")[:-1] for directory in self.unsynced}

    def moved(self, path: str) -> str:
        """The path of a file after this rename of a directory."""
        assert self.old is not None
        assert self.new is not None
        return self.new + path[len(self.old) :] if path.startswith(self.old) else path


class FaultyFile:
    """A file of a `FaultyDisk`, open for appending."""

    def __init__(self, disk: "FaultyDisk", path: str, inode: _Inode, offset: int) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._generation = disk.generation
        self.size = offset

    def _alive(self) -> None:
        assert self._generation == self._disk.generation, "this file was opened before the crash"

    def write(self, data: bytes) -> None:
        self._alive()
        self._disk.write_at(self._inode, self._path, self.size, data)
        self.size += len(data)

    def write_durable(self, data: bytes, then: Callable[[], None] | None = None) -> None:
        self._alive()
        self._disk.write_at(self._inode, self._path, self.size, data, durable=True)
        self.size += len(data)
        if then is not None:
            then()

    def sync(self) -> None:
        self._alive()
        self._disk.sync_inode(self._inode, self._path)

    def close(self) -> None:
        if self._generation == self._disk.generation and len(self._inode.data) > self.size:
            self._disk.shrink(self._inode, self.size)


class FaultyDisk:
    """The files of one simulated member."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.generation = 0
        self.operations = 0
        self.log: deque[str] = deque(maxlen=100)
        """The newest operations, for failure messages."""
        self._used = 0
        self._numbers = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._changes: list[_Change] = []
        self._unsettled: dict[int, _Inode] = {}
        self._fail_at: int | None = None
        self._crash_at: int | None = None
        self._error = errno.EIO
        self._unreadable: dict[str, int] = {}

    # Faults.

    def fail_after(self, count: int | None, error: int = errno.EIO) -> None:
        """Fail the `count`-th operation from now (1 is the next) with this errno; None cancels this."""
        self._fail_at = None if count is None else self.operations + count
        self._error = error

    def crash_after(self, count: int | None) -> None:
        """Lose the power at the `count`-th operation from now (1 is the next); None cancels this."""
        self._crash_at = None if count is None else self.operations + count

    def fail_reads(self, path: str, error: int | None = errno.EIO) -> None:
        """Let reads of this file fail until the process ends; None cancels this."""
        if error is None:
            self._unreadable.pop(path, None)
        else:
            self._unreadable[path] = error

    def corrupt(self, path: str, offset: int, data: bytes) -> None:
        """Change bytes on the medium silently."""
        self._names[path].data[offset : offset + len(data)] = data

    def flip(self, path: str, bit: int) -> None:
        """Flip one bit on the medium."""
        self._names[path].data[bit // 8] ^= 1 << bit % 8

    def image(self) -> dict[str, bytes]:
        """All files as they read now, as an operator would copy them."""
        return {path: bytes(inode.data) for path, inode in self._names.items()}

    def restore(self, image: Mapping[str, bytes]) -> None:
        """Replace all files by these, durably, as an operator would."""
        self.lose_everything()
        for path, data in image.items():
            self.replace(path, data)

    def crash(self, rng: Random) -> None:
        """Cut the power, and restart with the durable data and a random part of the rest."""
        for change in self._surviving_changes(rng):
            change.apply(self._durable_names)
        for _, inode in sorted(self._unsettled.items()):
            inode.settle(rng)
        self._names = dict(self._durable_names)
        self._changes.clear()
        self._unsettled.clear()
        self.kill()
        self.log.clear()
        self._used = sum(len(inode.data) for inode in self._names.values())

    def kill(self) -> None:
        """End the process without losing power: all writes can be read, and are as durable as before."""
        self._fail_at = self._crash_at = None
        self._unreadable.clear()
        self.generation += 1

    def _surviving_changes(self, rng: Random) -> list[_Change]:
        survival = rng.choice((0.0, 0.5, 1.0))
        return [change for change in self._changes if rng.random() < survival]

    def lose_everything(self) -> None:
        """Replace the disk by an empty one."""
        self._names.clear()
        self._durable_names.clear()
        self._changes.clear()
        self.crash(Random(0))
        assert not self._names

    def _step(self, what: str) -> BaseException | None:
        """Count an operation; returns the exception with which it has to end, if any."""
        if self._crash_at is not None and self.operations >= self._crash_at:
            raise PowerLossError(what)
        self.operations += 1
        self.log.append(what)
        if self.operations == self._crash_at:
            return PowerLossError(what)
        if self.operations == self._fail_at:
            return _error(self._error, what)
        return None

    # What files and the disk share.

    def write_at(self, inode: _Inode, path: str, offset: int, data: bytes, *, durable: bool = False) -> None:
        """One write; with `durable`, one that syncs its own range."""
        fault = self._step(f"{'write_durable' if durable else 'write'} {path} {offset}+{len(data)}")
        room = self.capacity_bytes - self._used + len(inode.data) - offset
        if len(data) > room:
            data = data[: max(room, 0)]
            fault = fault or _error(errno.ENOSPC, path)
        if not durable or fault or inode.undo or inode.lost:
            inode.dirty(offset, offset + len(data))
            self._unsettled[inode.number] = inode
        before = len(inode.data)
        inode.put(offset, data)
        self._used += len(inode.data) - before
        if fault:
            raise fault
        if durable:
            inode.clean_range(offset, offset + len(data))

    def sync_inode(self, inode: _Inode, path: str) -> None:
        """Sync the content of one file."""
        fault = self._step(f"sync {path}")
        if isinstance(fault, OSError):
            inode.lost.update(inode.undo)
            inode.undo.clear()
        if fault:
            raise fault
        inode.clean()

    def shrink(self, inode: _Inode, size: int) -> None:
        """Cut a file without a sync."""
        if size < len(inode.data):
            self._used -= len(inode.data) - size
            inode.undo = {sector: old for sector, old in inode.undo.items() if sector * SECTOR_BYTES < size}
            del inode.data[size:]
            inode.durable_bytes = min(inode.durable_bytes, size)

    def _change(self, old: str | None, new: str | None, inode: _Inode | None) -> None:
        change = _Change(old, new, inode)
        change.apply(self._names)
        self._changes.append(change)

    def _find(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise _error(errno.ENOENT, path)
        return inode

    def _create(self, path: str) -> _Inode:
        self._numbers += 1
        inode = _Inode(self._numbers)
        self._change(None, path, inode)
        return inode

    # The Disk.

    def open_append(self, path: str, *, create: bool, offset: int = 0) -> FaultyFile:
        if not create:
            return FaultyFile(self, path, self._find(path), offset)
        if path in self._names:
            raise _error(errno.EEXIST, path)
        fault = self._step(f"create {path}")
        inode = self._create(path)
        if fault:
            raise fault
        return FaultyFile(self, path, inode, offset)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path in self._unreadable:
            raise _error(self._unreadable[path], path)
        data = self._find(path).data
        return bytes(data[offset:] if length is None else data[offset : offset + length])

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        inode = self._create(temporary)
        self.write_at(inode, temporary, 0, data)
        self.sync_inode(inode, temporary)
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    def overwrite(self, path: str, data: bytes) -> None:
        inode = self._names.get(path) or self._create(path)
        self.write_at(inode, path, 0, data)

    def preallocate(self, path: str, size: int) -> None:
        inode = self._create(path)
        self.write_at(inode, path, 0, bytes(size))
        self.sync_inode(inode, path)

    def rename(self, old: str, new: str) -> None:
        self._find(old)
        fault = self._step(f"rename {old} {new}")
        replaced = self._names.get(new)
        if replaced is not None:
            self._used -= len(replaced.data)
        self._unreadable.pop(new, None)
        self._change(old, new, None)
        if fault:
            raise fault

    def remove(self, path: str) -> None:
        inode = self._find(path)
        fault = self._step(f"remove {path}")
        self._used -= len(inode.data)
        self._change(path, None, None)
        if fault:
            raise fault

    def truncate(self, path: str, size: int) -> None:
        inode = self._find(path)
        fault = self._step(f"truncate {path} {size}")
        if fault:
            inode.cut = size
            self._unsettled[inode.number] = inode
            raise fault
        self.shrink(inode, size)
        inode.clean()

    def directories(self) -> list[str]:
        return sorted({_name_and_place(path)[1] for path in self._names} - {""})

    def list(self, directory: str) -> list[str]:
        place = f"{directory}/" if directory else ""
        start = len(place)
        return sorted([path[start:] for path in self._names if path.startswith(place) and path.find("/", start) < 0])

    def rename_directory(self, old: str, new: str) -> None:
        if old not in self.directories():
            raise _error(errno.ENOENT, old)
        if new in self.directories():
            raise _error(errno.EEXIST, new)
        fault = self._step(f"rename_directory {old} {new}")
        self._change(f"{old}/", f"{new}/", None)
        if fault:
            raise fault
        self.sync_directory("")

    def remove_directory(self, directory: str) -> None:
        for name in self.list(directory):
            self.remove(f"{directory}/{name}")

    def size(self, path: str) -> int:
        return len(self._find(path).data)

    def exists(self, path: str) -> bool:
        return path in self._names

    def sync_directory(self, directory: str) -> None:
        fault = self._step(f"sync_directory {directory}")
        if fault:
            raise fault
        waiting: list[_Change] = []
        for change in self._changes:
            change.unsynced.discard(directory)
            if change.unsynced:
                waiting.append(change)
                continue
            change.apply(self._durable_names)
            if change.old is not None and change.old.endswith("/"):
                # What happened before in this directory, and is not durable yet, happened in the renamed one.
                for earlier in waiting:
                    earlier.follow(change)
        self._changes = waiting

    def forget_cached(self, path: str) -> None:
        self._find(path)

    def free_bytes(self) -> int:
        return self.capacity_bytes - self._used
