"""Batches that no given member has, though a snapshot proves them: all that read logs say so, or refuse."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.pipeline.rigs.log_builder import FIRST, random_txns, write_version2
from zab.pipeline.decoding.damage import GAP, Damage
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.compact import compact_with, write_here
from zab.pipeline.jobs.verify import find
from zab.pipeline.member_files import LogFile, MemberFiles, SnapshotFile
from zab.pipeline.places import Place
from zab.pipeline.reading.missing import beginning_zxid, between, follows, is_missing, proofs
from zab.pipeline.reading.planning import Range, plan, read_task
from zab.pipeline.state.local_state import local_moment
from zab.pipeline.streaming.following import Following
from zab.pipeline.streaming.stream import LogStreamReader

SECOND = (2 << 32) + 1
THIRD = (3 << 32) + 1
ONE = random_txns(random.Random(1), 20, native=False)
TWO = random_txns(random.Random(2), 10, SECOND, native=False)
THREE = random_txns(random.Random(3), 10, THIRD, native=False)
PROVEN = ONE[17].zxid
"""The zxid of a snapshot of one member; the logs end at ONE[14]."""


def end_of_an_epoch(root: Path) -> None:
    for number in (1, 2, 3):
        write_version2(root / str(number), [ONE[:15], TWO], member=number)
    snapshot(root / "2", PROVEN)


def end_within_a_file(root: Path) -> None:
    for number in (1, 2, 3):
        write_version2(root / str(number), [ONE[:10], [*ONE[10:15], *TWO]], member=number)
    snapshot(root / "3", PROVEN)


def whole_epoch(root: Path) -> None:
    for number in (1, 2, 3):
        write_version2(root / str(number), [ONE, THREE], member=number)
    snapshot(root / "1", TWO[3].zxid)


def end_of_the_history(root: Path) -> None:
    for number in (1, 2, 3):
        write_version2(root / str(number), [ONE, TWO[:6]], member=number)
    snapshot(root / "1", TWO[7].zxid)


def snapshot(member: Path, zxid: int) -> None:
    (member / "version-2" / f"snapshot.{zxid:x}").write_bytes(b"ZKSN" + bytes(60))


LOST = {
    end_of_an_epoch: (ONE[14].zxid, PROVEN),
    end_within_a_file: (ONE[14].zxid, PROVEN),
    whole_epoch: (ONE[-1].zxid, TWO[3].zxid),
    end_of_the_history: (TWO[5].zxid, TWO[7].zxid),
}
"""The last zxid before what is lost, and the one that is proven."""


@pytest.fixture(params=LOST, ids=lambda lose: lose.__name__)
def lose(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], None]:
    request.param(tmp_path / "zookeeper")
    (tmp_path / "zookeeper" / "4").mkdir()
    lose: Callable[[Path], None] = request.param
    return lose


def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "zookeeper")]


def test_reading_tells_one_gap(lose: Callable[[Path], None], tmp_path: Path) -> None:
    for uncommitted in (False, True):
        for whole_files in (False, True):
            found = [
                rows
                for task in plan(
                    inventory(dirs(tmp_path)), Range(), members="one", uncommitted=uncommitted, whole_files=whole_files
                )
                for _, rows in read_task(task)
            ]
            (gap,) = [one for one in found if isinstance(one, Damage)]
            assert gap.kind == GAP
            assert hex(LOST[lose][0] + 1) in gap.reason or hex(LOST[lose][0]) in gap.reason


def test_compact_refuses(lose: Callable[[Path], None], tmp_path: Path) -> None:
    out = tmp_path / "lake"
    with pytest.raises(PipelineError, match=rf"between zxids {LOST[lose][0]:#x} and .* is missing"):
        compact_with(write_here, dirs(tmp_path), str(out))
    assert not out.exists()
    (done,) = compact_with(write_here, dirs(tmp_path), str(out), allow_holes=True)
    assert [after for after, _ in done.holes] == [LOST[lose][0]]
    # What was left out once is no reason to refuse for ever, unless it is the end, which may still come.
    if lose is not end_of_the_history:
        (again,) = compact_with(write_here, dirs(tmp_path), str(out))
        assert (again.transactions, again.holes) == (0, ())


def test_following_stops_and_says_why(lose: Callable[[Path], None], tmp_path: Path) -> None:
    following = Following(dirs(tmp_path))
    following.poll()
    (ensemble,) = following.ensembles.values()
    route = ensemble.route(ensemble.earliest())
    assert route.end == LOST[lose][0]
    reader = LogStreamReader({"dirs": dirs(tmp_path)[0]}, ("zxid",))
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()), ReadAllAvailable())
    with pytest.raises(PipelineError, match=hex(LOST[lose][0])):
        reader.latestOffset(end, ReadAllAvailable())


def test_a_follower_waits_for_an_end_that_may_still_come(tmp_path: Path) -> None:
    """A snapshot that is shipped before its log is no reason to end, as long as nothing is left out."""
    end_of_the_history(tmp_path / "zookeeper")
    reader = LogStreamReader({"dirs": dirs(tmp_path)[0]}, ("zxid",))
    end = reader.latestOffset(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()), ReadAllAvailable())
    for _ in range(3):
        assert reader.latestOffset(end, ReadAllAvailable()) == end
    for number in (1, 2, 3):
        write_version2(tmp_path / "zookeeper" / str(number), [ONE, TWO], member=number)
    later = reader.latestOffset(end, ReadAllAvailable())
    (position,) = later["ensembles"].values()
    assert position["zxid"] == TWO[-1].zxid


def test_a_state_is_not_put_together(lose: Callable[[Path], None], tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=rf"between {LOST[lose][0]:#x} and .* are missing"):
        local_moment(dirs(tmp_path))
    assert local_moment(dirs(tmp_path), LOST[lose][0]).zxid == LOST[lose][0]


def test_verify_names_it(lose: Callable[[Path], None], tmp_path: Path) -> None:
    (gap,) = [one for one in find(inventory(dirs(tmp_path))) if one.deviation]
    assert (gap.kind, gap.member) == ("gap", None)
    assert "snapshot." in gap.sentence
    assert gap.zxid is not None
    assert follows(LOST[lose][0], gap.zxid)


def test_a_snapshot_that_the_logs_reach_proves_nothing_new(tmp_path: Path) -> None:
    root = tmp_path / "zookeeper"
    for number in (1, 2, 3):
        write_version2(root / str(number), [ONE, TWO if number == 1 else TWO[:5]], member=number)
        for zxid in (ONE[5].zxid, ONE[-1].zxid, 2 << 32, TWO[7].zxid):
            snapshot(root / str(number), zxid)
    snapshot(root / "2", 3 << 32)
    found = [rows for task in plan(inventory(root), Range(), members="one") for _, rows in read_task(task)]
    assert not [one for one in found if isinstance(one, Damage)]
    (done,) = compact_with(write_here, [str(root)], str(tmp_path / "lake"))
    assert done.holes == ()
    assert not [one for one in find(inventory(root)) if one.deviation]


@pytest.mark.parametrize(
    ("last", "first", "ends", "expected"),
    [
        (FIRST, FIRST + 1, {}, False),
        (FIRST, FIRST + 2, {}, True),
        (FIRST, SECOND, {}, False),
        (FIRST, SECOND + 1, {}, True),
        (FIRST, SECOND, {1: FIRST}, False),
        (FIRST, SECOND, {1: FIRST + 1}, True),
        (FIRST, THIRD, {1: FIRST, 2: SECOND}, True),
        (0, FIRST, {1: FIRST + 9}, False),
    ],
)
def test_what_is_missing_between_two_zxids(last: int, first: int, ends: dict[int, int], expected: bool) -> None:
    assert is_missing(last, first, ends) == expected
    assert follows(last, first) or expected


def test_what_is_missing_has_words() -> None:
    assert between(FIRST, FIRST + 2) == f"zxid {FIRST + 1:#x} is missing"
    assert between(FIRST, FIRST + 4) == f"zxids {FIRST + 1:#x} to {FIRST + 3:#x} are missing"
    assert between(FIRST, SECOND + 1) == f"what is between {FIRST:#x} and {SECOND + 1:#x} is missing"


def member_of(lineage: bytes, **files: Any) -> MemberFiles:
    return MemberFiles("e", "1", "native", Place("", "/1"), lineage=lineage, **files)


def test_a_snapshot_of_another_lineage_proves_nothing() -> None:
    found = SnapshotFile(Place("", "/1/snapshot.b"), "native", FIRST + 10, 1, lineage=b"one")
    assert proofs([member_of(b"one", snapshots=[found])], {}) == {1: FIRST + 10}
    assert proofs([member_of(b"two", snapshots=[found])], {}) == {}


def test_a_log_that_continues_another_is_not_the_beginning() -> None:
    log = LogFile(Place("", "/1/log.1"), "native", FIRST, 1, previous=(0, bytes(16)))
    assert beginning_zxid([member_of(b"one", logs=[log])]) == FIRST
    later = evolve(log, previous=(FIRST - 1, bytes(16)))
    assert beginning_zxid([member_of(b"one", logs=[later])]) is None


def test_a_time_between_two_milliseconds_becomes_the_one_within_the_bound() -> None:
    time = datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)
    ms = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
    assert Range.of(None, None, time, None).time_min == ms + 2
    assert Range.of(None, None, None, time).time_max == ms + 1
