"""The replay path by path against the one over a whole tree, from exact and from fuzzy snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.znode import is_ephemeral, visible_cversion
from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import fuzzy, history, states
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.state import replay
from zab.pipeline.state.replay import replay_batches

CREATES = {OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL}
DELETES = {OpCode.DELETE, OpCode.DELETE_CONTAINER}
US = pa.timestamp("us", tz="UTC")
BASE = pa.struct(
    [
        pa.field(name, US if name in ("ctime", "mtime") else pa.int64() if "zxid" in name else pa.int32())
        for name in replay.BASE_COLUMNS
    ]
)
EVENTS = pa.schema(
    [
        *(pa.field("path", pa.string()), pa.field("zxid", pa.int64()), pa.field("part", pa.int32())),
        *(pa.field("kind", pa.int32()), pa.field("time", US), pa.field("data", pa.binary())),
        *(pa.field("number", pa.int32()), pa.field("acl", pa.string()), pa.field("owner", pa.int64())),
        *(pa.field("name", pa.string()), pa.field("base", BASE)),
    ]
)


def event(path: bytes, zxid: int, part: int, kind: int, **more: Any) -> dict[str, Any]:
    return {"path": path.decode(), "zxid": zxid, "part": part, "kind": kind, "number": 0, "owner": 0, **more}


def split(path: bytes) -> tuple[bytes, str]:
    above, _, name = path.rpartition(b"/")
    return above or b"/", name.decode()


def events_of(txn: Txn, *, with_paths: bool = True) -> Iterator[dict[str, Any]]:
    parts = [(txn.type, txn.number, txn.path, txn.data, txn.rest)]
    if txn.type == OpCode.MULTI:
        parts = [] if any(part[0] == OpCode.ERROR for part in txn.rest) else list(txn.rest)
    if txn.type == OpCode.CLOSE_SESSION and with_paths:
        parts = [(OpCode.DELETE, 0, path, None, None) for path in txn.rest]
    for number, (kind, version, path, data, rest) in enumerate(parts):
        time = txn.time * 1000
        if kind in CREATES:
            above, name = split(path)
            acl, owner = rest
            yield event(path, txn.zxid, number, replay.CREATE, time=time, data=data, acl=acl_text(acl), owner=owner)
            yield event(above, txn.zxid, number, replay.CHILD_CREATED, number=version, name=name, owner=owner)
        elif kind in DELETES:
            above, name = split(path)
            yield event(path, txn.zxid, number, replay.DELETE)
            yield event(above, txn.zxid, number, replay.CHILD_DELETED, name=name)
        elif kind in (OpCode.SET_DATA, OpCode.RECONFIG):
            yield event(path, txn.zxid, number, replay.SET_DATA, time=time, data=data, number=version)
        elif kind == OpCode.SET_ACL:
            yield event(path, txn.zxid, number, replay.SET_ACL, acl=acl_text(rest[0]), number=version)


def base_events(znodes: list[SnapshotZnode], *, exact: bool) -> Iterator[dict[str, Any]]:
    counts: dict[bytes, int] = {}
    for znode in znodes:
        if znode.path != b"/":
            counts[split(znode.path)[0]] = counts.get(split(znode.path)[0], 0) + 1
    for znode in znodes:
        base = {
            **{name: getattr(znode, name) for name in ("czxid", "mzxid", "pzxid", "version", "aversion")},
            "ctime": znode.ctime * 1000,
            "mtime": znode.mtime * 1000,
            "children_created": znode.cversion,
            "num_children": counts.get(znode.path, 0),
        }
        yield event(
            *(znode.path, -1, 0, replay.ZNODE),
            data=znode.data, acl=acl_text(znode.acl), owner=znode.owner, base=base,
        )  # fmt: skip
        if not exact and znode.path != b"/":
            above, name = split(znode.path)
            yield event(above, -1, 0, replay.CHILD, name=name, owner=znode.owner)


def replayed(events: list[dict[str, Any]], *, exact: bool, batch_rows: int = 7) -> dict[str, tuple[Any, ...]]:
    table = pa.Table.from_pylist(events, schema=EVENTS)
    table = table.sort_by([(name, "ascending") for name in ("path", "zxid", "part", "kind")])
    found = {}
    label = Label("e", "1", "s", 9)
    for batch in replay_batches(table.to_batches(max_chunksize=batch_rows), label, exact=exact):
        assert batch.schema.equals(arrow_schema(ZNODES))
        for row in batch.to_pylist():
            assert (row["ensemble"], row["member"], row["snapshot"], row["zxid"]) == ("e", "1", "s", 9)
            times = [round(row[name].timestamp() * 1000) for name in ("ctime", "mtime")]
            found[row["path"]] = (
                *(row["data"], row["acl"], row["owner"], row["czxid"], row["mzxid"], row["pzxid"], *times),
                *(row["version"], row["cversion"], row["children_created"], row["aversion"], row["num_children"]),
            )
    assert list(found) == sorted(found, key=str.encode)
    return found


def expected(state: ZooKeeperState) -> dict[str, tuple[Any, ...]]:
    found = {}
    for path, znode in state.znodes.items():
        count = len(state.children.get(path, ()))
        found[path.decode()] = (
            *(znode.data, acl_text(znode.acl), znode.owner, znode.czxid, znode.mzxid, znode.pzxid),
            *(znode.ctime, znode.mtime, znode.version, visible_cversion(znode.cversion, count), znode.cversion),
            *(znode.aversion, count),
        )
    return found


def sorted_znodes(state: ZooKeeperState) -> list[SnapshotZnode]:
    return [state.znodes[path] for path in sorted(state.znodes)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("exact", [True, False])
def test_replay_from_an_exact_snapshot_to_any_zxid(seed: int, exact: bool) -> None:
    txns, _ = history(seed, 240)
    moments = states(txns)
    for start, end in [(0, 240), *pairwise(range(0, 241, 40))]:
        events = list(base_events(sorted_znodes(moments[start]), exact=exact))
        for txn in txns[start:end]:
            events += events_of(txn)
        assert replayed(events, exact=exact) == expected(moments[end])


@pytest.mark.parametrize("seed", range(10))
def test_replay_makes_a_fuzzy_snapshot_exact(seed: int) -> None:
    txns, _ = history(seed, 300)
    moments = states(txns)
    random = Random(seed)
    for start in range(0, 250, 25):
        znodes = list(fuzzy(moments[:290], start, random))
        events = list(base_events(znodes, exact=False))
        for txn in txns[start:]:
            events += events_of(txn)
        assert replayed(events, exact=False) == expected(moments[300])


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_sessions_that_closed_without_a_list_take_their_ephemerals(seed: int) -> None:
    """As in logs of ZooKeeper before 3.6: whoever could have been an ephemeral of the session is asked."""
    txns, _ = history(seed, 300)
    moments = states(txns)
    start = 100
    events = list(base_events(sorted_znodes(moments[start]), exact=False))
    owned: dict[int, set[bytes]] = {}
    for path, znode in moments[start].znodes.items():
        if is_ephemeral(znode.owner):
            owned.setdefault(znode.owner, set()).add(path)
    for txn in txns[start:]:
        events += events_of(txn, with_paths=False)
        for made in events_of(txn):
            if made["kind"] == replay.CREATE and is_ephemeral(made["owner"]):
                owned.setdefault(made["owner"], set()).add(made["path"].encode())
        if txn.type == OpCode.CLOSE_SESSION:
            for path in owned.get(txn.session, ()):
                above, name = split(path)
                events.append(event(path, txn.zxid, 0, replay.CLOSE, owner=txn.session))
                events.append(event(above, txn.zxid, 0, replay.CHILD_CLOSED, owner=txn.session, name=name))
    assert any(made["kind"] == replay.CLOSE for made in events)
    assert replayed(events, exact=False) == expected(moments[300])


def test_sums_of_quotas_are_left_out() -> None:
    path = b"/zookeeper/quota/a/zookeeper_stats"
    events = [event(path, 5, 0, replay.CREATE, time=0, data=b"count=1", acl="world:anyone:cdrwa")]
    assert replayed(events, exact=True)[path.decode()][0] == b""


@pytest.mark.parametrize("last", [7, (1 << 31) - 1, -(1 << 31)])
def test_logs_without_the_parents_cversion_count_it(last: int) -> None:
    """As those of ZooKeeper before 3.3.5; what comes after the largest number is smaller, and changes nothing."""
    events = [
        event(
            b"/",
            -1,
            0,
            replay.ZNODE,
            data=b"",
            acl="",
            base={**dict.fromkeys(replay.BASE_COLUMNS, 0), "children_created": last},
        ),
        event(b"/", 9, 0, replay.CHILD_CREATED, number=-1, name="a"),
    ]
    state = ZooKeeperState.empty()
    state.znodes[b"/"].cversion = last
    state.apply(Txn(9, 0, 1, 0, OpCode.CREATE, -1, b"/a", b"", (None, 0)))
    row = replayed(events, exact=False)["/"]
    assert (row[10], row[5]) == (state.znodes[b"/"].cversion, state.znodes[b"/"].pzxid)


def test_nothing_in_nothing_out() -> None:
    assert replayed([], exact=True) == {}
    assert replayed([event(b"/a", 5, 0, replay.SET_DATA, time=0, data=b"")], exact=True) == {}


def test_large_data_makes_small_batches() -> None:
    events = [
        event(b"/%02d" % number, 5 + number, 0, replay.CREATE, time=0, data=bytes(1 << 20), acl="", owner=0)
        for number in range(40)
    ]
    table = pa.Table.from_pylist(events, schema=EVENTS)
    sizes = [batch.num_rows for batch in replay_batches(table.to_batches(), Label("e", "1", "s", 9), exact=True)]
    assert sum(sizes) == 40
    assert max(sizes) == 16
