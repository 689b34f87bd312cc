"""What the files of a history prove: the rule alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from datatree.history import DATA_DIRECTORY, LOG_DIRECTORY, Evidence, beyond, member_count, not_given, pairs, unread

NATIVE = Evidence("/d", is_native=True, has_records=True, has_log=True, logged=50, snapshot=40, committed=50, mark=50)
WITHOUT_LOG = evolve(NATIVE, has_log=False, logged=0)
THEIRS = Evidence("/z", is_native=False, has_records=True, has_log=True, logged=50, snapshot=40, epoch=7)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ([NATIVE], None),
        ([THEIRS], None),
        # A mark, wherever it is from, that nothing given reaches.
        ([WITHOUT_LOG], LOG_DIRECTORY),
        ([evolve(NATIVE, mark=51)], "missing or damaged"),
        ([evolve(NATIVE, mark=60), evolve(NATIVE, logged=60)], None),
        ([evolve(NATIVE, mark=61), evolve(NATIVE, logged=60)], "missing or damaged"),
        # The dataDir of a member without any log: only `committed` says that nothing follows.
        ([evolve(WITHOUT_LOG, committed=40, mark=40)], None),
        ([evolve(WITHOUT_LOG, committed=0, mark=0)], LOG_DIRECTORY),
        ([evolve(WITHOUT_LOG, committed=0, mark=0, snapshot=None)], LOG_DIRECTORY),
        ([evolve(THEIRS, has_log=False, logged=0)], LOG_DIRECTORY),
        ([evolve(THEIRS, has_log=False, logged=0)] * 3, LOG_DIRECTORY),
        # Snapshots that somebody put into a directory.
        ([evolve(THEIRS, has_log=False, logged=0, has_records=False)], None),
        # Logs of others that end before the snapshot of a member without logs.
        ([THEIRS, evolve(THEIRS, has_log=False, logged=0, snapshot=60)], LOG_DIRECTORY),
        ([THEIRS, evolve(THEIRS, has_log=False, logged=0, snapshot=50)], LOG_DIRECTORY),
        ([evolve(THEIRS, has_log=False, logged=0), evolve(THEIRS, has_records=False, snapshot=None)], None),
        ([THEIRS, evolve(THEIRS, has_log=False, logged=0, snapshot=50, has_records=False)], None),
        ([NATIVE, WITHOUT_LOG], None),
        ([NATIVE, evolve(WITHOUT_LOG, snapshot=51)], LOG_DIRECTORY),
        # A member that was synchronized by a snapshot goes on without a log that reaches it.
        ([THEIRS, evolve(THEIRS, snapshot=60)], None),
        # An epoch in which nothing was written is no proof of a transaction.
        ([evolve(THEIRS, epoch=9)], None),
        # Logs alone: what is after their marks is said by `committed`, in the dataDir.
        ([evolve(NATIVE, has_records=False, committed=0, mark=49, snapshot=None)], DATA_DIRECTORY),
        ([evolve(NATIVE, has_records=False, committed=0, mark=50, snapshot=None)], None),
        ([evolve(NATIVE, committed=0, mark=49)], None),
        # What is damaged above the mark may be committed, unless another member has it.
        ([evolve(NATIVE, mark=49, damage="log.1: damaged")], "more than 0x31 is committed: log.1: damaged"),
        ([evolve(NATIVE, mark=49, damage="log.1: damaged"), NATIVE], None),
        ([evolve(NATIVE, mark=49, damage="log.1: damaged"), WITHOUT_LOG], "log.1: damaged"),
        ([], None),
    ],
)
def test_what_was_not_given_does_not_count_as_not_existing(members: Sequence[Evidence], named: str | None) -> None:
    reason = unread(members)
    assert (reason is None) == (named is None), reason
    assert named is None or named in (reason or "")


def test_the_epoch_that_nothing_was_read_of_is_said() -> None:
    reason = unread([evolve(THEIRS, has_log=False, logged=0, epoch=9)])
    assert "of whose epochs the last is 9" in str(reason)


def test_a_proof_beyond_the_end() -> None:
    assert beyond(5, 5) is None
    assert beyond(6, 5) == "it says that 0x6 was durable here, and the log ends at 0x5"


@pytest.mark.parametrize(
    ("directories", "count"),
    [
        ([(True, True)] * 3, 3),
        ([(True, False)] * 3 + [(False, True)] * 3, 3),
        ([(True, False)] + [(False, True)] * 3, 3),
        ([(True, True)] * 2 + [(False, True)], 3),
        ([(True, False)] * 2, 2),
        ([], 0),
    ],
)
def test_members_are_counted_and_not_directories(directories: list[tuple[bool, bool]], count: int) -> None:
    assert member_count(directories) == count


def ways(*paths: str) -> list[list[str]]:
    return [path.split("/") for path in paths]


@pytest.mark.parametrize(
    ("states", "logs", "expected"),
    [
        (ways("/a"), ways("/b/c"), {0: 0}),
        (ways("/d/1/data", "/d/2/data"), ways("/d/2/log", "/d/1/log"), {0: 1, 1: 0}),
        (ways("/data/zk1", "/data/zk2"), ways("/logs/zk1", "/logs/zk2"), {0: 0, 1: 1}),
        (ways("/d/1/data", "/d/2/data", "/d/3/data"), ways("/d/2/log"), {1: 0}),
        (ways("/x1", "/x2"), ways("/y1", "/y2"), {}),
        (ways("/a"), [], {}),
    ],
)
def test_which_log_directory_is_of_which_data_directory(
    states: list[list[str]], logs: list[list[str]], expected: dict[int, int]
) -> None:
    assert pairs(states, logs) == expected


def test_jobs_ask_for_directories_and_tell_damage_as_rows() -> None:
    alone = evolve(NATIVE, has_records=False, committed=0, mark=49, snapshot=None)
    assert DATA_DIRECTORY in (not_given([alone]) or "")
    assert LOG_DIRECTORY in (not_given([WITHOUT_LOG, evolve(NATIVE, logged=45, mark=45)]) or "")
    for damaged in (evolve(NATIVE, mark=51), evolve(NATIVE, mark=49, damage="log.1: damaged")):
        assert unread([damaged]) is not None
        assert not_given([damaged]) is None
