"""Snapshots that ZooKeeper compressed with snappy: whole ones, damaged ones, hostile ones, and without the library."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from random import Random

import cramjam
import pytest

from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.snappy import BLOCK_BYTES_MAX, unsnapped
from datatree.zookeeper.snapshot import SnapshotReader, SnapshotZnode, uncompressed
from tests.cli.commands import Run, run
from tests.datatree.zookeeper.histories import history, states
from tests.datatree.zookeeper.snappy_files import HEADER, snapped
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zookeeper_directory import load_directory, to_tree
from tests.rigs.zookeeper_server import snapshot_formatter, zookeeper
from zab.host.storage.disk import RealDisk

__all__ = ["run"]

NAME = "snapshot.c8.snappy"
STATE = states(history(3, 200)[0])[-1]
FILE = b"".join(STATE.snapshot())
PACKED = snapped(FILE, 300)


def content(data: bytes) -> bytes:
    return b"".join(unsnapped([data], NAME))


def read(data: bytes) -> list[SnapshotZnode]:
    return list(SnapshotReader(uncompressed([data], NAME), NAME))


def block(packed: bytes) -> bytes:
    return HEADER + struct.pack(">i", len(packed)) + packed


@pytest.mark.parametrize("size", [8, 11, 1000, 1 << 20])
def test_it_is_read_whatever_the_name_and_however_it_is_cut(size: int) -> None:
    chunks = (PACKED[at : at + size] for at in range(0, len(PACKED), size))
    assert b"".join(uncompressed(chunks, "snapshot.c8")) == FILE
    assert len(PACKED) < len(FILE)


def test_streams_one_behind_the_other_are_one() -> None:
    assert content(snapped(FILE[:700], 300) + snapped(FILE[700:], 300)) == FILE
    assert content(HEADER) == b""


def test_every_changed_or_missing_byte_is_noticed() -> None:
    small = b"".join(states(history(3, 6)[0])[-1].snapshot())
    packed = snapped(small, 200)
    seen, unseen = [], []
    for at in range(len(packed)):
        for damaged in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x41]) + packed[at + 1 :]):
            try:
                read(damaged)
            except ZooKeeperFileError as error:
                seen.append(error)
            else:
                unseen.append(content(damaged))
    assert {error.file for error in seen} == {NAME}
    assert all(0 <= error.offset <= len(small) for error in seen)
    # The same can be said in several ways, such as from where a zero is copied; and versions mean nothing.
    assert set(unseen) == {small}
    assert len(unseen) < len(packed) // 10


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (HEADER[:11], 0, "ends inside the header"),
        (HEADER[:12] + struct.pack(">i", 2), 0, "readers of version 2"),
        (HEADER + b"\x82SNAPPED" + bytes(8), 16, "no header of snappy"),
        (HEADER + b"\x00\x00", 16, "ends inside the length"),
        (HEADER + struct.pack(">i", 0), 16, "unreasonable length 0 "),
        (HEADER + struct.pack(">i", -1), 16, "unreasonable length -1 "),
        (HEADER + struct.pack(">i", (1 << 31) - 1) + bytes(99), 16, "unreasonable length 2147483647 "),
        (HEADER + struct.pack(">i", 100) + bytes(99), 20, "ends inside a snappy block: 99 of 100"),
        (block(b"\xff\xff\xff\xff\x0f" + bytes(40)), 16, "damaged snappy block"),
        (block(b"\xff" * 40), 16, "damaged snappy block"),
        (block(bytes(cramjam.snappy.compress_raw(bytes(BLOCK_BYTES_MAX + 1)))), 16, "damaged snappy block"),
    ],
)
def test_what_is_none_is_said(data: bytes, offset: int, reason: str) -> None:
    with pytest.raises(ZooKeeperFileError, match=reason) as caught:
        content(data)
    assert (caught.value.file, caught.value.offset) == (NAME, offset)


def test_the_largest_block_that_is_read_does_not_shrink() -> None:
    noise = Random(1).randbytes(BLOCK_BYTES_MAX)
    assert content(snapped(noise, BLOCK_BYTES_MAX)) == noise


def test_garbage_ends_in_an_error_of_the_file() -> None:
    random = Random(7)
    for _ in range(300):
        at = random.randrange(16, len(PACKED))
        with pytest.raises(ZooKeeperFileError):
            read(PACKED[:at] + random.randbytes(random.randrange(1, 200)))


def test_without_the_library_it_says_what_to_install(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    (tmp_path / NAME).write_bytes(PACKED)
    assert run("snapshot", tmp_path / NAME) == 1
    assert (
        run.err == f"zab: {tmp_path / NAME}: offset 0: compressed with snappy: pip install 'zab[snappy]' to read it\n"
    )
    assert run.out == ""


@pytest.mark.java
@pytest.mark.slow
def test_what_a_real_zookeeper_compressed_is_read(run: Run, tmp_path: Path) -> None:
    znodes = {f"/znode-{number}": b"%d" % number * 600 for number in range(200)}
    with zookeeper(
        directory=tmp_path, properties={"snapshot.compression.method": "snappy", "snapCount": 50}
    ) as ensemble:
        (member,) = ensemble.members
        with kazoo_client(ensemble.hosts, timeout=10) as client:
            for path, data in znodes.items():
                client.create(path, data)
        # The snapshot that a start writes has all of it.
        member.stop()
        member.start()
        ensemble.wait()
    paths = sorted(member.version_2.glob("snapshot.*.snappy"), key=lambda path: int(path.name.split(".")[1], 16))
    assert run("snapshot", "-d", paths[-1]) == 0
    ours = sorted(run.out.split("\n----\n"))
    theirs = snapshot_formatter(paths[-1], "-d").stdout.decode().replace("\u202f", " ")
    assert [block.strip() for block in ours] == [block.strip() for block in sorted(theirs.split("\n----\n"))]
    # The snapshots and nothing else: without their logs.
    (tmp_path / "copy" / "version-2").mkdir(parents=True)
    shutil.copy(paths[-1], tmp_path / "copy" / "version-2")
    loaded = load_directory(RealDisk(str(tmp_path / "copy"), lock=False))
    assert loaded.problems == []
    tree = to_tree(loaded.state)
    assert {path: tree.data_of(path.encode(), tree.get(path.encode())) for path in znodes} == znodes
