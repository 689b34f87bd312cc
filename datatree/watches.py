"""Watches: which connections of this server are notified of which change.

A watch belongs to a connection of one server and ends with it; it is not replicated. ZooKeeper describes watches as two
tables, data and child, whose entries have modes. Here each way of watching has a separate table, path -> connections,
so that a change consults whole sets:

    table        set by                                     consulted by a change in    consumed by its event
    DATA         exists, getData                            data                        yes
    CHILD        getChildren, getChildren2                  child                       yes
    PERSISTENT   addWatch mode 0                            data and child              no
    RECURSIVE    addWatch mode 1                            data, of any descendant     no

Triggers (`datatree.outcome`) describe changes. Each of a transaction's triggers is passed in, in order:

    DATA     DATA and PERSISTENT watches of the path, and RECURSIVE ones of the path and its ancestors up to "/"
    CHILD    CHILD and PERSISTENT watches of the path
    DELETE   DATA, then CHILD for the connections that the first did not reach

Invariants:
- A connection gets at most one event per trigger and consulted table (ZOOKEEPER-4466, 4471, 4475: modes on one path are
  independent, and recursive watches never hear of children as such).
- An event reaches only a connection whose identities may read the znode (ZOOKEEPER-4799); a watch that would have fired
  is consumed anyway. Events made up by `set_watches` are not filtered, as in ZooKeeper.
- A watch is in its table if and only if it is listed at its connection; empty sets are removed, so an idle table takes
  no memory.
- The order of events is that of registration, which makes it the same in every run of the simulator.

Cost: without watches nothing is looked up, and ancestors are only examined while a recursive watch exists, in one pass
over the path (`datatree.path_map`).

Limits: `maxWatchesPerConnection` and `watchLimitBytes`, checked by the server through `count` and `bytes_of` after each
request that adds; a single setWatches, bounded by its frame, may overshoot them. A connection above a limit is closed.
`totalWatchLimitBytes` bounds all connections together.

Deliberately not here: when events are put into a connection's output (`zab.member`), permissions (`datatree.acl`), and
the client's own tables.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
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
from datatree.path_map import PathMap
from datatree.paths import ROOT
from datatree.record import AclList
from datatree.slices import CONSUMED, TOLD
from datatree.znode import STAT_AT, STAT_LAYOUT, Znode

__all__ = ["WATCH_BYTES", "Connection", "WatchTable", "Znodes"]

# Any hashable object; the tables only compare it.
Connection: TypeAlias = Any
MayRead: TypeAlias = Callable[[Connection, AclList], bool]

WATCH_BYTES: Final = 400
"""Memory of a watch besides its path, if it is the second one on that path; others take less
(docs/explanation/sizing.md)."""

# Tables, as indexes.
_DATA, _CHILD, _PERSISTENT, _RECURSIVE = range(4)
_TABLES_COUNT: Final = 4
# For each data table, the ones that are consulted before it.
_BEFORE: Final[Mapping[int, tuple[int, ...]]] = {_DATA: (), _PERSISTENT: (_DATA,), _RECURSIVE: (_DATA, _PERSISTENT)}

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
SLICE: Final = TOLD // CONSUMED
"""How many connections concerned by one change are found in one slice."""
_ALL: Final = sys.maxsize
_MZXID: Final = 1
_PZXID: Final = 10

# Connections in the order in which they came; only the keys matter.
_Watchers: TypeAlias = dict[Connection, None]
_Table: TypeAlias = dict[bytes, _Watchers]
# A table, its one-shot watchers of a path, which are consumed, and those that stay.
_Fired: TypeAlias = tuple[int, _Watchers, _Watchers]
_NOBODY: Final[_Watchers] = {}


class Znodes(Protocol):
    """What `set_watches` needs from a tree."""

    def get(self, path: bytes, /) -> Znode | None: ...


class _Holding:
    """The watches of one connection: the paths in each table."""

    __slots__ = ("alone", "bytes", "count", "paths")

    def __init__(self, connection: Connection) -> None:
        self.count = self.bytes = 0
        self.alone: _Watchers = {connection: None}
        """The watchers of every path that only this connection watches: one shared dict, so that these cost no dict
        each, and the collector has none to track."""
        self.paths: tuple[set[bytes], ...] = tuple(set() for _ in range(_TABLES_COUNT))


class WatchTable:
    """All watches of one server. Connections are any hashable objects; paths are not validated, as in ZooKeeper."""

    def __init__(self) -> None:
        self._recursive: PathMap[_Watchers] = PathMap()
        self._tables: tuple[_Table, ...] = ({}, {}, {}, self._recursive)
        self._holdings: dict[Connection, _Holding] = {}
        self.total_count = self.total_bytes = 0

    @property
    def any(self) -> bool:
        """Whether there are any watches."""
        return self.total_count > 0

    def count(self, connection: Connection) -> int:
        """The number of watches of one connection; one made by addWatch counts once."""
        holding = self._holdings.get(connection)
        return 0 if holding is None else holding.count

    def bytes_of(self, connection: Connection) -> int:
        """The size of the watches of one connection."""
        holding = self._holdings.get(connection)
        return 0 if holding is None else holding.bytes

    # Registration.

    def add_data(self, connection: Connection, path: bytes) -> None:
        """Add the one-shot watch of exists and getData."""
        self._add(_DATA, connection, path)

    def add_child(self, connection: Connection, path: bytes) -> None:
        """Add the one-shot watch of getChildren."""
        self._add(_CHILD, connection, path)

    def add_mode(self, connection: Connection, path: bytes, mode: int) -> bool:
        """addWatch. False if there is no such mode."""
        table = _MODES.get(mode)
        if table is None:
            return False
        self._add(table, connection, path)
        return True

    def set_again(
        self,
        connection: Connection,
        kind: str,
        path: bytes,
        zxid: int,
        znodes: Znodes,
        may_read: Callable[[Znode], bool],
    ) -> int:
        """setWatches, setWatches2: watch a path again that a client watched on its previous connection, when it had
        seen `zxid`. `kind` is the list that has the path.

        If it has changed since, it is not watched: the type of the event is returned, to be sent with zxid -1;
        otherwise 0. A znode that the client may not read is watched as if it had not changed, since the event would
        reveal when it did. That a znode exists is not secret, since reading it is refused with a different code than
        reading a missing one. An empty path means the root, as in reads.
        """
        if kind == "persistent" or kind == "recursive":
            # Missed changes are not made up for: it is unknown how many there were.
            self._add(_PERSISTENT if kind == "persistent" else _RECURSIVE, connection, path)
            return 0
        znode = znodes.get(path or ROOT)
        if kind == "exist":
            if znode is not None:
                return NODE_CREATED
            self._add(_DATA, connection, path)
            return 0
        if znode is None:
            return NODE_DELETED
        is_child = kind == "child"
        if may_read(znode) and _stat_field(znode, _PZXID if is_child else _MZXID) > zxid:
            return NODE_CHILDREN_CHANGED if is_child else NODE_DATA_CHANGED
        self._add(_CHILD if is_child else _DATA, connection, path)
        return 0

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
        """removeWatches: like `check`, and removes what matches."""
        found = self.check(connection, path, kind)
        if found == ErrorCode.OK:
            for table in _KINDS[kind]:
                if path in self._holdings[connection].paths[table]:
                    self._forget(table, connection, path)
                    if connection not in self._holdings:
                        break
        return found

    def close(self, connection: Connection, count_max: int = _ALL) -> int:
        """The connection is gone: remove at most so many of its watches. Returns how many there were to remove."""
        holding = self._holdings.get(connection)
        if holding is None:
            return 0
        count = min(holding.count, count_max)
        left = count
        for table, paths in enumerate(holding.paths):
            for path in [*islice(paths, left)]:
                self._forget(table, connection, path)
                left -= 1
        assert left == 0
        return count

    # Events.

    def trigger(self, trigger: Trigger, may_read: MayRead | None = None) -> Iterable[Connection]:
        """The connections to notify of one trigger, in order. One-shot watches are consumed.

        `may_read(connection, acl)` decides whether a connection may know; it is not called for the open ACL. None
        permits all.

        With many watchers, the result comes bit by bit: make no other call until it has ended. If all of them watch the
        same path, and stay, the result is the table's own dict: the next change that they watch returns the same dict,
        so the caller can notify them once for many changes.
        """
        if not self.total_count:
            return ()
        kind, path, _, acl = trigger
        if kind == DATA:
            fired = [self._fire(_DATA, path), *self._fire_above(path)]
        elif kind == DELETE:
            fired = [self._fire(_DATA, path), *self._fire_above(path), self._fire(_CHILD, path)]
        else:
            fired = [self._fire(_CHILD, path)]
        watchers = [each for _, taken, kept in fired for each in (taken, kept) if each]
        if not watchers:
            return ()
        if len(watchers) == 1 and (acl is None or may_read is None) and all(not taken for _, taken, _ in fired):
            return watchers[0]
        told = self._tell(fired, path, acl, may_read)
        return told if sum(map(len, watchers)) > SLICE else list(told)

    def _fire(self, table: int, path: bytes) -> _Fired:
        """The one-shot watchers of the path, which are removed from their table, and its persistent ones."""
        return table, self._tables[table].pop(path, _NOBODY), self._tables[_PERSISTENT].get(path, _NOBODY)

    def _fire_above(self, path: bytes) -> Iterator[_Fired]:
        for watchers in reversed(self._recursive.around(path)):
            yield _RECURSIVE, _NOBODY, watchers

    def _tell(
        self, fired: Iterable[_Fired], path: bytes, acl: AclList, may_read: MayRead | None
    ) -> Iterator[Connection]:
        """Each connection once."""
        told: _Watchers = {}
        is_open = acl is None or may_read is None
        for table, taken, kept in fired:
            for watchers, is_taken in ((taken, True), (kept, False)):
                for connection in watchers:
                    if is_taken:
                        self._consume(table, connection, path)
                    if connection not in told:
                        told[connection] = None
                        if is_open or (may_read is not None and may_read(connection, acl)):
                            yield connection

    def _consume(self, table: int, connection: Connection, path: bytes) -> None:
        """Remove the connection's entry of a one-shot watch that was removed from its table."""
        holding = self._holdings[connection]
        holding.paths[table].remove(path)
        self._uncount(connection, holding, path)

    # Counts, for metrics and the four-letter words.

    def holders(self) -> list[Connection]:
        """The connections with any watch, as they are now."""
        return list(self._holdings)

    def data_paths_of(self, connection: Connection) -> list[bytes]:
        """`wchc`: the paths that a connection watches for data."""
        holding = self._holdings.get(connection)
        if holding is None:
            return []
        return [*(holding.paths[_DATA] | holding.paths[_PERSISTENT] | holding.paths[_RECURSIVE])]

    def data_watches_count(self, connection: Connection) -> int:
        """`wchs`: how many paths a connection watches for data."""
        holding = self._holdings.get(connection)
        return 0 if holding is None else holding.count - len(holding.paths[_CHILD])

    def data_paths(self) -> Iterator[bytes]:
        """`wchp`, `wchs`: paths with any watch for data, each once, unless a table changes meanwhile."""
        for table in (_DATA, _PERSISTENT, _RECURSIVE):
            for path in list(self._tables[table]):
                if not any(path in self._tables[other] for other in _BEFORE[table]):
                    yield path

    def data_watchers(self, path: bytes) -> list[Connection]:
        """`wchp`: the connections that watch the data of a path."""
        watchers: _Watchers = {}
        for table in (_DATA, _PERSISTENT, _RECURSIVE):
            watchers.update(self._tables[table].get(path, {}))
        return list(watchers)

    # The two sides of a watch.

    def _add(self, table: int, connection: Connection, path: bytes) -> None:
        holding = self._holdings.get(connection)
        if holding is None:
            holding = self._holdings[connection] = _Holding(connection)
        paths = holding.paths[table]
        if path in paths:
            return
        paths.add(path)
        size = WATCH_BYTES + len(path)
        holding.count += 1
        holding.bytes += size
        self.total_count += 1
        self.total_bytes += size
        watchers = self._tables[table].get(path)
        if watchers is None:
            self._tables[table][path] = holding.alone
        elif len(watchers) == 1:
            self._tables[table][path] = {**watchers, connection: None}
        else:
            watchers[connection] = None

    def _forget(self, table: int, connection: Connection, path: bytes) -> None:
        holding = self._holdings[connection]
        holding.paths[table].remove(path)
        watchers = self._tables[table][path]
        assert connection in watchers
        if len(watchers) == 1:
            del self._tables[table][path]
        else:
            del watchers[connection]
        self._uncount(connection, holding, path)

    def _uncount(self, connection: Connection, holding: _Holding, path: bytes) -> None:
        size = WATCH_BYTES + len(path)
        holding.count -= 1
        holding.bytes -= size
        self.total_count -= 1
        self.total_bytes -= size
        assert holding.count >= 0
        assert self.total_count >= 0
        if not holding.count:
            del self._holdings[connection]


def _stat_field(znode: Znode, index: int) -> int:
    value: int = STAT_LAYOUT.unpack_from(znode, STAT_AT)[index]
    return value
