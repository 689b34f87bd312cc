"""Watches: which connection of this server is told of which change.

A watch belongs to a connection of one server and ends with it; it is no replicated state. ZooKeeper describes watches
as two tables, data and child, whose entries have modes. Here each way of watching is a table of its own, path ->
connections, since those that a change consults are then whole sets:

    table        set by                                     consulted by a change in    consumed by its event
    DATA         exists, getData                            data                        yes
    CHILD        getChildren, getChildren2                  child                       yes
    PERSISTENT   addWatch mode 0                            data and child              no
    RECURSIVE    addWatch mode 1                            data, of any descendant     no

Triggers (`datatree.outcome`) are what changes. Each of a transaction's triggers is handed in, in order:

    DATA     DATA and PERSISTENT watches of the path, and RECURSIVE ones of the path and its ancestors up to "/"
    CHILD    CHILD and PERSISTENT watches of the path
    DELETE   DATA, then CHILD for the connections that the first did not reach

Invariants:
- A connection gets at most one event per trigger and consulted table (ZOOKEEPER-4466, 4471, 4475: modes on one path are
  independent, and recursive watches never hear of children as such).
- An event reaches only a connection whose identities may read the znode (ZOOKEEPER-4799); a watch that would have
  fired is consumed all the same. Events made up by `set_watches` are not filtered, as in ZooKeeper.
- A watch is in its table if and only if it is among those of its connection; sets that became empty are removed, so an
  idle table takes no memory.
- The order of events is that of registration, which makes it the same in every run of the simulator.

Cost: nothing is looked up while no watch exists, and ancestors are walked only while a recursive watch exists.

Limit: `maxWatchesPerConnection`, checked by the server through `count` after each request that adds; a single
setWatches, bounded by its frame, may overshoot it. A connection above it is closed.

Deliberately not here: when events are put into a connection's output (`zab.member`), permissions (`datatree.acl`), and
the client's own tables.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from datatree.errors import ErrorCode
from datatree.outcome import (
    DATA,
    DELETE,
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    Trigger,
)
from datatree.paths import ROOT
from datatree.record import AclList
from datatree.requests import SetWatches
from datatree.znode import STAT, STAT_LAYOUT, Znode

__all__ = ["Connection", "Event", "Told", "WatchTable", "Znodes"]

# Any hashable object; the tables only compare it.
Connection: TypeAlias = Any
# Type and path, as they stand in a notification.
Event: TypeAlias = tuple[int, bytes]
# Who is told, and what.
Told: TypeAlias = tuple[Connection, int, bytes]
MayRead: TypeAlias = Callable[[Connection, AclList], bool]

# Tables, as indexes.
_DATA, _CHILD, _PERSISTENT, _RECURSIVE = range(4)
_TABLES_COUNT: Final = 4

# addWatch's modes.
_MODES: Final[Mapping[int, int]] = {0: _PERSISTENT, 1: _RECURSIVE}
# The types of watcher of checkWatches and removeWatches: Children, Data, Any, Persistent, PersistentRecursive.
_KINDS: Final[Mapping[int, tuple[int, ...]]] = {
    1: (_CHILD,),
    2: (_DATA,),
    3: (_DATA, _CHILD, _PERSISTENT, _RECURSIVE),
    4: (_PERSISTENT,),
    5: (_RECURSIVE,),
}
_SEPARATOR: Final = ord("/")
_MZXID: Final = 1
_PZXID: Final = 10

# Connections in the order in which they came; only the keys matter.
_Watchers: TypeAlias = dict[Connection, None]
_Table: TypeAlias = dict[bytes, _Watchers]


class Znodes(Protocol):
    """What `set_watches` asks of a tree."""

    def get(self, path: bytes, /) -> Znode | None: ...


class _Holding:
    """The watches of one connection: the paths in each table."""

    __slots__ = ("count", "paths")

    def __init__(self) -> None:
        self.count = 0
        self.paths: tuple[set[bytes], ...] = tuple(set() for _ in range(_TABLES_COUNT))


class WatchTable:
    """All watches of one server. Connections are any hashable objects; paths are not validated, as in ZooKeeper."""

    def __init__(self) -> None:
        self._tables: tuple[_Table, ...] = tuple({} for _ in range(_TABLES_COUNT))
        self._holdings: dict[Connection, _Holding] = {}
        self.total_count = 0

    @property
    def any(self) -> bool:
        """Whether there is any watch at all."""
        return self.total_count > 0

    def count(self, connection: Connection) -> int:
        """The watches of one connection; one that addWatch made counts once."""
        holding = self._holdings.get(connection)
        return 0 if holding is None else holding.count

    # Registration.

    def add_data(self, connection: Connection, path: bytes) -> None:
        """The one-shot watch of exists and getData."""
        self._add(_DATA, connection, path)

    def add_child(self, connection: Connection, path: bytes) -> None:
        """The one-shot watch of getChildren."""
        self._add(_CHILD, connection, path)

    def add_mode(self, connection: Connection, path: bytes, mode: int) -> bool:
        """addWatch. False: there is no such mode."""
        table = _MODES.get(mode)
        if table is None:
            return False
        self._add(table, connection, path)
        return True

    def set_watches(self, connection: Connection, request: SetWatches, znodes: Znodes) -> list[Event]:
        """setWatches, setWatches2: registers again what a client watched on its previous connection.

        What changed since `request.zxid` is not registered: its event comes out instead, to be sent with zxid -1. An
        empty path is an alias of the root, as in reads.
        """
        events: list[Event] = []
        for path in request.data:
            znode = znodes.get(path or ROOT)
            if znode is None:
                events.append((NODE_DELETED, path))
            elif _stat_field(znode, _MZXID) > request.zxid:
                events.append((NODE_DATA_CHANGED, path))
            else:
                self._add(_DATA, connection, path)
        for path in request.exist:
            if znodes.get(path or ROOT) is not None:
                events.append((NODE_CREATED, path))
            else:
                self._add(_DATA, connection, path)
        for path in request.child:
            znode = znodes.get(path or ROOT)
            if znode is None:
                events.append((NODE_DELETED, path))
            elif _stat_field(znode, _PZXID) > request.zxid:
                events.append((NODE_CHILDREN_CHANGED, path))
            else:
                self._add(_CHILD, connection, path)
        # Changes that these missed are not made up for: there is no telling how many there were.
        for path in request.persistent or ():
            self._add(_PERSISTENT, connection, path)
        for path in request.recursive:
            self._add(_RECURSIVE, connection, path)
        return events

    def check(self, connection: Connection, path: bytes, kind: int) -> ErrorCode:
        """checkWatches: OK, NOWATCHER, or MARSHALLINGERROR for an unknown type of watcher."""
        tables = _KINDS.get(kind)
        if tables is None:
            return ErrorCode.MARSHALLINGERROR
        holding = self._holdings.get(connection)
        if holding is not None and any(path in holding.paths[table] for table in tables):
            return ErrorCode.OK
        return ErrorCode.NOWATCHER

    def remove(self, connection: Connection, path: bytes, kind: int) -> ErrorCode:
        """removeWatches: as `check`, and what matched is gone."""
        found = self.check(connection, path, kind)
        if found == ErrorCode.OK:
            for table in _KINDS[kind]:
                if path in self._holdings[connection].paths[table]:
                    self._forget(table, connection, path)
                    if connection not in self._holdings:
                        break
        return found

    def close(self, connection: Connection) -> None:
        """The connection is gone, and all of its watches with it."""
        holding = self._holdings.get(connection)
        if holding is None:
            return
        for table, paths in enumerate(holding.paths):
            for path in tuple(paths):
                self._forget(table, connection, path)
        assert connection not in self._holdings

    # Events.

    def trigger(self, trigger: Trigger, may_read: MayRead | None = None) -> list[Told]:
        """Who is told of one trigger: (connection, event type, path), in order. One-shot watches are consumed.

        `may_read(connection, acl)` decides who may know; it is not asked about the open ACL. None: everybody may.
        """
        if not self.total_count:
            return []
        kind, path, event_type, acl = trigger
        if kind == DATA:
            told = self._fire_data(path)
        elif kind == DELETE:
            told = self._fire_data(path)
            told.update(self._fire(_CHILD, path))
        else:
            told = self._fire(_CHILD, path)
        if acl is None or may_read is None:
            return [(connection, event_type, path) for connection in told]
        return [(connection, event_type, path) for connection in told if may_read(connection, acl)]

    def _fire_data(self, path: bytes) -> _Watchers:
        told = self._fire(_DATA, path)
        recursive = self._tables[_RECURSIVE]
        if recursive:
            for above in _upwards(path):
                watchers = recursive.get(above)
                if watchers is not None:
                    told.update(watchers)
        return told

    def _fire(self, table: int, path: bytes) -> _Watchers:
        """Takes the one-shot watchers of the path, and adds its persistent ones."""
        told = self._tables[table].pop(path, None)
        if told is None:
            told = {}
        for connection in told:
            holding = self._holdings[connection]
            holding.paths[table].remove(path)
            self._uncount(connection, holding)
        watchers = self._tables[_PERSISTENT].get(path)
        if watchers is not None:
            told.update(watchers)
        return told

    # Counts, for metrics and the four-letter words.

    @property
    def path_count(self) -> int:
        """Paths with any watch for data, as ZooKeeper's `wchs` counts them."""
        return len(self._data_paths())

    def summary(self) -> tuple[int, int, int]:
        """`wchs`: connections with a watch for data, paths that they watch, and those watches in total."""
        holders = [holding for holding in self._holdings.values() if holding.count > len(holding.paths[_CHILD])]
        watches_count = sum(holding.count - len(holding.paths[_CHILD]) for holding in holders)
        return len(holders), self.path_count, watches_count

    def by_connection(self) -> Iterator[tuple[Connection, list[bytes]]]:
        """`wchc`: each connection with the paths of its watches for data."""
        for connection, holding in self._holdings.items():
            paths = holding.paths[_DATA] | holding.paths[_PERSISTENT] | holding.paths[_RECURSIVE]
            if paths:
                yield connection, sorted(paths)

    def by_path(self) -> Iterator[tuple[bytes, list[Connection]]]:
        """`wchp`: each path with the connections that watch its data."""
        for path in sorted(self._data_paths()):
            watchers: _Watchers = {}
            for table in (_DATA, _PERSISTENT, _RECURSIVE):
                watchers.update(self._tables[table].get(path, {}))
            yield path, list(watchers)

    def _data_paths(self) -> set[bytes]:
        return {*self._tables[_DATA], *self._tables[_PERSISTENT], *self._tables[_RECURSIVE]}

    # The two sides of a watch.

    def _add(self, table: int, connection: Connection, path: bytes) -> None:
        holding = self._holdings.get(connection)
        if holding is None:
            holding = self._holdings[connection] = _Holding()
        paths = holding.paths[table]
        if path in paths:
            return
        paths.add(path)
        holding.count += 1
        self.total_count += 1
        watchers = self._tables[table].get(path)
        if watchers is None:
            self._tables[table][path] = {connection: None}
        else:
            watchers[connection] = None

    def _forget(self, table: int, connection: Connection, path: bytes) -> None:
        holding = self._holdings[connection]
        holding.paths[table].remove(path)
        watchers = self._tables[table][path]
        del watchers[connection]
        if not watchers:
            del self._tables[table][path]
        self._uncount(connection, holding)

    def _uncount(self, connection: Connection, holding: _Holding) -> None:
        holding.count -= 1
        self.total_count -= 1
        assert holding.count >= 0
        assert self.total_count >= 0
        if not holding.count:
            del self._holdings[connection]


def _stat_field(znode: Znode, index: int) -> int:
    value: int = STAT_LAYOUT.unpack(znode[STAT])[index]
    return value


def _upwards(path: bytes) -> Iterator[bytes]:
    """The path, then its ancestors up to "/"."""
    yield path
    if path == b"/" or not path or path[0] != _SEPARATOR:
        return
    end = path.rfind(b"/")
    while end > 0:
        yield path[:end]
        end = path.rfind(b"/", 0, end)
    yield b"/"
