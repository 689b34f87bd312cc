"""The access control lists that guarded a path in the past, noted when a znode is deleted or gets another list.

The log says what was written, not who could read it then. To show old transactions to clients, that must be known: a
deleted znode had a list, and an existing one may have had a stricter one. So a tree notes every list that ceases to
guard a path, with the zxid up to which it did. The open list is not noted, so without restrictions this costs nothing.

    complete_from   everything about changes above this zxid is known: where the tree was loaded, at first; it rises
                    when the oldest lists are forgotten, and falls after looking back (`datatree.recovery.look_back`)

Invariants: at most `count_max` paths are held, `LISTS_MAX` lists of each, and `BYTES_MAX` of paths and lists, each list
as if no other path had it; a list that was forgotten ended at or below `complete_from`. It errs on the side of secrecy:
a path that was used again is also guarded by the lists of its earlier znodes that ended after the change in question.

This is not replicated state: it depends on where a member's tree was loaded.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from datatree.record import AclList

__all__ = ["BYTES_MAX", "COUNT_MAX", "LISTS_MAX", "PastAcls"]

COUNT_MAX: Final = 50_000
LISTS_MAX: Final = 8
BYTES_MAX: Final = 64 << 20
ENTRY_BYTES: Final = 100
"""The size of an entry of a list, besides its scheme and id."""


class PastAcls:
    """The lists that used to guard paths."""

    __slots__ = ("_ended", "bytes", "complete_from", "count_max")

    def __init__(self, complete_from: int, count_max: int = COUNT_MAX) -> None:
        assert count_max > 0
        self.complete_from = complete_from
        self.count_max = count_max
        # path -> (zxid, list, zxid, list, …), the latest last; paths in the order of their latest. The garbage
        # collector does not track flat tuples of atoms.
        self._ended: dict[bytes, tuple[int | AclList, ...]] = {}
        self.bytes = 0
        """The size of the paths and their lists."""

    def __len__(self) -> int:
        """The number of paths."""
        return len(self._ended)

    def ended(self, path: bytes, zxid: int, acl: AclList) -> None:
        """Note that `acl` guarded `path` up to the transaction `zxid`, the latest one."""
        assert acl is not None
        before = self._ended.pop(path, ())
        if not before:
            self.bytes += len(path)
        if acl in before:
            at = before.index(acl)
            before = before[: at - 1] + before[at + 1 :]
        else:
            self.bytes += _bytes_of(acl)
        if len(before) == 2 * LISTS_MAX:
            self._forgot(before[:2])
            before = before[2:]
        self._ended[path] = (*before, zxid, acl)
        self._forget_oldest()

    def since(self, path: bytes, zxid: int) -> Iterator[AclList]:
        """The lists that guarded `path` at `zxid` or later, except the present one."""
        ended = self._ended.get(path)
        if ended is not None:
            for at in range(0, len(ended), 2):
                if ended[at] >= zxid:  # type: ignore[operator]  # zxids are at even indexes
                    yield ended[at + 1]  # type: ignore[misc]  # lists at odd ones

    def prepend(self, older: "PastAcls", upto: int) -> None:
        """Add what is known about the time up to `upto`; ignored if this no longer begins there."""
        if upto != self.complete_from:
            return
        merged = older._ended.copy()
        self.complete_from = older.complete_from
        for path, ended in self._ended.items():
            before = merged.pop(path, ())
            kept = [at for at in range(0, len(before), 2) if before[at + 1] not in ended]
            both = (*(part for at in kept for part in before[at : at + 2]), *ended)
            self._forgot(both[: -2 * LISTS_MAX])
            merged[path] = both[-2 * LISTS_MAX :]
        self._ended = merged
        self.bytes = sum(len(path) + sum(map(_bytes_of, ended[1::2])) for path, ended in merged.items())
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Drop the oldest while there is too much. A tenth at a time: finding the first item of a dict again and again
        would take longer each time."""
        while len(self._ended) > self.count_max or self.bytes > BYTES_MAX:
            for path in list(islice(self._ended, max(1, len(self._ended) // 10))):
                self.bytes -= len(path)
                self._forgot(self._ended.pop(path))

    def _forgot(self, ended: tuple[int | AclList, ...]) -> None:
        for at in range(0, len(ended), 2):
            zxid, acl = ended[at : at + 2]
            assert isinstance(zxid, int)
            self.complete_from = max(self.complete_from, zxid)
            self.bytes -= _bytes_of(acl)


def _bytes_of(acl: int | AclList) -> int:
    assert isinstance(acl, tuple)
    return sum(ENTRY_BYTES + len(scheme) + len(name) for _, scheme, name in acl)
