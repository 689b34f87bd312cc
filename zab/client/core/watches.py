"""The watches that the client has registered, and their watchers. Pure.

The server forgets a watch when the connection ends, and its notifications name a path and a type, but no watcher. So
the client keeps, per table, path -> watchers:

    data        get, and exists of a znode that is there     one-shot
    exist       exists of a znode that is not there          one-shot
    child       get_children                                 one-shot
    persistent  add_watch(PERSISTENT)                        stays
    recursive   add_watch(PERSISTENT_RECURSIVE)              stays, also told of every descendant

A notification reaches the watchers of these tables, each at most once, in the order of registration:

    CREATED, DATA_CHANGED   data and exist (both consumed), persistent, recursive at the path or above
    CHILDREN_CHANGED        child (consumed), persistent
    DELETED                 data, exist and child (all consumed), persistent, recursive at the path or above

After a reconnect `restore` gives the requests that register everything again, relative to the last zxid seen: the
server then sends what the one-shot watches missed. What persistent watches missed is lost: their watchers are told of
the reconnect instead (`WatchEvent` of type SESSION).

Invariant: no path stays in a table without a watcher.

Watchers are opaque hashables. Paths are the server's bytes, chroot included.
Deliberately not here: the queue of a watcher (`watcher`), when a registration counts (`session`).
"""

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from typing import Final

from datatree.opcodes import OpCode
from datatree.requests import SetWatches
from zab.client.core.records import EventType, WatchKind, WatchMode

__all__ = ["MODE_TABLES", "WATCH_REQUEST_BYTES_MAX", "Table", "WatchRegistry"]

# ZooKeeper's client sends at most 128 KiB of paths in one request, well below a server's frame limit of 1 MiB.
WATCH_REQUEST_BYTES_MAX: Final = 128 * 1024


class Table(Enum):
    """The five tables, in the order in which setWatches2 lists them."""

    DATA = "data"
    EXIST = "exist"
    CHILD = "child"
    PERSISTENT = "persistent"
    RECURSIVE = "recursive"


MODE_TABLES: Final = {WatchMode.PERSISTENT: Table.PERSISTENT, WatchMode.PERSISTENT_RECURSIVE: Table.RECURSIVE}

_KIND_TABLES: Final = {
    WatchKind.CHILDREN: (Table.CHILD,),
    WatchKind.DATA: (Table.DATA, Table.EXIST),
    WatchKind.ANY: tuple(Table),
    WatchKind.PERSISTENT: (Table.PERSISTENT,),
    WatchKind.PERSISTENT_RECURSIVE: (Table.RECURSIVE,),
}

_REMOVED_EVENTS: Final = {
    Table.DATA: EventType.DATA_WATCH_REMOVED,
    Table.EXIST: EventType.DATA_WATCH_REMOVED,
    Table.CHILD: EventType.CHILD_WATCH_REMOVED,
    Table.PERSISTENT: EventType.PERSISTENT_WATCH_REMOVED,
    Table.RECURSIVE: EventType.PERSISTENT_WATCH_REMOVED,
}

_ONE_SHOT: Final = {
    EventType.CREATED: (Table.DATA, Table.EXIST),
    EventType.DATA_CHANGED: (Table.DATA, Table.EXIST),
    EventType.CHILDREN_CHANGED: (Table.CHILD,),
    EventType.DELETED: (Table.DATA, Table.EXIST, Table.CHILD),
}


class WatchRegistry:
    """The tables, and how they answer a notification, a removal and a reconnect."""

    def __init__(self) -> None:
        # A dict serves as an ordered set of watchers.
        self._tables: dict[Table, dict[bytes, dict[Hashable, None]]] = {table: {} for table in Table}

    def __len__(self) -> int:
        """Registrations: (table, path, watcher)."""
        return sum(len(watchers) for paths in self._tables.values() for watchers in paths.values())

    def add(self, table: Table, path: bytes, watcher: Hashable) -> None:
        self._tables[table].setdefault(path, {})[watcher] = None

    def watchers(self) -> list[Hashable]:
        """Every watcher once."""
        return list(
            dict.fromkeys(w for paths in self._tables.values() for watchers in paths.values() for w in watchers)
        )

    def notify(self, event: EventType, path: bytes) -> list[Hashable]:
        """The watchers to tell of the event; one-shot registrations among them are consumed."""
        heard: dict[Hashable, None] = {}
        for table in _ONE_SHOT[event]:
            heard.update(self._tables[table].pop(path, {}))
        heard.update(self._tables[Table.PERSISTENT].get(path, {}))
        recursive = self._tables[Table.RECURSIVE]
        # A recursive watch gets no CHILDREN_CHANGED: it gets the event of the child itself.
        if recursive and event is not EventType.CHILDREN_CHANGED:
            for above in _upwards(path):
                heard.update(recursive.get(above, {}))
        return list(heard)

    def remove(self, path: bytes, kind: WatchKind, watcher: Hashable | None = None) -> list[tuple[EventType, Hashable]]:
        """Forgets the registrations of `watcher` (None: of all) at `path`; returns whom to tell, and of what."""
        removed: dict[tuple[EventType, Hashable], None] = {}
        for table in _KIND_TABLES[kind]:
            watchers = self._tables[table].get(path, {})
            for found in [watcher] if watcher is not None else list(watchers):
                if found in watchers:
                    del watchers[found]
                    removed[(_REMOVED_EVENTS[table], found)] = None
            if not watchers:
                self._tables[table].pop(path, None)
        return list(removed)

    def release(self, watcher: Hashable) -> list[tuple[Table, bytes]]:
        """Forgets `watcher` everywhere; returns the places that have no watcher left."""
        emptied = []
        for table, paths in self._tables.items():
            for path in [path for path, watchers in paths.items() if watcher in watchers]:
                del paths[path][watcher]
                if not paths[path]:
                    del paths[path]
                    emptied.append((table, path))
        return emptied

    def clear(self) -> None:
        for paths in self._tables.values():
            paths.clear()

    def restore(self, last_zxid: int, *, bytes_max: int = WATCH_REQUEST_BYTES_MAX) -> list[tuple[OpCode, SetWatches]]:
        """The requests that register every watch again, each with at most `bytes_max` bytes of paths (or one path).

        setWatches2 is used only if there are persistent watches: older servers know neither.
        """
        every = [(table, path) for table in Table for path in self._tables[table]]
        requests = []
        for chunk in _chunks(every, bytes_max):
            lists: dict[Table, list[bytes]] = {table: [] for table in Table}
            for table, path in chunk:
                lists[table].append(path)
            data, exist, child, persistent, recursive = (tuple(lists[table]) for table in Table)
            if persistent or recursive:
                body = SetWatches(last_zxid, data, exist, child, persistent, recursive)
                requests.append((OpCode.SET_WATCHES2, body))
            else:
                requests.append((OpCode.SET_WATCHES, SetWatches(last_zxid, data, exist, child)))
        return requests


def _upwards(path: bytes) -> Iterator[bytes]:
    """The path and every ancestor, the root last."""
    yield path
    while path != b"/":
        path = path[: path.rfind(b"/")] or b"/"
        yield path


def _chunks(every: Iterable[tuple[Table, bytes]], bytes_max: int) -> Iterator[list[tuple[Table, bytes]]]:
    chunk: list[tuple[Table, bytes]] = []
    size = 0
    for table, path in every:
        # Each path has four bytes of length, which dominate when paths are short.
        if chunk and size + len(path) + 4 > bytes_max:
            yield chunk
            chunk, size = [], 0
        chunk.append((table, path))
        size += len(path) + 4
    if chunk:
        yield chunk
