"""Totals of a snapshot, and differences between two: `zab snapshot --summary` and `zab snapshot A B`.

A summary has a line for each znode with children: how many descendants, and bytes of data, its own among them, as
ZooKeeper's SnapshotRecursiveSummary prints it. A comparison has a line for each subtree that only one has, and for each
znode that both have and that is not the same.

Not here: reading (`zab.cli.files.inspect`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field, frozen

from datatree.zookeeper.snapshot import SnapshotZnode

COMPARED: Final = (
    *("data", "acl", "version", "cversion", "aversion", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime"),
)
"""What makes two znodes differ, in the order in which it is named."""


@define
class Total:
    """The totals of a znode and all its descendants."""

    descendants: int = 0
    size: int = 0
    """Bytes of data."""
    children: list[bytes] = field(factory=list)
    """Their paths, rising."""


@frozen
class Difference:
    """A subtree that one has (`count` znodes with `size` bytes), or a znode of both whose `fields` are not the same."""

    mark: str
    path: bytes
    count: int
    size: int
    fields: tuple[str, ...] = ()


def parent_of(path: bytes) -> bytes:
    return path.rpartition(b"/")[0] or b"/"


def totals(znodes: Iterable[SnapshotZnode]) -> dict[bytes, Total]:
    """The totals of every path, including "/"."""
    found: dict[bytes, Total] = {}
    for znode in znodes:
        found[znode.path] = Total(0, len(znode.data or b""))
    # Whoever is below comes before whom it is below of.
    for path in sorted(found, key=lambda path: (-path.count(b"/") if path != b"/" else 1, path)):
        above = found.get(parent_of(path)) if path != b"/" else None
        if above is not None:
            above.descendants += 1 + found[path].descendants
            above.size += found[path].size
            above.children.append(path)
    return found


def summary(found: dict[bytes, Total], start: bytes, depth: int) -> Iterator[tuple[int, bytes, Total]]:
    """(level, path, total) of `start` and of what is below it and has children, down to `depth` levels; 0: all."""
    pending = [(0, start)]
    while pending:
        level, path = pending.pop()
        total = found[path]
        yield level, path, total
        if not depth or level < depth:
            pending += [(level + 1, child) for child in reversed(total.children) if found[child].children]


def compare(left: Iterable[SnapshotZnode], right: Iterable[SnapshotZnode]) -> Iterator[Difference]:
    """By path; `-` only the left one has it, `+` only the right one, `~` it is not the same."""
    lefts, rights = ({znode.path: znode for znode in each} for each in (left, right))
    of_left, of_right = totals(lefts.values()), totals(rights.values())
    for path in sorted(lefts.keys() | rights.keys()):
        one, other = lefts.get(path), rights.get(path)
        if one is not None and other is not None:
            fields = tuple(name for name in COMPARED if getattr(one, name) != getattr(other, name))
            if fields:
                yield Difference("~", path, 1, len(other.data or b""), fields)
        elif path == b"/" or (parent_of(path) in lefts and parent_of(path) in rights):
            mark, total = ("-", of_left[path]) if other is None else ("+", of_right[path])
            yield Difference(mark, path, 1 + total.descendants, total.size)
