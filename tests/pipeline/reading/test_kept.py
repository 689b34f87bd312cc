"""Whether a range has anything to do with what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.zookeeper.log import LOG_HEADER, encode_record
from zab.pipeline.errors import PipelineError
from zab.pipeline.reading.kept import check_range
from zab.pipeline.reading.planning import Range

FIRST, LAST = 1 << 32 | 1, 2 << 32 | 3
EARLY_MS, LATE_MS = 1_700_000_000_000, 1_700_000_090_000


def log(place: Path, name: str, times: dict[int, int]) -> Path:
    """A member of ZooKeeper's whose log has these zxids, with their times."""
    directory = place / name / "version-2"
    directory.mkdir(parents=True)
    txns = [Txn(zxid, time, 7, 1, OpCode.DELETE, 0, b"/a", None, None) for zxid, time in times.items()]
    content = LOG_HEADER + b"".join(map(encode_record, txns)) + bytes(64)
    (directory / f"log.{min(times):x}").write_bytes(content)
    return directory.parent


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """The clock of its second leader is 90 s slow compared with that of the first."""
    epoch_1 = {FIRST + index: LATE_MS + index for index in range(4)}
    epoch_2 = {LAST - 2 + index: EARLY_MS + index for index in range(3)}
    return log(tmp_path, "member", epoch_1 | epoch_2)


@pytest.mark.parametrize(
    "wanted",
    [
        Range(),
        Range(zxid_min=LAST),
        Range(zxid_max=FIRST),
        Range(zxid_min=FIRST + 100, zxid_max=FIRST + 200),
        Range(time_min=EARLY_MS + 2),
        Range(time_min=EARLY_MS + 3, time_max=EARLY_MS + 4),
        Range(time_max=EARLY_MS),
        # The last transactions are earlier than this, but not all are.
        Range(time_min=LATE_MS + 3),
    ],
)
def test_a_range_that_may_have_something(member: Path, wanted: Range) -> None:
    check_range([str(member)], wanted, uncommitted=True)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Range(zxid_min=LAST + 1), "from zxid 0x200000004 on"),
        (Range(zxid_max=FIRST - 1), "up to zxid 0x100000000"),
        (Range(time_min=LATE_MS + 4), "since 2023-11-14T22:14:50.004Z"),
        (Range(time_max=EARLY_MS - 1), "until 2023-11-14T22:13:19.999Z"),
        (Range(zxid_min=LAST + 1, time_max=LATE_MS), "from zxid 0x200000004 on, until 2023-11-14T22:14:50.000Z"),
    ],
)
def test_a_range_outside(member: Path, wanted: Range, told: str) -> None:
    with pytest.raises(PipelineError) as refused:
        check_range([f"prod={member}"], wanted, uncommitted=True)
    sentence = str(refused.value)
    assert sentence.startswith(
        f"nothing is kept of what was asked for, {told}: prod has zxids 0x100000001 to 0x200000003"
    )


def test_one_ensemble_that_has_something_is_enough(member: Path, tmp_path: Path) -> None:
    other = log(tmp_path, "other", {9 << 32 | 1: LATE_MS})
    dirs = [f"prod={member}", f"test={other}"]
    check_range(dirs, Range(zxid_min=9 << 32), uncommitted=True)
    with pytest.raises(PipelineError, match="; test has zxids 0x900000001 to 0x900000001"):
        check_range(dirs, Range(zxid_min=9 << 32 | 2), uncommitted=True)


def test_nothing_is_said_where_there_is_nothing_to_compare(tmp_path: Path) -> None:
    directory = tmp_path / "version-2"
    directory.mkdir()
    (directory / "log.100000001").write_bytes(LOG_HEADER + bytes(64))
    check_range([str(tmp_path)], Range(zxid_min=5), uncommitted=True)
