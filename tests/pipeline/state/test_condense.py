"""Which rows of a history stay: the last of each kind, and nothing that others undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from datatree.opcodes import OpCode
from datatree.record import Txn
from tests.pipeline.rigs.decoded import transactions
from zab.pipeline.state import condense
from zab.pipeline.state.condense import CHANGES, condensed

FIRST = 1 << 32


def left(txns: Iterable[Txn], *, exact: bool = True, native: bool = True) -> list[int]:
    """The counters of the zxids of the rows that stay."""
    tables = list(condensed(transactions(list(txns), is_native=native), is_exact=exact, is_native=native))
    assert all(table.schema.equals(CHANGES) for table in tables)
    return [zxid - FIRST for table in tables for zxid in table.column("zxid").to_pylist()]


def writes(*kinds: str) -> Iterator[Txn]:
    """create, set, acl or delete of a path, as "c/a", "s/a", …; "n" creates without the parent's counter."""
    cversion = 0
    for zxid, word in enumerate(kinds, FIRST + 1):
        kind, path = word[0], word[1:].encode()
        cversion += kind == "c"
        plain = Txn(zxid, 1000 + zxid, 7, 1, OpCode.DELETE, 0, path, None, None)
        match kind:
            case "c" | "n":
                number = cversion if kind == "c" else -1
                yield plain._replace(type=OpCode.CREATE, number=number, data=b"", rest=(None, 0))
            case "s":
                yield plain._replace(type=OpCode.SET_DATA, number=5, data=b"x")
            case "a":
                yield plain._replace(type=OpCode.SET_ACL, number=5, rest=(None,))
            case _:
                yield plain


@pytest.fixture(params=["all at once", "row by row", "given away"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "all at once":
        monkeypatch.setattr(condense, "WINDOW_BYTES", 1)
    if request.param == "given away":
        monkeypatch.setattr(condense, "HELD_ROWS", 5)


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ("s/a s/b s/a s/a", [2, 4]),
        ("s/a a/a s/a a/a", [3, 4]),
        ("s/a a/a d/a", [3]),
        ("d/a c/a s/a a/a s/a", [2, 4, 5]),
        # The last create below the root and the last change below it stay, for what they say of the root.
        ("c/a s/a d/a", [1, 3]),
        ("c/a d/a c/b", [3]),
        ("c/a d/a c/a d/a c/b d/b c/c", [7]),
        ("c/a d/a c/b d/b", [3, 4]),
        ("c/b c/a c/c d/a", [1, 3, 4]),
        # Without its delete, a create that stays for its parent's sake would make the path again.
        ("c/b/a c/a d/a d/b/a", [1, 2, 3, 4]),
        # A path that was there when the stretch began is deleted in it.
        ("d/a c/a d/a c/b", [3, 4]),
        ("d/a c/b c/a d/a", [2, 3, 4]),
    ],
)
def test_what_stays(kinds: str, kept: list[int]) -> None:
    assert left(writes(*kinds.split())) == kept


def test_over_a_fuzzy_snapshot_the_last_delete_of_each_path_stays() -> None:
    """The snapshot may hold the path already."""
    assert left(writes(*["c/a", "d/a", "c/b", "d/b", "c/c"]), exact=False, native=False) == [2, 4, 5]


def test_creates_without_the_parents_counter_are_all_counted() -> None:
    kinds = ["n/a", "d/a", "n/b", "d/b", "n/c"]
    assert left(writes(*kinds), native=False) == [1, 2, 3, 4, 5]
    # In logs of ours, the same number is the counter itself.
    assert left(writes(*kinds)) == [5]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("exact", [True, False])
def test_no_more_stays_in_pieces_than_at_once(exact: bool) -> None:
    rng = Random(1)
    there: set[str] = set()
    kinds = []
    for _ in range(400):
        path = f"/{rng.randrange(12)}"
        kinds.append(rng.choice("sda") + path if path in there else "c" + path)
        there ^= {path} if kinds[-1][0] in "cd" else set()
    # At most the last of each kind, of each path, and the two that are the root's.
    assert len(left(writes(*kinds), exact=exact)) <= (12 * 3 + 2) * (80 if condense.HELD_ROWS == 5 else 1)


def test_what_changes_nothing_is_left_out() -> None:
    txns = [
        Txn(FIRST + 1, 5, 7, 0, OpCode.CREATE_SESSION, 4000, b"", None, None),
        Txn(FIRST + 2, 5, 7, 1, OpCode.ERROR, -101, b"/a", None, (5,)),
        Txn(FIRST + 3, 5, 7, 2, OpCode.MULTI, 0, b"", None, ((13, 1, b"/a", None, None), (5, 3, b"/a", b"x", None))),
        Txn(FIRST + 4, 5, 7, 2, OpCode.MULTI, 0, b"", None, ((5, 4, b"/a", b"y", None), (-1, -2, b"", None, None))),
        Txn(FIRST + 5, 5, 7, 3, OpCode.CLOSE_SESSION, 0, b"", None, (b"/b", b"/c")),
    ]
    assert left(txns) == [3, 5, 5]
    assert left([]) == []


def test_parts_of_a_multi_keep_their_order() -> None:
    parts = ((1, 9, b"/a", b"", (None, 0)), (5, 1, b"/a", b"x", None), (2, 0, b"/a", None, None))
    multi = Txn(FIRST + 2, 5, 7, 2, OpCode.MULTI, 0, b"", None, (*parts, (1, 10, b"/b", b"", (None, 0))))
    rows = [*writes("s/c"), multi, next(writes("s/c"))._replace(zxid=FIRST + 3)]
    (table,) = condensed(transactions(rows), is_exact=True, is_native=True)
    assert list(zip(*(table.column(name).to_pylist() for name in ("zxid", "path")), strict=True)) == [
        (FIRST + 2, "/b"),
        (FIRST + 3, "/c"),
    ]
