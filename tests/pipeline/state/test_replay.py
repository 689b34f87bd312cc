"""The replay in columns against the trees that members and ZooKeeper have: all histories, from exact and from fuzzy
snapshots, in however many pieces and places."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.zookeeper.snapshot import SnapshotZnode, cursor_znodes
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import fuzzy, history, states
from tests.pipeline.rigs.decoded import transactions
from tests.pipeline.rigs.trees import as_znodes
from tests.pipeline.rigs.txn_rows import znode_rows
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.state import condense, replay
from zab.pipeline.state.condense import condensed
from zab.pipeline.state.replay import BASE, first_znodes, replayed, split
from zab.pipeline.state.sessions import SessionChanges, sessions_open

LABEL = Label("e", "1", "s", 9)
EXACT_OURS, EXACT_THEIRS, FUZZY = (True, True), (True, False), (False, False)
"""(the snapshot is exact, the logs are ours)"""


def base_of(znodes: Iterable[SnapshotZnode]) -> pa.Table:
    rows = [{name: row[name] for name in BASE.names} for row in znode_rows(znodes, 1)]
    return pa.Table.from_pylist(rows, BASE)


def exact_base(state: ZooKeeperState) -> pa.Table:
    return base_of(state.znodes[path] for path in sorted(state.znodes))


def columns_after(
    base: pa.Table, txns: Sequence[Txn], kind: tuple[bool, bool], *, places: int = 1, with_lists: bool = True
) -> list[dict[str, Any]]:
    """The rows of all places, by path."""
    is_exact, is_native = kind
    rows = transactions(txns, is_native=is_native, with_lists=with_lists)
    sessions = SessionChanges(is_exact)
    for one in rows:
        sessions.add(one)
    dealt = [list(split(table, places)) for table in condensed(rows, is_exact=is_exact, is_native=is_native)]
    found: list[dict[str, Any]] = []
    for place, own in enumerate(split(base, places)):
        changes = [tables[place] for tables in dealt]
        closed = sessions.unlisted
        for batch in replayed(own, changes, LABEL, is_native=is_native, closed=closed, place=(place, places)):
            assert batch.schema.equals(arrow_schema(ZNODES))
            found += batch.to_pylist()
    assert {(row["ensemble"], row["member"], row["snapshot"], row["zxid"]) for row in found} == {("e", "1", "s", 9)}
    return sorted(found, key=lambda row: row["path"].encode())


def check(found: list[dict[str, Any]], state: ZooKeeperState) -> None:
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    expected = list(znode_rows(znodes, state.zxid))
    assert [row["path"] for row in found] == [row["path"] for row in expected]
    for row, known in zip(found, expected, strict=True):
        assert {**row, **dict.fromkeys(("ensemble", "member", "snapshot", "zxid"))} == {
            name: None if name in ("ensemble", "member", "snapshot", "zxid") else known[name] for name in row
        }, row["path"]


@functools.cache
def lived(seed: int) -> tuple[list[Txn], list[ZooKeeperState]]:
    """A history of 300 transactions, and the state at each zxid; nobody changes them."""
    txns, _ = history(seed, 300)
    return txns, states(txns)


@pytest.fixture(params=["all at once", "row by row", "given away"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "all at once":
        monkeypatch.setattr(condense, "WINDOW_BYTES", 1)
        monkeypatch.setattr(replay, "ROWS_MAX", 3)
    if request.param == "given away":
        monkeypatch.setattr(condense, "HELD_ROWS", 5)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", range(6))
def test_from_an_exact_snapshot_to_any_zxid(seed: int) -> None:
    txns, moments = lived(seed)
    rng = Random(seed)
    for start, end in ((0, 300), *(sorted(rng.sample(range(300), 2)) for _ in range(2))):
        for kind, places in ((EXACT_OURS, 1), (EXACT_THEIRS, 1), (EXACT_OURS, 3), (FUZZY, 2)):
            found = columns_after(exact_base(moments[start]), txns[start:end], kind, places=places)
            check(found, moments[end])


@pytest.mark.parametrize("seed", range(20, 24))
def test_from_the_beginning_it_is_the_tree_that_a_member_has(seed: int) -> None:
    """Against `datatree.apply`, which knows nothing about ZooKeeper's rules."""
    txns, tree = history(seed, 400)
    found = columns_after(first_znodes(is_native=True), txns, EXACT_OURS)
    (batch,) = [pa.RecordBatch.from_pylist(found, arrow_schema(ZNODES))]
    assert list(as_znodes(batch)) == list(cursor_znodes(tree.begin_snapshot()))


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", range(5))
def test_it_makes_a_fuzzy_snapshot_exact(seed: int) -> None:
    txns, moments = lived(seed)
    rng = Random(seed)
    for start in range(0, 250, 50):
        base = base_of(fuzzy(moments[:290], start, rng))
        check(columns_after(base, txns[start:], FUZZY, places=1 + start % 4), moments[300])


def test_a_fuzzy_snapshot_that_is_taken_for_exact_is_noticed() -> None:
    """Without the deletes that only such a snapshot needs, some history comes out wrong."""
    txns, moments = lived(1)
    rng = Random(1)
    wrong = 0
    for start in range(50, 250, 4):
        base = base_of(fuzzy(moments[: start + 20], start, rng))
        found = columns_after(base, txns[start : start + 30], EXACT_THEIRS)
        wrong += {row["path"].encode() for row in found} != moments[start + 30].znodes.keys()
        check(columns_after(base, txns[start : start + 30], FUZZY), moments[start + 30])
    assert wrong


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_sessions_that_closed_without_a_list_take_their_ephemerals(seed: int) -> None:
    """Transactions as in logs of ZooKeeper before 3.6."""
    txns, moments = lived(seed)
    for kind in (EXACT_THEIRS, FUZZY):
        found = columns_after(exact_base(moments[100]), txns[100:], kind, places=2, with_lists=False)
        check(found, moments[300])


@pytest.mark.parametrize("last", [7, (1 << 31) - 2, (1 << 31) - 1])
def test_logs_without_the_parents_counter_count_it(last: int) -> None:
    """As those of ZooKeeper before 3.3.5; what comes after the largest number is smaller, and changes nothing."""
    state = ZooKeeperState.empty()
    state.znodes[b"/"].cversion = last
    base = exact_base(state)
    txns = [Txn(zxid, 0, 1, 0, OpCode.CREATE, -1, b"/%d" % zxid, b"", (None, 0)) for zxid in (5, 6, 7)]
    txns.append(Txn(8, 0, 1, 0, OpCode.CREATE, -1, b"/5/a", b"", (None, 0)))
    for txn in txns:
        state.apply(txn)
    check(columns_after(base, txns, EXACT_THEIRS), state)


def test_a_counter_past_its_largest_number() -> None:
    """ZooKeeper's stays where it is; ours goes on with the smallest."""
    txns = [Txn(5, 0, 1, 0, OpCode.CREATE, -(1 << 31), b"/a", b"", (None, 0))]
    state = ZooKeeperState.empty()
    state.znodes[b"/"].cversion = (1 << 31) - 1
    base = exact_base(state)
    state.apply(txns[0])
    check(columns_after(base, txns, EXACT_THEIRS), state)
    (root,) = (row for row in columns_after(base, txns, EXACT_OURS) if row["path"] == "/")
    assert (root["children_created"], root["pzxid"]) == (-(1 << 31), 5)


def test_our_own_configuration_has_no_version_yet() -> None:
    found = [replayed(first_znodes(is_native=ours), [], LABEL, is_native=ours) for ours in (True, False)]
    versions = [{row["path"]: row["version"] for batch in one for row in batch.to_pylist()} for one in found]
    assert [one[CONFIG.decode()] for one in versions] == [-1, 0]


def test_sums_of_quotas_are_left_out() -> None:
    path = b"/zookeeper/quota/a/zookeeper_stats"
    txns = [
        Txn(5, 0, 1, 0, OpCode.CREATE, 1, b"/zookeeper/quota/a", b"x", (None, 0)),
        Txn(6, 0, 1, 0, OpCode.CREATE, 1, path, b"count=1", (None, 0)),
    ]
    rows = {row["path"]: row["data"] for row in columns_after(first_znodes(is_native=True), txns, EXACT_OURS)}
    assert (rows["/zookeeper/quota/a"], rows[path.decode()]) == (b"x", b"")


def test_names_that_are_hard_to_take_apart() -> None:
    paths = ["/a", "/a/ä\U0001f40e", "/a/ä\U0001f40e/x'\"\\", "/a/a", "/a/a/a", "/%2F", "/%2F/ "]
    txns = [
        Txn(zxid, 5, 9, 0, OpCode.CREATE, zxid, path.encode(), b"", (None, 0)) for zxid, path in enumerate(paths, 1)
    ]
    found = columns_after(first_znodes(is_native=True), txns, EXACT_OURS, places=3)
    counts = {row["path"]: row["num_children"] for row in found}
    assert [counts[path] for path in paths] == [2, 1, 0, 1, 0, 1, 0]


def test_hostile_records_do_no_harm() -> None:
    """Paths that no leader admits, and writes to what is not there: rows or none, but no error."""
    paths = [b"a", b"", b"//", b"/x/", b"/" * 40]
    kinds = [(OpCode.CREATE, (None, 0)), (OpCode.DELETE, None), (OpCode.SET_DATA, None), (OpCode.SET_ACL, (None,))]
    cases = [(path, *kind) for path in (*paths, b"/", b"/never") for kind in kinds]
    txns = [Txn(n, 5, 9, 0, kind, -7, path, None, rest) for n, (path, kind, rest) in enumerate(cases, 1)]
    for kind in (EXACT_OURS, FUZZY):
        found = columns_after(first_znodes(is_native=True), txns, kind, places=2)
        assert "/zookeeper" in {row["path"] for row in found}


def test_nothing_in_nothing_out() -> None:
    assert list(replayed(BASE.empty_table(), [], LABEL, is_native=True)) == []


def test_large_data_makes_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "BYTES_MAX", 16 << 10)
    paths = [b"/%02d" % number for number in range(40)]
    txns = [Txn(n, 5, 9, 0, OpCode.CREATE, n, path, bytes(1 << 10), (None, 0)) for n, path in enumerate(paths, 1)]
    tables = condensed(transactions(txns), is_exact=True, is_native=True)
    batches = list(replayed(first_znodes(is_native=True), list(tables), LABEL, is_native=True))
    sizes = [batch.num_rows for batch in batches]
    assert sum(sizes) == 44
    assert max(sizes) <= 20


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("exact", [True, False])
def test_sessions_that_are_open(seed: int, exact: bool) -> None:
    txns, moments = lived(seed)
    changes = SessionChanges(exact)
    for rows in transactions(txns[100:]):
        changes.add(rows)
    assert sessions_open({**moments[100].sessions, **changes.last}) == moments[300].sessions
    closed = {session for session, timeout in changes.last.items() if timeout is None}
    # Over an exact snapshot, one that was opened and closed is nothing.
    assert (closed <= moments[100].sessions.keys()) == exact
    assert closed >= moments[100].sessions.keys() - moments[300].sessions.keys()


def test_sessions_without_a_list_are_told() -> None:
    closing = Txn(5, 0, 77, 0, OpCode.CLOSE_SESSION, 0, b"", None, ())
    changes = SessionChanges(is_exact=True)
    for txn, with_lists in ((closing, True), (closing._replace(zxid=6, session=78), False)):
        for rows in transactions([txn], with_lists=with_lists):
            changes.add(rows)
    assert changes.unlisted == {78: 6}
