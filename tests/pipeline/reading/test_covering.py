"""What one member lacks comes from another, for exactly those zxids; and which files a range needs."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from pyarrow import fs

from datatree.log.batch import HEADER_BYTES
from datatree.record import Txn
from tests.pipeline.rigs.log_builder import FIRST, TIME, in_batches, random_txns, write_native, write_version2
from zab.pipeline import places
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.reading.planning import Members, Range, Task, plan, read_task, task_batches

SECOND = (2 << 32) + 1
ONE = random_txns(random.Random(1), 120)
TWO = random_txns(random.Random(2), 60, SECOND)
EVERY = [*ONE, *TWO]


def files(*cuts: int, txns: list[Txn] = EVERY) -> list[list[list[Txn]]]:
    """Files that are cut at these places, in batches of three (a batch does not cross epochs)."""
    bounds = [0, *cuts, len(txns)]
    result = []
    for start, end in pairwise(bounds):
        part = txns[start:end]
        epochs = sorted({txn.zxid >> 32 for txn in part})
        result.append([batch for one in epochs for batch in in_batches([t for t in part if t.zxid >> 32 == one], 3)])
    return result


def flip(directory: Path, first: int, number: int) -> None:
    """One bit of the body of a batch, in a file and its index's way to it."""
    path = next((directory / "version-1").glob(f"log.{first:x}"))
    data = bytearray(path.read_bytes())
    at = 64
    for _ in range(number):
        at = data.index(b"ZB\1\0", at + 1)
    data[data.index(b"ZB\1\0", at + 1) + HEADER_BYTES + 20] ^= 4
    path.write_bytes(data)


Read = tuple[list[tuple[str, int]], list[tuple[str, str]]]


def read(root: Path, wanted: Range | None = None, *, members: Members = "one", uncommitted: bool = False) -> Read:
    """((member, zxid) of every transaction, (member, kind) of all damage)."""
    rows: list[tuple[str, int]] = []
    damage = []
    for task in plan(inventory(root), wanted or Range(), members=members, uncommitted=uncommitted):
        for span, found in read_task(task):
            if isinstance(found, Damage):
                damage.append((span.member, found.kind))
            else:
                rows += ((span.member, zxid) for zxid in found.zxid.tolist())
    return rows, damage


def zxids(found: Read) -> list[int]:
    return [zxid for _, zxid in found[0]]


ALL = [txn.zxid for txn in EVERY]


def test_each_transaction_comes_once_and_in_order(tmp_path: Path) -> None:
    for number, cuts in enumerate([(30, 60, 120), (60,), (9, 120, 150)], 1):
        write_native(tmp_path / str(number), files(*cuts), member=number)
    assert zxids(read(tmp_path)) == ALL
    assert sorted(zxids(read(tmp_path, members="all"))) == sorted(ALL * 3)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_batch_comes_from_another_member(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in (1, 2, 3):
        write_native(tmp_path / str(number), files(60, 120), member=number)
    # One batch of each file, no batch on all three.
    broken = {(first, number): rng.sample(range(15), 3) for first in (FIRST, FIRST + 60, SECOND) for number in [0]}
    for (first, _), numbers in broken.items():
        for member, number in enumerate(numbers, 1):
            flip(tmp_path / str(member), first, number)
    found = read(tmp_path)
    assert zxids(found) == ALL
    assert found[1] == []
    assert Counter(member for member, _ in found[0])["1"] == len(ALL) - 9


def test_what_no_member_has_is_told(tmp_path: Path) -> None:
    for number in (1, 2):
        write_native(tmp_path / str(number), files(60, 120), member=number)
        flip(tmp_path / str(number), FIRST, 4)
    found = read(tmp_path)
    assert zxids(found) == [*ALL[:12], *ALL[15:]]
    assert found[1] == [("2", "damaged"), ("1", "damaged"), ("1", "gap")]


def test_missing_files_come_from_others(tmp_path: Path) -> None:
    gone = {1: FIRST + 30, 2: FIRST, 3: SECOND}
    for number in gone:
        write_native(tmp_path / str(number), files(30, 60, 120), member=number)
        (tmp_path / str(number) / "version-1" / f"log.{gone[number]:x}").unlink()
    assert zxids(read(tmp_path)) == ALL
    # Inside of the log a missing file is a gap; at its beginning, older files have just gone.
    damage = []
    for task in plan(inventory(tmp_path), Range(), whole_files=True):
        damage += [
            (span.member, found.kind) for span, found in read_task(task, use_index=False) if isinstance(found, Damage)
        ]
    assert damage == [("1", "gap")]


def test_the_end_of_an_epoch_comes_from_another_member(tmp_path: Path) -> None:
    """A deposed leader had less of the epoch than those that went on; it came back by a snapshot."""
    lacking = [*ONE[:60], *TWO]
    write_native(tmp_path / "1", files(60, txns=lacking), member=1)
    write_native(tmp_path / "2", files(120), member=2)
    write_native(tmp_path / "3", files(150), member=3)
    assert zxids(read(tmp_path)) == ALL


def test_the_end_of_a_deposed_leader_is_not_shown(tmp_path: Path) -> None:
    """It has transactions of epoch 1 that nobody else has; they are smaller than the mark of the others."""
    write_native(tmp_path / "1", files(txns=ONE), member=1, mark=ONE[99].zxid)
    shared = [*ONE[:105], *TWO]
    for number in (2, 3):
        write_native(tmp_path / str(number), files(105, txns=shared), member=number)
    shown = [txn.zxid for txn in shared]
    assert zxids(read(tmp_path)) == shown
    found, _ = read(tmp_path, members="all")
    assert [zxid for member, zxid in found if member == "1"] == shown[:105]
    assert set(zxids(read(tmp_path, uncommitted=True))) == set(ALL)


def test_members_that_lag_show_what_the_others_know(tmp_path: Path) -> None:
    write_native(tmp_path / "1", files(txns=ONE[:90]), member=1, mark=ONE[10].zxid)
    write_native(tmp_path / "2", files(txns=ONE), member=2, mark=ONE[80].zxid)
    found, _ = read(tmp_path, members="all")
    last = {member: max(zxid for one, zxid in found if one == member) for member in "12"}
    assert last == {"1": ONE[80].zxid, "2": ONE[80].zxid}


PLAIN_ONE = random_txns(random.Random(3), 60, native=False)
PLAIN_TWO = random_txns(random.Random(4), 30, SECOND, native=False)


def theirs(root: Path) -> list[int]:
    write_version2(root / "1", [PLAIN_ONE[:50], PLAIN_TWO], member=1)
    write_version2(root / "2", [PLAIN_ONE, PLAIN_TWO], member=2)
    write_version2(root / "3", [PLAIN_ONE[:20], PLAIN_ONE[20:55] + PLAIN_TWO[:10], PLAIN_TWO[10:20]], member=3)
    return [txn.zxid for txn in (*PLAIN_ONE[:55], *PLAIN_TWO)]


def test_members_of_zookeeper_fill_each_other(tmp_path: Path) -> None:
    committed = theirs(tmp_path)
    assert zxids(read(tmp_path)) == committed
    found, _ = read(tmp_path, members="all")
    by_member = {member: [zxid for one, zxid in found if one == member] for member in "123"}
    assert by_member["1"] == [*committed[:50], *committed[55:]]
    assert by_member["2"] == committed
    assert by_member["3"] == [*committed[:55], *committed[55:75]]
    assert len(zxids(read(tmp_path, uncommitted=True))) == 90


def test_one_member_of_zookeeper_alone_says_nothing_of_commits(tmp_path: Path) -> None:
    theirs(tmp_path)
    with pytest.raises(PipelineError, match="one member of ZooKeeper alone"):
        read(tmp_path / "2")
    assert len(zxids(read(tmp_path / "2", uncommitted=True))) == 90


def test_a_directory_of_snapshots_alone_has_no_vote(tmp_path: Path) -> None:
    theirs(tmp_path)
    for member in (4, 5, 6):
        version = tmp_path / f"snapshots of {member}" / "version-2"
        version.mkdir(parents=True)
        (version / "snapshot.0").write_bytes(b"ZKSN" + bytes(60))
    assert len(zxids(read(tmp_path))) == 85
    for member in (1, 3):
        shutil.rmtree(tmp_path / str(member))
    with pytest.raises(PipelineError, match="2/version-2 is one member of ZooKeeper alone"):
        read(tmp_path)


def test_logs_in_a_store_are_read_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        write_native(tmp_path / "zab" / str(number), files(60, 120), member=number)
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(places, "_file_system", lambda _root: (store, "zab"))
    found = inventory("prod=s3://zab?region=eu-central-1")
    assert [str(member.directory) for member in found.members] == ["s3://zab/1/version-1", "s3://zab/2/version-1"]
    tasks = plan(found, Range(), members="one")
    assert list(dict.fromkeys(zxid for task in tasks for zxid in of_task(task))) == ALL


@pytest.mark.parametrize("members", ["all", "one"])
@pytest.mark.parametrize("seed", range(10))
def test_ranges_are_exact_and_read_no_more_files_than_needed(tmp_path: Path, seed: int, members: Members) -> None:
    rng = random.Random(seed)
    write_native(tmp_path / "1", files(30, 60, 90, 120, 150), member=1)
    low, high = sorted(rng.sample(ALL, 2))
    wanted = Range.of(low, high, None, None)
    assert zxids(read(tmp_path, wanted, members=members)) == [zxid for zxid in ALL if low <= zxid <= high]
    firsts = [ALL[at] for at in (0, 30, 60, 90, 120, 150)]
    needed = [
        first for first, later in zip(firsts, [*firsts[1:], 1 << 62], strict=True) if first <= high and later > low
    ]
    tasks = plan(inventory(tmp_path), wanted, members=members)
    spans = [span for task in tasks for span in (task.spans or task.cover.members[0] if task.cover else task.spans)]
    assert [span.file.first for span in spans] == needed
    since, until = TIME + rng.randrange(20), TIME + 20 + rng.randrange(20)
    timed = [txn.zxid for txn in EVERY if since <= txn.time <= until]
    assert zxids(read(tmp_path, Range.of(None, None, since, until), members=members)) == timed


def test_small_files_share_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_native(tmp_path / "1", files(30, 60, 90, 120, 150), member=1)
    assert len(plan(inventory(tmp_path), Range())) == 1
    assert len(plan(inventory(tmp_path), Range(), members="one")) == 1
    monkeypatch.setattr("zab.pipeline.reading.planning.TASK_BYTES", len(made[0].data) + len(made[1].data))
    for members in ("all", "one"):
        tasks = plan(inventory(tmp_path), Range(), members=members)
        assert 3 <= len(tasks) <= 6
        assert list(dict.fromkeys(zxid for task in tasks for zxid in of_task(task))) == ALL


def of_task(task: Task) -> list[int]:
    """The zxids of its rows: a multi has several."""
    return [zxid for batch in task_batches(task, ["zxid"]) for zxid in batch["zxid"].to_pylist()]


def test_times_are_bounds_of_whole_milliseconds() -> None:
    exact = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)
    ms = 1_767_323_045_006
    between = exact + timedelta(microseconds=500)
    assert Range.of(None, None, exact, exact) == Range(None, None, ms, ms)
    assert Range.of(None, None, between, between + timedelta(days=1)) == Range(None, None, ms + 1, ms + 86_400_000)
    assert Range.of(None, None, exact.astimezone(timezone(timedelta(hours=5))), None).time_min == ms
    assert Range.of(None, None, 5, 6) == Range(None, None, 5, 6)
    with pytest.raises(PipelineError, match=r"2026-01-02T03:04:05.006000 has no time zone"):
        Range.of(None, None, exact.replace(tzinfo=None), None)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ((5, 4, None, None), "zxids from 0x5 to 0x4"),
        ((None, None, 9, 8), "times"),
        ((-1, None, None, None), "-0x1 is no zxid"),
        ((None, 1 << 63, None, None), "0x8000000000000000 is no zxid"),
        ((None, None, None, 1 << 63), "no time that a transaction can have"),
    ],
)
def test_an_empty_range_is_told(bounds: tuple[int | None, ...], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        Range.of(*bounds)


def test_snapshots_alone_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "snapshot.5").write_bytes(b"ZKSN" + bytes(60))
    with pytest.raises(PipelineError, match="there are snapshots, but no logs"):
        plan(inventory(tmp_path), Range())
    with pytest.raises(PipelineError, match='members is "all" or "one"'):
        plan(inventory(tmp_path), Range(), members="some")  # type: ignore[arg-type]
