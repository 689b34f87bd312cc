"""What is left of a log leads to the same state as all of it, from whatever snapshot, in however many pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import copy_of, fuzzy, history, states
from tests.pipeline.rigs.txn_rows import log_rows
from zab.pipeline.decoding.acl_text import parse_acl_text
from zab.pipeline.schema import LOG, arrow_schema
from zab.pipeline.state import condense
from zab.pipeline.state.condense import COLUMNS, condensed

CREATES = {1, 15, 19, 21}
DELETES = {2, 20}
SCHEMA = arrow_schema(column for column in LOG if column.name in COLUMNS)


def batches(rows: Iterable[dict[str, Any]], size: int = 7) -> list[pa.RecordBatch]:
    found = pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names} for row in rows], SCHEMA)
    return found.select(list(COLUMNS)).to_batches(max_chunksize=size)


def left(txns: Iterable[Txn], *, exact: bool = True, unlisted: bool = False) -> list[dict[str, Any]]:
    rows = list(log_rows(txns))
    if unlisted:
        rows = [row | {"paths": None} for row in rows]
    return [row for batch in condensed(batches(rows), exact=exact) for row in batch.to_pylist()]


def applied(state: ZooKeeperState, rows: Iterable[dict[str, Any]], zxid: int) -> ZooKeeperState:
    """By the rules for a whole tree."""
    for row in rows:
        kind, rest = row["type"], None
        if kind in CREATES:
            rest = (parse_acl_text(row["acl"]), row["owner"])
        elif kind == OpCode.SET_ACL:
            rest = (parse_acl_text(row["acl"]),)
        elif kind == OpCode.CLOSE_SESSION:
            rest = tuple(path.encode() for path in row["paths"] or ())
        number = row["timeout"] if kind == OpCode.CREATE_SESSION else row["version"] or 0
        time = round(row["time"].timestamp() * 1000)
        path = (row["path"] or "").encode()
        state.apply(Txn(row["zxid"], time, row["session"], 0, kind, number, path, row["data"], rest))
    state.zxid = zxid
    return state


def counted(state: ZooKeeperState, rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """The children of each znode there is, by adding and subtracting, as over an exact snapshot."""
    counts = Counter({path.decode(): len(names) for path, names in state.children.items()})
    for row in rows:
        gone = [row["path"]] if row["type"] in DELETES else row["paths"] or []
        for path in gone:
            counts[path.rpartition("/")[0] or "/"] -= 1
            counts.pop(path, None)
        if row["type"] in CREATES:
            counts[row["path"].rpartition("/")[0] or "/"] += 1
            counts[row["path"]] = 0
    return {path: count for path, count in counts.items() if count}


@pytest.fixture(params=[(1 << 19, 1 << 20), (40, 1 << 20), (25, 60), (1, 1)], ids=["whole", "joined", "given", "each"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a window, and rows that are held."""
    monkeypatch.setattr(condense, "WINDOW_ROWS", request.param[0])
    monkeypatch.setattr(condense, "HELD_ROWS", request.param[1])


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", range(12))
def test_it_leads_to_the_same_state(seed: int) -> None:
    txns, _ = history(seed, 300)
    moments = states(txns)
    rng = Random(seed)
    for start, end in ((0, 300), sorted(rng.sample(range(300), 2)), sorted(rng.sample(range(300), 2))):
        base = moments[start]
        rows = left(txns[start:end])
        assert applied(copy_of(base), rows, moments[end].zxid) == moments[end]
        counts = {path.decode(): len(names) for path, names in moments[end].children.items()}
        assert counted(base, rows) == counts


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", range(8))
def test_it_makes_a_fuzzy_snapshot_exact(seed: int) -> None:
    txns, _ = history(seed, 300)
    moments = states(txns)
    rng = Random(seed)
    for start in range(0, 250, 50):
        znodes = list(fuzzy(moments[:290], start, rng))
        base = ZooKeeperState.build(znodes, moments[start].sessions, moments[start].zxid)
        assert applied(base, left(txns[start:], exact=False), moments[300].zxid) == moments[300]


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", range(4))
def test_sessions_that_closed_without_a_list(seed: int) -> None:
    txns, _ = history(seed, 300)
    moments = states(txns)
    assert applied(copy_of(moments[100]), left(txns[100:], unlisted=True), moments[300].zxid) == moments[300]


def writes(*kinds: str) -> Iterator[Txn]:
    """create, set, acl or delete of a path, as "c/a", "s/a", …"""
    cversion = 0
    for zxid, word in enumerate(kinds, 1):
        kind, path = word[0], word[1:].encode()
        cversion += kind == "c"
        plain = Txn(zxid, 1000 + zxid, 7, zxid, OpCode.DELETE, 0, path, None, None)
        match kind:
            case "c":
                yield evolve(plain, type=OpCode.CREATE, number=cversion, data=b"", rest=(None, 0))
            case "s":
                yield evolve(plain, type=OpCode.SET_DATA, number=zxid, data=b"%d" % zxid)
            case "a":
                yield evolve(plain, type=OpCode.SET_ACL, number=zxid, rest=(None,))
            case _:
                yield plain


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ("s/a s/b s/a s/a", [2, 4]),
        ("s/a a/a s/a a/a", [3, 4]),
        ("s/a d/a", [2]),
        # The last create below the root and its last change stay, with what keeps the count of its children.
        ("c/a s/a d/a", [1, 3]),
        ("c/a d/a c/b", [3]),
        ("c/a d/a c/a d/a c/b", [5]),
        ("c/a c/b d/a", [1, 2, 3]),
        ("d/a c/a d/a c/b", [3, 4]),
        ("d/a c/b c/a d/a", [1, 2, 3, 4]),
        ("d/a c/a s/a c/b", [1, 2, 3, 4]),
        # Nothing can be said of a path that is made twice in a row.
        ("c/a c/a d/a c/b", [1, 2, 3, 4]),
    ],
)
def test_what_is_left(kinds: str, kept: list[int]) -> None:
    assert [row["zxid"] for row in left(writes(*kinds.split()))] == kept


def test_what_changes_nothing_is_left_out() -> None:
    txns = [
        Txn(1, 5, 7, 0, OpCode.CREATE_SESSION, 4000, b"", None, None),
        Txn(2, 5, 7, 1, OpCode.ERROR, -101, b"/a", None, (5,)),
        Txn(3, 5, 7, 2, OpCode.MULTI, 0, b"", None, ((13, 1, b"/a", None, None), (5, 3, b"/a", b"x", None))),
        Txn(4, 5, 7, 3, OpCode.CLOSE_SESSION, 0, b"", None, ()),
    ]
    assert [(row["zxid"], row["part"]) for row in left(txns)] == [(1, None), (3, 1), (4, None)]
    assert list(condensed([], exact=True)) == []


def test_many_writes_of_few_paths_leave_few() -> None:
    rng = Random(1)
    txns = list(writes(*(f"c/{number}" for number in range(20)), *(f"s/{rng.randrange(20)}" for _ in range(3000))))
    assert len(left(txns)) <= 40
