"""Snapshots as columns: the same znodes as the readers of the service see, in files of both kinds, damaged ones too."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from operator import attrgetter
from random import Random
from typing import Any
from zlib import adler32, crc32

import numpy as np
import pyarrow as pa
import pytest

from datatree.log.batch import genesis
from datatree.snapshot import SnapshotWriter, load_snapshot
from datatree.tree import DataTree
from datatree.znode import HEAD, STAT_LAYOUT, stat_of, visible_cversion
from datatree.zookeeper.snapshot import UNKNOWN_ACL
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import fuzzy, history, states
from tests.datatree.zookeeper.snappy_files import snapped
from tests.pipeline.rigs.trees import as_state, as_znodes
from tests.rigs.zookeeper_directory import from_cursor
from zab.pipeline.decoding.acl_text import OPEN_ACL_TEXT, acl_text, parse_acl_text
from zab.pipeline.decoding.snapshot_rows import Examined, Label, SnapshotDamageError, _ListTexts, open_snapshot
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import SESSIONS, ZNODES, arrow_schema
from zab.pipeline.state import znode_rows
from zab.pipeline.state.snapshot_output import write_native
from zab.simulator.world.disk import FaultyDisk

LINEAGE = bytes(range(16))
TXNS, TREE = history(5, 400)
STATE = states(TXNS)[-1]
ZNODE_SCHEMA = arrow_schema(ZNODES)


def native_file(tree: DataTree) -> bytes:
    disk = FaultyDisk()
    writer = SnapshotWriter(disk, tree.begin_snapshot(), LINEAGE, genesis(LINEAGE))
    writer.write()
    return disk.read(writer.path)


NATIVE = native_file(TREE)
VERSION_2 = b"".join(STATE.snapshot())
NAME = f"dir/snapshot.{STATE.zxid:x}"
LABEL = Label("e", "1", NAME, STATE.zxid)


def rows_of(data: bytes, schema: pa.Schema = ZNODE_SCHEMA, name: str = NAME) -> list[dict[str, Any]]:
    found = open_snapshot(lambda offset, length: data[offset : offset + length], name)
    batches = found.sessions if "session" in schema.names else found.znodes
    rows = []
    for batch in batches(schema, LABEL):
        assert batch.schema.equals(schema)
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def of_tree(tree: DataTree) -> dict[str, tuple[Any, ...]]:
    return {
        path.decode(): (
            tree.data_of(path, znode),
            acl_text(tree.acl(znode)),
            *HEAD.unpack_from(znode)[1:3],
            STAT_LAYOUT.unpack(stat_of(znode)),
        )
        for shard in tree.shards
        for path, znode in shard.items()
    }


def of_rows(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    found = {}
    for row in rows:
        times = (round(row[name].timestamp() * 1000) for name in ("ctime", "mtime"))
        stat = (
            *(row["czxid"], row["mzxid"], *times, row["version"], row["cversion"], row["aversion"]),
            *(row["owner"] if row["owner"] > 0 else 0, len(row["data"] or b""), row["num_children"], row["pzxid"]),
        )
        found[row["path"]] = (row["data"], row["acl"], row["owner"], row["children_created"], stat)
        assert (row["ensemble"], row["member"], row["snapshot"], row["zxid"]) == ("e", "1", NAME, STATE.zxid)
    assert len(found) == len(rows)
    return found


def of_state(state: ZooKeeperState) -> dict[str, tuple[Any, ...]]:
    found = {}
    for path, znode in state.znodes.items():
        count = len(state.children.get(path, ()))
        stat = (
            *(znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version),
            *(visible_cversion(znode.cversion, count), znode.aversion, znode.owner if znode.owner > 0 else 0),
            *(len(znode.data or b""), count, znode.pzxid),
        )
        found[path.decode()] = (znode.data, acl_text(znode.acl), znode.owner, znode.cversion, stat)
    return found


def test_native_rows_are_the_tree() -> None:
    rows = rows_of(NATIVE)
    assert of_rows(rows) == of_tree(TREE)
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    assert {row["data"] for row in rows} >= {None, b""}
    assert len({row["acl"] for row in rows}) > 2


def test_native_sessions() -> None:
    rows = rows_of(NATIVE, arrow_schema(SESSIONS))
    assert {row["session"]: row["timeout"] for row in rows} == TREE.sessions
    assert len(rows) > 1


@pytest.mark.parametrize(
    "data", [VERSION_2, gzip.compress(VERSION_2), snapped(VERSION_2)], ids=["plain", "gzip", "snappy"]
)
def test_version_2_rows_are_the_state(data: bytes) -> None:
    rows = rows_of(data)
    assert of_rows(rows) == of_state(STATE)
    assert {parse_acl_text(row["acl"]) for row in rows} == {znode.acl for znode in STATE.znodes.values()}
    sessions = rows_of(data, arrow_schema(SESSIONS))
    assert {row["session"]: row["timeout"] for row in sessions} == STATE.sessions


def test_both_formats_give_the_same_rows_but_for_the_configuration() -> None:
    native, version_2 = of_rows(rows_of(NATIVE)), of_rows(rows_of(VERSION_2))
    assert native.pop("/zookeeper/config") != version_2.pop("/zookeeper/config")
    # What a new ZooKeeper's znodes say of their children differs, as nobody created these.
    assert {p: row for p, row in native.items() if not p.startswith("/zookeeper") and p != "/"} == {
        p: row for p, row in version_2.items() if not p.startswith("/zookeeper") and p != "/"
    }


@pytest.mark.parametrize("data", [NATIVE, VERSION_2], ids=["native", "version-2"])
def test_columns_that_are_not_asked_for_are_not_made(data: bytes) -> None:
    schema = arrow_schema(column for column in ZNODES if column.name in ("path", "mzxid"))
    assert rows_of(data, schema) == [{"path": row["path"], "mzxid": row["mzxid"]} for row in rows_of(data)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [NATIVE, VERSION_2, gzip.compress(VERSION_2), snapped(VERSION_2)],
    ids=["native", "version-2", "gzip", "snappy"],
)
def test_no_byte_can_be_changed_or_missing_unseen(data: bytes) -> None:
    """Where a reading ends without an error, it had all rows: only bytes that mean nothing differ."""
    right = rows_of(data)
    step = max(1, len(data) // 300)
    seen, unseen = [], []
    for at in range(0, len(data), step):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]):
            try:
                rows = rows_of(damaged)
            except SnapshotDamageError as error:
                seen.append(error)
            else:
                assert rows == right
                unseen.append(at)
    assert {error.file for error in seen} == {NAME}
    assert all(0 <= error.offset <= max(len(VERSION_2), len(data)) for error in seen)
    # The optional parts at the end of ZooKeeper's file, the head of gzip with its time; and snappy can say the same in
    # several ways, such as from where a zero is copied.
    free = {b"\x1f": 10, b"\x82": len(data)}.get(data[:1], 0)
    assert all(at >= len(data) - 60 or at < free for at in unseen)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", bytes(100), NATIVE[:20], VERSION_2[:10]])
def test_what_is_no_snapshot_is_said(data: bytes) -> None:
    with pytest.raises(SnapshotDamageError):
        rows_of(data)


def test_absurd_lengths_take_no_memory() -> None:
    """A chunk of 4 GiB, a path of 2 GiB: said, not fetched."""
    lengths = []

    def read(data: bytes) -> Any:
        def at(offset: int, length: int) -> bytes:
            lengths.append(length)
            return data[offset : offset + length]

        return at

    path_at = VERSION_2.index(b"/zookeeper") - 4
    for damaged in (
        NATIVE[:64] + b"\xff\xff\xff\xff" + NATIVE[68:],
        VERSION_2[:path_at] + b"\x7f\xff\xff\xff" + VERSION_2[path_at + 4 :],
    ):
        with pytest.raises(SnapshotDamageError, match="unreasonable"):
            list(open_snapshot(read(damaged), NAME).znodes(ZNODE_SCHEMA, LABEL))
    assert max(lengths) <= 8 << 20


def with_right_checksums(data: bytes, random: Random) -> bytes:
    """A few bytes of the entries changed, and every checksum made right again."""
    is_native = data.startswith(b"ZSNP")
    start, end = (76, len(data) - 68) if is_native else (16, len(data) - 67)
    entries = bytearray(data[start:end])
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(entries) - 3)
        wild = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4), b"\x80\0\0\0", b"\2", b"\3", b"\0", b"\xff", b"/"]
        piece = random.choice(wild)
        entries[at : at + len(piece)] = piece
    if not is_native:
        body = data[:start] + bytes(entries)
        return body + struct.pack(">q", adler32(body)) + b"\0\0\0\1/"
    return in_one_chunk(bytes(entries))


def in_one_chunk(entries: bytes, more_entries: int = 0, more_sessions: int = 0) -> bytes:
    """NATIVE with these entries, and counts of entries and of sessions that are larger by so much."""
    (count,) = struct.unpack_from(">I", NATIVE, 68)
    (sessions,) = struct.unpack_from(">Q", NATIVE, len(NATIVE) - 16)
    head = NATIVE[:64] + struct.pack(">II", len(entries), count + more_entries)
    checksum = crc32(entries, crc32(head[64:], struct.unpack_from(">I", head, 60)[0]))
    trailer = NATIVE[-64:-16] + struct.pack(">QI", sessions + more_sessions, checksum)
    return head + struct.pack(">I", checksum) + entries + bytes(4) + trailer + struct.pack(">I", crc32(trailer))


@pytest.mark.slow
@pytest.mark.parametrize(("data", "tries"), [(NATIVE, 400), (VERSION_2, 150)], ids=["native", "version-2"])
def test_whatever_has_the_right_checksums_is_rows_or_damage(data: bytes, tries: int) -> None:
    """And what are rows can be written as a tree that loads, or is none."""
    random = Random(4)
    counts = Counter[str]()
    for _ in range(tries):
        hostile = with_right_checksums(data, random)
        found = open_snapshot(lambda offset, length, hostile=hostile: hostile[offset : offset + length], NAME)
        try:
            found.examine()
            rows_of(hostile)
            znodes = [znode for batch in found.znodes(znode_rows.ZNODE_SCHEMA, LABEL) for znode in as_znodes(batch)]
            sessions = {row["session"]: row["timeout"] for row in rows_of(hostile, arrow_schema(SESSIONS))}
            in_order = sorted(znodes, key=attrgetter("path"))
            state = as_state(7, sessions, in_order)
            disk = FaultyDisk()
            written = write_native(disk, state, LINEAGE)
            load_snapshot(disk, written.path)
            counts["rows"] += 1
        except SnapshotDamageError:
            counts["damage"] += 1
        except PipelineError:
            counts["no tree"] += 1
    assert min(counts[kind] for kind in ("rows", "damage", "no tree")) > 3, counts


def test_a_native_file_that_contradicts_itself_is_damaged() -> None:
    entries = NATIVE[76:-68]
    first_list = struct.pack(">BI", 2, 1)
    examined(in_one_chunk(entries))
    for data, reason in (
        (in_one_chunk(entries, more_entries=1), "do not end with their last entry"),
        (in_one_chunk(entries, more_sessions=1), "counts other znodes or sessions"),
        (in_one_chunk(entries.replace(first_list, struct.pack(">BI", 2, 1000), 1)), "ACL list 1000 where 1 is due"),
    ):
        with pytest.raises(SnapshotDamageError, match=reason):
            examined(data)


def test_a_file_of_zookeeper_without_a_root_is_damaged() -> None:
    body = VERSION_2[:16] + bytes(8) + b"\0\0\0\1/"
    with pytest.raises(SnapshotDamageError, match="without a root"):
        examined(body + struct.pack(">q", adler32(body)) + b"\0\0\0\1/")


def test_an_acl_that_the_file_does_not_have_lets_nobody_in() -> None:
    assert _ListTexts({}).of(np.array([-1, 7])).to_pylist() == [OPEN_ACL_TEXT, acl_text(UNKNOWN_ACL)]


def examined(data: bytes) -> Examined:
    return open_snapshot(lambda offset, length: data[offset : offset + length], NAME).examine()


def test_examine_counts_and_says_that_an_exact_snapshot_is_exact() -> None:
    for data in (NATIVE, VERSION_2):
        examined = open_snapshot(lambda offset, length, data=data: data[offset : offset + length], NAME).examine()
        assert (examined.zxid, examined.exact_from) == (STATE.zxid, STATE.zxid)
        assert examined.znode_count == len(STATE.znodes) == TREE.znode_count
        assert examined.session_count == len(STATE.sessions)


def test_examine_says_from_where_a_fuzzy_snapshot_is_exact() -> None:
    """Effects of later transactions are in the znodes; the digest beside them says up to where, at the latest."""
    moments = states(TXNS)
    start = moments[300]
    for seed in range(30):
        znodes = list(fuzzy(moments, 300, Random(seed)))
        mixed = ZooKeeperState.build(znodes, start.sessions, 300)
        mixed.digest = moments[350].digest
        mixed.zxid = 350
        data = b"".join(mixed.snapshot())
        found = open_snapshot(lambda offset, length, data=data: data[offset : offset + length], "snapshot.12c")
        latest = max(max(znode.czxid, znode.mzxid, znode.pzxid) for znode in znodes)
        examined = found.examine()
        assert examined.zxid == 300
        assert examined.exact_from == (350 if mixed.znodes == moments[350].znodes else 351)
        # Written before digests were: what can be seen has to do.
        old = data[: -(8 + 13 + 20 + 13)]
        found = open_snapshot(lambda offset, length, old=old: old[offset : offset + length], "snapshot.12c")
        assert found.examine().exact_from == max(300, latest)


def test_a_snapshot_of_many_chunks() -> None:
    """More than one window of each format, with znodes larger than a window."""
    tree = DataTree.bare()
    random = Random(1)
    for number in range(3000):
        path = b"/big/%05d" % number if number else b"/big"
        data = random.randbytes(random.choice([0, 10, 1000, 5_000_000 if number == 1500 else 50]))
        acl = ((number % 31, b"digest", b"user:%d" % (number % 7)),) if number % 3 else None
        count = 2999 if number == 0 else 0
        stat = STAT_LAYOUT.pack(number, number, number, number, 0, 2 * count - count, 0, 0, len(data), count, number)
        tree.install([(path, data, acl, stat, 0, count)])
    for path in (b"/", b"/zookeeper", b"/zookeeper/config", b"/zookeeper/quota"):
        children = {b"/": 2, b"/zookeeper": 2}.get(path, 0)
        stat = STAT_LAYOUT.pack(0, 0, 0, 0, 0, -children, 0, 0, 0, children, 0)
        tree.install([(path, b"", None, stat, 0, 0)])
    tree.finish(STATE.zxid)
    data = native_file(tree)
    assert len(data) > 4 << 20
    assert of_rows(rows_of(data)) == of_tree(tree)
    disk = FaultyDisk()
    disk.replace(f"version-1/snapshot.{STATE.zxid:x}", data)
    _, loaded = load_snapshot(disk, f"version-1/snapshot.{STATE.zxid:x}")
    assert loaded.digest == tree.digest
    state = from_cursor(tree.begin_snapshot())
    assert of_rows(rows_of(b"".join(state.snapshot()))) == of_state(state)
