"""A copy of a znode, of its children or of its whole subtree, that the client keeps up to date by itself. A
`BackgroundJob`, pure.

    WATCHING --a persistent watch is there--> READING --everything was read--> the copy is there
              \\--the server has no such watches--> READING, with a one-shot watch for each read

It keeps a set of what to read: (path, data or children). First that is the root, then the children that were listed;
then events add to it. After a lost connection everything known is read again, since a persistent watch does not report
what it missed. So the copy ends up as the tree is, and its readers are told the differences, whatever was missed.

- *Events are only hints*: they say what to read. An event comes before any answer that shows the change, so what is
  read after it is not older than the change.
- *At most `READS_MAX`* reads are in flight.
- A znode that may not be read (NoAuthError) is not in the copy; for the root it is an error.
- A znode that is too long to be read (ReplyTooLongError) ends the copy: each try would end the connection.

Each `Reader` is told deltas by path: it knows the state that it was told, and gets the difference to the current one.
So a slow reader delays nothing, and keeps at most one old state for each path. A reader without references is
forgotten.
"""

from collections import deque
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from zab.client.client import Client
from zab.client.core.exceptions import (
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
    ReplyTooLongError,
    UnimplementedError,
    ZabError,
)
from zab.client.core.operations import Operation
from zab.client.core.records import EventType, Stat, WatchEvent, WatchMode
from zab.client.recipes.signal import Signal

__all__ = ["READS_MAX", "Copy", "Delta", "DeltaKind", "Depth", "Entry", "Reader"]

READS_MAX: Final = 64
# A server that ends the connection twice when a watch is requested does not know such watches.
_REFUSALS_MAX: Final = 2


class Depth(IntEnum):
    """How much below a znode is copied."""

    ZNODE = 0
    CHILDREN = 1
    SUBTREE = 1 << 30


class Entry(NamedTuple):
    """A znode of the copy."""

    data: bytes | None
    stat: Stat


class DeltaKind(Enum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class Delta(NamedTuple):
    """entry: the new one; for REMOVED, the last one."""

    kind: DeltaKind
    path: str
    entry: Entry


class What(Enum):
    DATA = "data"
    CHILDREN = "children"
    EXISTENCE = "existence"


class Reader:
    """Gets deltas; the first ones are all entries of the copy."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._untold: dict[str, Entry | None] = dict.fromkeys(entries)
        """Path -> the entry that was told last."""

    def __len__(self) -> int:
        """How many paths may have a delta."""
        return len(self._untold)

    def note(self, path: str, before: Entry | None, now: Entry | None) -> None:
        told = self._untold.setdefault(path, before)
        if told is None and now is None:
            del self._untold[path]

    def take(self, entries: dict[str, Entry]) -> Delta | None:
        """The next delta; None if everything was told."""
        while self._untold:
            path = next(iter(self._untold))
            before, now = self._untold.pop(path), entries.get(path)
            if now is not None and before is None:
                return Delta(DeltaKind.ADDED, path, now)
            if now is None and before is not None:
                return Delta(DeltaKind.REMOVED, path, before)
            if now is not None and before is not None and now.stat.mzxid != before.stat.mzxid:
                return Delta(DeltaKind.CHANGED, path, now)
        return None


class Copy:
    """signal: given when there is something new: state, deltas, or the end (`reason`)."""

    def __init__(self, zk: Client, root: str, depth: Depth) -> None:
        self.is_done = False
        self.reason: ZabError | None = None
        self.entries: dict[str, Entry] = {}
        self.is_there = False
        """Everything was read once."""
        self.signal = Signal(zk)
        self._zk = zk
        self._root = root
        self._depth = depth
        self._chroot = zk.operations.chroot
        self._readers: WeakSet[Reader] = WeakSet()
        self._is_watched = False
        self._is_one_shot = False
        self._refusals = 0
        self._children: dict[str, set[str]] = {}
        self._to_read: dict[tuple[str, What], None] = {}
        self._asked: dict[Operation[Any], tuple[str, What] | None] = {}

    @property
    def is_current(self) -> bool:
        """A server is connected, and everything that it announced was read."""
        return self.is_there and not self.is_reading and self._zk.state.is_connected

    @property
    def is_reading(self) -> bool:
        """Something that a server announced is not read yet: the copy may have half of a change."""
        return bool(self._to_read or self._asked)

    def reader(self) -> Reader:
        reader = Reader(self.entries)
        self._readers.add(reader)
        return reader

    @property
    def readers_count(self) -> int:
        """How many readers are referenced."""
        return len(self._readers)

    def forget(self, reader: Reader) -> None:
        self._readers.discard(reader)

    async def begin(self) -> None:
        """Returns when everything was read. Raises the reason if that cannot be."""
        self.raise_if_over()
        self._zk.undertake(self)
        while not self.is_there:
            await self.signal.wait()
            self.raise_if_over()

    def raise_if_over(self) -> None:
        """Raises `reason`; RuntimeError when it was stopped."""
        if self.reason is not None:
            raise self.reason
        if self.is_done:
            raise RuntimeError(f"{self._root} is followed no more: it was closed")

    def stop(self) -> None:
        """Ends it."""
        if not self.is_done:
            self.is_done = True
            self._zk.release(self)
            self._zk.stir(self)
            self.signal.give()

    # The job.

    def next(self) -> Operation[Any] | None:
        if self.is_done:
            return None
        if not self._is_watched:
            if self._asked:
                return None
            # A recursive watch reports each child, and its data.
            mode = WatchMode.PERSISTENT if self._depth is Depth.ZNODE else WatchMode.PERSISTENT_RECURSIVE
            operation: Operation[Any] = self._zk.operations.add_watch(self._root, self, mode)
            self._asked[operation] = None
            return operation
        if not self._to_read or len(self._asked) >= READS_MAX:
            return None
        path, what = next(iter(self._to_read))
        del self._to_read[path, what]
        watcher = self if self._is_one_shot else None
        if what is What.DATA:
            operation = self._zk.operations.get(path, watcher)
        elif what is What.CHILDREN:
            operation = self._zk.operations.get_children(path, watcher)
        else:
            operation = self._zk.operations.exists(path, watcher)
        self._asked[operation] = path, what
        return operation

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        asked = self._asked.pop(operation)
        if self.is_done:
            if asked is None and error is None:
                self._zk.release(self)
            return
        if asked is None:
            self._watch_answered(error)
            return
        path, what = asked
        if isinstance(error, ConnectionLossError) and not isinstance(error, ReplyTooLongError):
            self._to_read[asked] = None
        elif isinstance(error, NoAuthError) and path != self._root:
            self._remove(path)
        elif isinstance(error, NoNodeError):
            self._remove(path)
            if path == self._root and self._is_one_shot and what is not What.EXISTENCE:
                self._to_read[path, What.EXISTENCE] = None
        elif error is not None:
            self._fail(error)
            return
        elif what is What.DATA:
            self._put(path, Entry(*result))
        elif what is What.CHILDREN:
            self._have_children(path, result)
        else:
            self._read(path)
        self._look_whether_there()

    def _watch_answered(self, error: ZabError | None) -> None:
        if isinstance(error, ConnectionLossError):
            self._refusals += 1
        if isinstance(error, UnimplementedError) or self._refusals >= _REFUSALS_MAX:
            self._is_one_shot = True
        elif isinstance(error, ConnectionLossError):
            return
        elif error is not None:
            self._fail(error)
            return
        self._is_watched = True
        self._read(self._root)

    def deliver(self, event: WatchEvent) -> None:
        if self.is_done:
            return
        if event.type is EventType.SESSION:
            if event.state.is_connected:
                for path in [self._root, *self.entries]:
                    self._read(path)
            self.signal.give()
            return
        path = event.path
        if self._chroot and (path == self._chroot or path.startswith(self._chroot + "/")):
            path = path[len(self._chroot) :] or "/"
        if self._level(path) <= self._depth:
            if event.type is EventType.CHILDREN_CHANGED:
                self._read_children(path)
            elif event.type is EventType.DATA_CHANGED:
                self._to_read[path, What.DATA] = None
            else:
                self._read(path)

    def end(self, reason: ZabError) -> None:
        self._fail(reason)

    def ended(self, reason: ZabError) -> None:
        self._fail(reason)

    def _fail(self, error: ZabError) -> None:
        if not self.is_done:
            self.is_done, self.reason = True, error
            self.signal.give()

    # What is to be read.

    def _level(self, path: str) -> int:
        """How far below the root it is."""
        return path.removeprefix(self._root.rstrip("/")).rstrip("/").count("/")

    def _read(self, path: str) -> None:
        self._to_read[path, What.DATA] = None
        self._read_children(path)

    def _read_children(self, path: str) -> None:
        if self._level(path) < self._depth:
            self._to_read[path, What.CHILDREN] = None

    def _look_whether_there(self) -> None:
        if not self._to_read and not self._asked:
            self.is_there = True
            self.signal.give()

    # What was read.

    def _put(self, path: str, entry: Entry) -> None:
        before = self.entries.get(path)
        self.entries[path] = entry
        self._children.setdefault(_parent(path), set()).add(path)
        self._note(path, before)

    def _have_children(self, path: str, names: list[str]) -> None:
        here = {f"{path.rstrip('/')}/{name}" for name in names}
        for gone in self._children.get(path, set()) - here:
            self._remove(gone)
        for new in here - self._children.get(path, set()):
            self._read(new)

    def _remove(self, path: str) -> None:
        """Removes the path and all below it, the deepest first."""
        found = deque([path])
        order = []
        while found:
            one = found.popleft()
            order.append(one)
            found += sorted(self._children.pop(one, set()))
        for one in reversed(order):
            before = self.entries.pop(one, None)
            self._children.get(_parent(one), set()).discard(one)
            if before is not None:
                self._note(one, before)

    def _note(self, path: str, before: Entry | None) -> None:
        now = self.entries.get(path)
        for reader in self._readers:
            reader.note(path, before, now)
        self.signal.give()


def _parent(path: str) -> str:
    """The parent's path; that of the root is "", which no path is."""
    return "" if path == "/" else path.rpartition("/")[0] or "/"
