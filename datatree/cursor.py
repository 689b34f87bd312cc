"""An exact view of a tree at one moment, read in slices while writes go on.

The path map of a tree is 4096 dicts (E1 sharded map). When a cursor begins, it owns none of them; a write to a dict
that the cursor has not taken yet first gives it a copy, and the cursor itself copies the others as it comes to them.
Znodes are immutable, so the copies together are the tree of that moment. Data that is kept apart is told to the cursor
before it is replaced or dropped. Each copy is turned into a sorted run, and the runs are merged in slices: the keys of
one run cut the path order into ranges, and each range is gathered from all runs and sorted. Copies and runs are dicts
of atoms, at which the garbage collector never looks: with tuples of them one of its looks took 80 ms at 100,000 znodes.

Invariants: what the slices hold is the tree at `zxid`, no earlier and no later; paths ascend, so a parent comes before
its children. One cursor at a time. It may be read and closed by another thread than the one that writes: a dict is
copied in one step of the interpreter, and `setdefault` keeps whichever copy came first, which is the right one, since a
write happens only after its own copy was offered. Large data is looked up in the tree first and then among what was
told, so what is found in the tree too late is overruled.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from datatree.digest import DIGEST_VERSION
from datatree.record import AclList
from datatree.znode import KIND_AT, LARGE, Znode, data_of

__all__ = ["SLICE_COUNT", "SnapshotCursor"]

# Items in a slice, roughly; exactly, it is the number of ranges that is chosen.
SLICE_COUNT: Final = 4096

_Run: TypeAlias = dict[bytes, Znode]
_TAKEN: Final[_Run] = {}

_path: Final = itemgetter(0)


class SnapshotCursor:
    """Made by `DataTree.begin_snapshot`. `sessions` and `acls` (id to list) are copies of the same moment.

    `shards` and `large` are the dicts of the tree, which go on changing; `end` is called once, when the cursor is
    closed.
    """

    def __init__(
        self,
        zxid: int,
        digest: int,
        znode_count: int,
        sessions: dict[int, int],
        acls: dict[int, AclList],
        shards: Sequence[dict[bytes, Znode]],
        large: Mapping[bytes, bytes],
        end: Callable[[], None],
    ) -> None:
        self.zxid = zxid
        self.digest = digest
        self.digest_version: int = DIGEST_VERSION
        self.znode_count = znode_count
        self.sessions = sessions
        self.acls = acls
        self._shards = shards
        self._large = large
        self._kept: dict[bytes, bytes] = {}
        self._end: Callable[[], None] | None = end
        self._taken: dict[int, _Run] = {}

    def take(self, index: int, shard: dict[bytes, Znode]) -> None:
        """Keep `shard` as it is now, unless its dict was taken before. Called before every write to it."""
        if index not in self._taken:
            self._taken.setdefault(index, shard.copy())

    def keep(self, path: bytes, data: bytes) -> None:
        """Large data that is about to be replaced or dropped. Called before that, and after `take`."""
        self._kept.setdefault(path, data)

    def data_of(self, path: bytes, znode: Znode) -> bytes | None:
        """The data of a znode of the slices; None where it has none."""
        if znode[KIND_AT] != LARGE:
            return data_of(path, znode, {})
        now = self._large.get(path)
        return self._kept.get(path, now)

    def slices(self, count: int = SLICE_COUNT) -> Iterator[list[tuple[bytes, Znode]]]:
        """All (path, znode) in path order, about `count` at a time. The slices are to be iterated once.

        An empty slice means that the step went into preparation, so that each step is short.
        """
        assert self._end is not None, "a closed cursor has no slices"
        runs: list[_Run] = []
        prepared = 0
        for index, shard in enumerate(self._shards):
            self.take(index, shard)
            copy = self._taken[index]
            # The marker stays: the dict counts as taken until the cursor is closed.
            self._taken[index] = _TAKEN
            if copy:
                runs.append({path: copy[path] for path in sorted(copy)})
                prepared += len(copy)
            if prepared >= count:
                prepared = 0
                yield []
        yield from _merge(runs, count)

    def close(self) -> None:
        """Let go of the tree, whose writes then copy nothing more. May be called twice."""
        if self._end is not None:
            self._end()
            self._end = None
            self._shards = ()
            self._large = {}
        self._taken.clear()
        self._kept.clear()


def _merge(runs: list[_Run], count: int) -> Iterator[list[tuple[bytes, Znode]]]:
    """Merge sorted runs. The longest run cuts: every `count` / len(runs) keys of it end a range."""
    widest = max(runs, key=len)
    step = max(1, count // len(runs))
    rest = [iter(run.items()) for run in runs]
    heads = [next(items, None) for items in rest]
    for cut in [*list(widest)[step - 1 :: step], None]:
        gathered: list[tuple[bytes, Znode]] = []
        for number, head in enumerate(heads):
            items = rest[number]
            while head is not None and (cut is None or head[0] <= cut):
                gathered.append(head)
                head = next(items, None)
            heads[number] = head
        if gathered:
            gathered.sort(key=_path)
            yield gathered
