"""An exact view of a tree at one moment, read in slices while writes go on.

The path map of a tree is 256 dicts (E1 sharded map). When a cursor begins, it owns none of them; a write to a dict that
the cursor has not taken yet first gives it a copy, and the cursor itself copies the others as it comes to them. Znodes
are immutable, so the 256 copies together are the tree of that moment. Each is turned into a sorted run, and the runs
are merged in slices: the keys of one run cut the path order into ranges, and each range is gathered from all runs and
sorted. Copies and runs are kept as tuples of atoms, since dicts and lists of a million items would occupy the garbage
collector.

Invariants: what the slices hold is the tree at `zxid`, no earlier and no later; paths ascend, so a parent comes before
its children. One cursor at a time. It may be read and closed by another thread than the one that writes: a dict is
copied in one step of the interpreter, and `setdefault` keeps whichever copy came first, which is the right one, since a
write happens only after its own copy was offered.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from datatree.digest import DIGEST_VERSION
from datatree.record import AclList
from datatree.znode import Znode

__all__ = ["SLICE_COUNT", "SnapshotCursor"]

# Items in a slice, roughly; exactly, it is the number of ranges that is chosen.
SLICE_COUNT: Final = 4096

# Paths and their znodes, in the same order.
_Run: TypeAlias = tuple[tuple[bytes, ...], tuple[Znode, ...]]
_EMPTY: Final[_Run] = ((), ())


class SnapshotCursor:
    """Made by `DataTree.begin_snapshot`. `sessions` and `acls` (id to list) are copies of the same moment.

    `shards` are the dicts of the tree, which go on changing; `end` is called once, when the cursor is closed.
    """

    def __init__(
        self,
        zxid: int,
        digest: int,
        znode_count: int,
        sessions: dict[int, int],
        acls: dict[int, AclList],
        shards: Sequence[dict[bytes, Znode]],
        end: Callable[[], None],
    ) -> None:
        self.zxid = zxid
        self.digest = digest
        self.digest_version: int = DIGEST_VERSION
        self.znode_count = znode_count
        self.sessions = sessions
        self.acls = acls
        self._shards = shards
        self._end: Callable[[], None] | None = end
        self._taken: dict[int, _Run] = {}

    def take(self, index: int, shard: dict[bytes, Znode]) -> None:
        """Keep `shard` as it is now, unless its dict was taken before. Called before every write to it."""
        if index not in self._taken:
            copy = shard.copy()
            self._taken.setdefault(index, (tuple(copy), tuple(copy.values())) if copy else _EMPTY)

    def slices(self, count: int = SLICE_COUNT) -> Iterator[list[tuple[bytes, Znode]]]:
        """All (path, znode) in path order, about `count` at a time. The slices are to be iterated once.

        An empty slice means that the step went into preparation, so that each step is short.
        """
        assert self._end is not None, "a closed cursor has no slices"
        runs: list[_Run] = []
        for index, shard in enumerate(self._shards):
            self.take(index, shard)
            run = self._taken[index]
            runs.append(_sorted(run) if len(run[0]) > 1 else run)
            # The marker stays: the dict counts as taken until the cursor is closed.
            self._taken[index] = _EMPTY
            yield []
        yield from _merge(runs, count)

    def close(self) -> None:
        """Let go of the tree, whose writes then copy nothing more. May be called twice."""
        if self._end is not None:
            self._end()
            self._end = None
            self._shards = ()
        self._taken.clear()


def _sorted(run: _Run) -> _Run:
    shard = dict(zip(*run, strict=True))
    keys = tuple(sorted(shard))
    return keys, tuple([shard[key] for key in keys])


def _merge(runs: list[_Run], count: int) -> Iterator[list[tuple[bytes, Znode]]]:
    """Merge sorted runs. The longest run cuts: every `count` / len(runs) keys of it end a range."""
    widest = max((keys for keys, _ in runs), key=len)
    step = max(1, count // len(runs))
    runs = [run for run in runs if run[0]]
    positions = [0] * len(runs)
    for cut in [*widest[step - 1 :: step], None]:
        gathered: dict[bytes, Znode] = {}
        for number, (keys, znodes) in enumerate(runs):
            start = positions[number]
            end = len(keys) if cut is None else bisect_right(keys, cut, start)
            if end > start:
                gathered.update(zip(keys[start:end], znodes[start:end], strict=True))
                positions[number] = end
        if gathered:
            yield [(path, gathered[path]) for path in sorted(gathered)]
