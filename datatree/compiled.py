"""The compiled counterparts of what is plain in this package (`zab/native/tree.c`, `zab/native/writes.c`), if they are
used.

    writes  prepare, prepare_parts      `datatree.prepare`      a write, the parts of a multi -> a transaction
            encode, decode              `datatree.record`       transactions <-> records
            encode_parts, decode_parts  `datatree.record`       the parts of a multi <-> its rest
    tree    apply, apply_parts          `datatree.apply`        a transaction, the parts of a multi -> replies

What is plain in every respect has the same effect there as here. Everything else they leave undone, and say so: they
return None, or where they stopped. Then Python goes on. So all rules, refusals and errors are in Python, which is
complete, and the reference.

Not here: finding and loading them (`zab.native`), since that looks at files and at the environment.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

__all__ = ["USED", "TreePart", "Used", "WritesPart", "using"]


class TreePart(Protocol):
    """The tree's side."""

    def apply(self, tree: Any, txn: Any, is_watched: bool, /) -> Any:
        """What `DataTree.apply` returns, or None."""
        ...

    def apply_parts(
        self, tree: Any, zxid: int, time: int, parts: Any, first: int, triggers: Any, results: list[Any], /
    ) -> int:
        """Apply parts from the index `first` on. The index of the first that is left, or how many there are."""
        ...


class WritesPart(Protocol):
    """The other sides."""

    def prepare(self, view: Any, request: Any, zxid: int, time: int, /) -> Any:
        """The transaction, or None. `view` is `Outstanding.plain`."""
        ...

    def prepare_parts(
        self,
        view: Any,
        journal: Any,
        zxid: int,
        time: int,
        body: bytes,
        offset: int,
        parts: list[Any],
        count_max: int,
        bytes_max: int,
        /,
    ) -> int:
        """Prepare parts from this offset on and append them, until there are so many, or more than so many bytes. The
        offset after them."""
        ...

    def encode(self, txn: Any, /) -> bytes | None: ...

    def encode_parts(self, parts: Any, /) -> bytes | None: ...

    def decode(self, body: bytes, offset: int, first: int, count: int, /) -> tuple[list[Any], int]:
        """The transactions of up to `count` records from `offset` on, with the zxids from `first` on, and the offset
        after them."""
        ...

    def decode_parts(self, rest: bytes, /) -> Any: ...


class Used:
    """Holds the parts that are used; None: Python does everything."""

    __slots__ = ("tree", "writes")

    def __init__(self) -> None:
        self.tree: TreePart | None = None
        self.writes: WritesPart | None = None


USED: Final = Used()
"""One for the process, as what is used changes nothing but the speed."""


@contextmanager
def using(tree: TreePart | None, writes: WritesPart | None) -> Iterator[None]:
    """Use these for a while."""
    before = USED.tree, USED.writes
    USED.tree, USED.writes = tree, writes
    try:
        yield
    finally:
        USED.tree, USED.writes = before
