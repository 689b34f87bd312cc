"""Directories of our own members as crashes, damage and rolls leave them: all tools say the same of where they end.

What a member's start finds (`datatree.recovery`, which `zab fsck` tells) is held against `zab restore` and `state`,
`compact` and the other jobs, and `verify`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from datatree.log.epochs import MemberRecord, save_epochs, save_mark, save_member
from datatree.log.segment import SegmentHeader
from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.recovery.recover import examine
from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree
from tests.pipeline.rigs.log_builder import LINEAGE, START, NativeFile, as_batch, cut_anywhere
from tests.pipeline.rigs.member_logs import zxids
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.verify import find
from zab.pipeline.state.local_state import local_moment

SEEDS = range(20)


Damage: TypeAlias = Callable[[random.Random, list[NativeFile], Path], None]


def random_directory(rng: random.Random, root: Path) -> list[NativeFile]:
    """A member's directory, and the log files in it."""
    position, tree, number = START, DataTree(), 0
    files: list[NativeFile] = []
    marks = [0]
    for epoch in sorted(rng.sample(range(1, 6), rng.randint(1, 3))):
        first = (epoch << 32) + 1
        count = rng.randint(1, 40)
        made = [
            Txn(first + n, number + n, 1, n, OpCode.CREATE, number + n + 1, b"/n%05d" % (number + n), b"d", (None, 0))
            for n in range(count)
        ]
        number += count
        batches = []
        for txns in cut_anywhere(rng, made, 4):
            mark = rng.choice([position[0], marks[-1]])
            marks.append(max(marks[-1], mark))
            batches.append(as_batch(position, txns, marks[-1]))
            position = batches[-1].zxid, batches[-1].chain
            for txn in txns:
                tree.apply(txn)
        cuts = sorted(rng.sample(range(len(batches)), min(len(batches) - 1, rng.randint(0, 2))))
        for begin, end in zip([0, *cuts], [*cuts, len(batches)], strict=True):
            if begin < end:
                before = START if not files else files[-1].last
                header = SegmentHeader(LINEAGE, before, batches[begin].first)
                files.append(NativeFile.of(header, batches[begin:end], rng.randint(1, 3), idle=rng.random() < 0.7))
                if end == len(batches) and rng.random() < 0.4:
                    snapshot_of(root, tree, files[-1].last)
                    marks.append(files[-1].last[0])
    for file in files:
        file.write(root / "version-1", index=file is not files[-1] and rng.random() < 0.7)
    disk = RealDisk(str(root), lock=False)
    save_epochs(disk, files[-1].header.first >> 32, files[-1].header.first >> 32)
    save_member(disk, MemberRecord(LINEAGE, 1))
    mark = rng.choice([position[0], marks[-1], marks[rng.randrange(len(marks))], None])
    if mark is not None:
        save_mark(disk, LINEAGE, mark)
    return files


def snapshot_of(root: Path, tree: DataTree, at: tuple[int, bytes]) -> None:
    (root / "version-1").mkdir(parents=True, exist_ok=True)
    SnapshotWriter(RealDisk(str(root), lock=False), tree.begin_snapshot(), LINEAGE, at[1]).write()


# What happens to it.


def nothing(_rng: random.Random, _files: list[NativeFile], _version: Path) -> None:
    pass


def cut(rng: random.Random, files: list[NativeFile], version: Path) -> None:
    log = version / files[-1].name
    data = log.read_bytes()
    log.write_bytes(data[: rng.randrange(len(data))])


def preallocated(rng: random.Random, files: list[NativeFile], version: Path) -> None:
    cut(rng, files, version)
    log = version / files[-1].name
    log.write_bytes(log.read_bytes() + bytes(rng.randrange(1, 5000)))


def flipped(rng: random.Random, files: list[NativeFile], version: Path) -> None:
    log = version / rng.choice(files).name
    data = bytearray(log.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    log.write_bytes(data)


def newest_removed(_rng: random.Random, files: list[NativeFile], version: Path) -> None:
    _remove(files[-1], version)


def oldest_removed(_rng: random.Random, files: list[NativeFile], version: Path) -> None:
    _remove(files[0], version)


def _remove(file: NativeFile, version: Path) -> None:
    (version / file.name).unlink()
    (version / f"{file.name}.index").unlink(missing_ok=True)


def rolled(rng: random.Random, files: list[NativeFile], version: Path) -> None:
    """A roll in progress: the next file has its header, or a part of it, or nothing but space."""
    last = files[-1].last
    header = SegmentHeader(LINEAGE, last, last[0] + 1).pack()
    beginning = rng.choice([header, header[: rng.randrange(len(header))], b""])
    (version / f"log.{last[0] + 1:x}").write_bytes(beginning + bytes(rng.choice([0, 4096])))


DAMAGES: list[Damage] = [nothing, cut, preallocated, flipped, newest_removed, oldest_removed, rolled]


def said(read: Callable[[], int]) -> int | None:
    """The last zxid of what a tool reads; None where it refuses."""
    try:
        return read()
    except PipelineError:
        return None


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_all_tools_say_the_same(tmp_path: Path, damage: Damage, seed: int) -> None:
    rng = random.Random(f"{damage.__name__} {seed}")
    files = random_directory(rng, tmp_path)
    damage(rng, files, tmp_path / "version-1")
    recovered = examine(RealDisk(str(tmp_path), lock=False))
    restored = said(lambda: local_moment(tmp_path).zxid)
    compacted = said(lambda: max(zxids([tmp_path]), default=0))
    deviations = [one for one in find(inventory(tmp_path)) if one.deviation]
    if recovered.damage:
        # What is damaged below a snapshot is a loss of history, and none of the state.
        assert restored is None or (restored == recovered.snapshot_zxid and deviations)
    elif restored is None:
        # A member may fetch what is damaged from another one, or has nothing that is committed yet.
        assert deviations or not recovered.mark
    else:
        # A member cuts a torn frame as a whole. A whole batch in it may say what is committed of those before it.
        assert recovered.mark <= restored <= files[-1].last[0]
        # Jobs show what is in logs.
        assert compacted == restored or (not compacted or (compacted < restored and deviations))
        # What is logged and left out is said.
        assert (local_moment(tmp_path).logged > 0) >= (recovered.last[0] > restored)
