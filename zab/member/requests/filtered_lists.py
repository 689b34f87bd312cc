"""The answer to a filteredList: found in one slice, so that all of it is from one state, and encoded in several.

Not here: the search for the children, and permissions (`child_lists`).
"""

from __future__ import annotations

from collections.abc import Generator

import attrs

from datatree.jute import NULL
from datatree.requests import FilteredList
from datatree.slices import NAMES
from datatree.znode import Znode, data_of, stat_of
from zab.jute.replies import pack_int
from zab.member.requests.listings import listing


@attrs.define(eq=False)
class Filtered:
    """The children that were found. A znode is immutable: a change replaces it."""

    asked: FilteredList
    stat: bytes
    """The stat of their parent."""
    start: int
    """The offset of the names in the paths."""
    children: list[tuple[bytes, Znode, bytes | None]]
    """Path, znode, and its data, if that is asked for and stored separately."""
    told_bytes: int
    """The size of the children in the answer."""

    def written(self) -> Generator[None, None, bytes]:
        """Encode the body of the answer. Yields between two slices."""
        asked, children = self.asked, self.children
        names = yield from listing([path for path, _, _ in children], self.start)
        if asked.stats is None:
            return names + self.stat
        pieces = [names, self.stat]
        for is_asked, piece_of in ((asked.stats, _stat), (asked.data, _data)):
            told = children if is_asked else []
            pieces.append(pack_int(len(told)))
            for first in range(0, len(told), NAMES):
                if len(told) > NAMES:
                    yield
                pieces += [piece_of(*child) for child in told[first : first + NAMES]]
        return b"".join(pieces)


def _stat(_path: bytes, znode: Znode, _large: bytes | None) -> bytes:
    return stat_of(znode)


def _data(path: bytes, znode: Znode, large: bytes | None) -> bytes:
    data = data_of(path, znode, {path: large or b""})
    return NULL if data is None else pack_int(len(data)) + data
