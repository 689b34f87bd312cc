"""A state whose checksums are right and that no transaction has left is not gone on with (B8 restored members)."""

from __future__ import annotations

from typing import Any

import pytest

from datatree.opcodes import OpCode
from datatree.paths import CONFIG, QUOTA, ROOT, parent
from datatree.record import Txn
from datatree.recovery.restoring import stage, take_staged
from datatree.recovery.soundness import PATH_BYTES_MAX, unsound
from datatree.snapshot import SnapshotError
from datatree.tree import DataTree
from datatree.znode import CONTAINER_OWNER, STAT_LAYOUT, ttl_owner, visible_cversion, visible_owner
from tests.datatree.histories import LINEAGE, Author, snapshot
from tests.datatree.recovery.restoring import lived, received
from zab.simulator.world.disk import FaultyDisk

ZXID = 0x1_0000_0005
SESSION = 0x1000_0000_0000_0001
RESERVED: dict[bytes, dict[str, Any]] = {
    ROOT: {},
    b"/zookeeper": {},
    CONFIG: {"acl": ((1, b"world", b"anyone"),)},
    QUOTA: {},
}


def made(znodes: dict[bytes, dict[str, Any]], sessions: dict[int, int] | None = None) -> DataTree:
    """A tree of these and the reserved znodes, each as it ought to be where nothing else is said."""
    tree = DataTree.bare()
    for session, timeout_ms in (sessions or {}).items():
        tree.install_session(session, timeout_ms)
    all_of_them = {path: RESERVED.get(path, {}) | znodes.get(path, {}) for path in (*RESERVED, *znodes)}
    for path, said in sorted(all_of_them.items()):
        count = sum(other != ROOT and parent(other) == path for other in all_of_them)
        data, owner, cversion = said.get("data", b""), said.get("owner", 0), said.get("cversion", count)
        stat = STAT_LAYOUT.pack(
            *(said.get("czxid", 1), said.get("mzxid", 1), 0, 0),
            *(said.get("version", 0), said.get("shown_cversion", visible_cversion(cversion, count)), 0),
            *(said.get("shown_owner", visible_owner(owner)), said.get("length", len(data or b"")), count),
            said.get("pzxid", 1),
        )
        tree.install([(path, data, said.get("acl"), stat, owner, cversion)])
    tree.finish(ZXID)
    return tree


UNSOUND = {
    "child of an ephemeral": ({b"/a": {"owner": SESSION}, b"/a/b": {}}, {SESSION: 4000}),
    "ephemeral of nobody": ({b"/a": {"owner": SESSION}}, {}),
    "reserved ephemeral": ({QUOTA: {"owner": SESSION}}, {SESSION: 4000}),
    "reserved container": ({QUOTA: {"owner": CONTAINER_OWNER, "cversion": 3}}, {}),
    "reserved with a TTL": ({QUOTA: {"owner": ttl_owner(5)}}, {}),
    "session 0": ({}, {0: 4000}),
    "timeout before now": ({}, {SESSION: -5}),
    "no text": ({b"/\xff": {}}, {}),
    "name of nothing": ({b"//": {}}, {}),
    "zero in it": ({b"/a\0": {}}, {}),
    "dots": ({b"/..": {}}, {}),
    "long path": ({b"/" + b"x" * PATH_BYTES_MAX: {}}, {}),
    "long ephemerals": (
        {b"/%d" % number + b"x" * (PATH_BYTES_MAX // 4): {"owner": SESSION} for number in range(4)},
        {SESSION: 4000},
    ),
    "made later": ({b"/a": {"czxid": ZXID + 1}}, {}),
    "changed later": ({b"/a": {"mzxid": ZXID + 1}}, {}),
    "child made later": ({b"/a": {"pzxid": ZXID + 1}}, {}),
    "other length": ({b"/a": {"length": 5}}, {}),
    "other owner": ({b"/a": {"shown_owner": SESSION}}, {SESSION: 4000}),
    "other cversion": ({b"/a": {"shown_cversion": 5}}, {}),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_what_no_transaction_has_left_is_refused_before_anything_is_staged(name: str) -> None:
    tree = made(*UNSOUND[name])
    assert unsound(tree) is not None
    disk, other = lived(Author()), FaultyDisk()
    data = other.read(snapshot(other, tree, bytes(16)))
    path = received(disk, data, ZXID)
    before = disk.image()
    with pytest.raises(SnapshotError) as caught:
        stage(disk, path, LINEAGE)
    assert len(str(caught.value)) < 1000
    assert disk.image() == before
    disk.remove(path)
    assert take_staged(disk, 1) is None


def test_what_is_odd_and_can_be_gone_on_with_is_taken() -> None:
    tree = made(
        {
            b"/a": {"acl": (), "version": -(1 << 31), "cversion": (1 << 31) - 1},
            b"/b": {"acl": ((-1, b"\xff", b"\xff"),) * 1000, "data": None},
            b"/c": {"owner": CONTAINER_OWNER, "cversion": 4},
            b"/d": {"owner": -1, "data": bytes(1 << 21)},
            b"/e": {"owner": SESSION, "czxid": ZXID},
            QUOTA + b"/a": {},
            QUOTA + b"/a/zookeeper_limits": {"data": b"count=x,\xff=;;"},
            QUOTA + b"/a/zookeeper_stats": {"data": b"count=9"},
        },
        {SESSION: 0, -1: 4000},
    )
    assert unsound(tree) is None


def test_two_states_of_one_digest_are_two_histories() -> None:
    """Else members with different trees would be one ensemble."""
    trees = [made({b"/a": {"cversion": cversion}}) for cversion in (0, -(1 << 31))]
    assert trees[0].digest == trees[1].digest
    assert [unsound(tree) for tree in trees] == [None, None]
    lineages = set()
    for tree in trees:
        disk, other = lived(Author()), FaultyDisk()
        path = received(disk, other.read(snapshot(other, tree, bytes(16))), ZXID)
        lineages.add(stage(disk, path, LINEAGE).lineage)
    assert len(lineages) == 2


def test_every_state_of_a_history_is_sound() -> None:
    author = Author(seed=4)
    assert unsound(DataTree()) is None
    author.write(20)
    tree, zxid = author.tree, author.last[0]
    for number, (kind, path, rest) in enumerate(
        [
            (OpCode.CREATE_SESSION, b"", None),
            (OpCode.CREATE, b"/z000001/e", (None, SESSION)),
            (OpCode.DELETE, b"/z000002", None),
        ],
        1,
    ):
        tree.apply(Txn(zxid + number, 0, SESSION, 0, kind, 4000 if not path else 1, path, b"x", rest))
        assert unsound(tree) is None
