"""What performs file effects: how few writes and syncs it makes, in which order, and what a failure ends."""

import errno
from random import Random

import pytest

from zab.host.storage.log_thread import Performer
from zab.partition.log.file_effects import (
    Answer,
    Append,
    Confirm,
    Confirmed,
    Create,
    Failed,
    FileEffect,
    Remove,
    RemoveDirectory,
    Rename,
    RenameDirectory,
    Replace,
    Sync,
    SyncDirectory,
    Token,
    Truncate,
)
from zab.partition.log.files import Files
from zab.simulator.world.disk import FaultyDisk

A, B = "a-0/0.log", "b-0/0.log"
TOKEN_A, TOKEN_B = Token("a-0", 1), Token("b-0", 1)


def opened() -> tuple[FaultyDisk, Files]:
    disk = FaultyDisk()
    files = Files(disk)
    files.perform([Create(A), SyncDirectory("a-0"), Create(B), SyncDirectory("b-0")])
    disk.log.clear()
    return disk, files


def test_appends_of_a_group_are_one_write_for_each_file():
    disk, files = opened()
    effects = [
        Append(A, 0, b"one"),
        Append(B, 0, b"x"),
        Append(A, 3, memoryview(b"two")),
        Append(B, 1, bytearray(b"y")),
    ]
    assert files.perform([*effects, Confirm(TOKEN_A), Confirm(TOKEN_B)]) == [Confirmed(TOKEN_A), Confirmed(TOKEN_B)]
    assert list(disk.log) == [f"write {A} 0+6", f"write {B} 0+2"]
    assert disk.read(A) == b"onetwo"
    assert disk.read(B) == b"xy"


def test_everything_is_written_before_anything_is_synced_and_each_file_is_synced_once():
    disk, files = opened()
    files.perform([Append(A, 0, b"unsynced"), Append(B, 0, b"unsynced")])
    disk.log.clear()
    effects: list[FileEffect] = []
    for number in range(3):
        effects += [Append(A, 8 + number, b"."), Sync(A), Append(B, 8 + number, b"."), Sync(B)]
    files.perform([*effects, Confirm(TOKEN_A)])
    assert list(disk.log) == [f"write {A} 8+3", f"write {B} 8+3", f"sync {A}", f"sync {B}"]


def test_append_after_synced_bytes_is_one_durable_write():
    disk, files = opened()
    files.perform([Append(A, 0, b"one"), Sync(A)])
    files.perform([Append(A, 3, b"two"), Sync(A)])
    assert list(disk.log) == [f"write_durable {A} 0+3", f"write_durable {A} 3+3"]
    files.perform([Sync(A)])
    assert len(disk.log) == 2, "there is nothing to sync"
    disk.crash(Random(1))
    assert disk.read(A) == b"onetwo"


def test_other_changes_come_after_what_was_asked_before_of_the_same_log():
    disk, files = opened()
    files.perform([Append(A, 0, b"12345"), Sync(A), Append(B, 0, b"1"), Replace("a-0/0.index", b"x"), Truncate(A, 2)])
    assert list(disk.log) == [
        f"write_durable {A} 0+5",
        "write a-0/0.index.tmp 0+1",
        "sync a-0/0.index.tmp",
        "rename a-0/0.index.tmp a-0/0.index",
        "sync_directory a-0",
        f"truncate {A} 2",
        f"write {B} 0+1",
    ]


def test_file_at_the_top_waits_for_all_logs():
    disk, files = opened()
    files.perform([Append(A, 0, b"1"), Sync(A), Append(B, 0, b"1"), Replace("marks", b"x")])
    assert list(disk.log)[:2] == [f"write_durable {A} 0+1", f"write {B} 0+1"]


def test_every_other_change():
    disk, files = opened()
    files.perform(
        [Append(A, 0, b"12345"), Truncate(A, 3), Append(A, 3, b"x"), Rename(A, "a-0/1.log"), Rename(A, "a-0/no")]
    )
    assert disk.list("a-0") == ["1.log"]
    assert disk.read("a-0/1.log") == b"123x"
    files.perform([Create(A), Append(A, 0, b"new"), Remove("a-0/1.log"), Remove("a-0/1.log")])
    assert disk.list("a-0") == ["0.log"]
    files.perform([Append(A, 3, b"er"), RenameDirectory("a-0", "a-0.gone"), Create(A)])
    assert disk.read("a-0.gone/0.log") == b"newer"
    assert disk.read(A) == b""
    files.perform([RemoveDirectory("a-0.gone")])
    assert disk.directories() == ["a-0", "b-0"]


def test_file_that_was_closed_is_appended_to():
    disk = FaultyDisk()
    files = Files(disk, open_files_max=1)
    files.perform([Create(A), Append(A, 0, b"1"), Create(B), Append(B, 0, b"1"), Append(A, 1, b"2"), Sync(A)])
    files.close()
    again = Files(disk)
    again.perform([Append(A, 2, b"3"), Sync(B)])
    assert disk.read(A) == b"123"


def test_append_to_another_position_than_the_end_is_a_bug():
    _, files = opened()
    with pytest.raises(AssertionError, match="ends at 0, not at 3"):
        files.perform([Append(A, 3, b"x")])
    with pytest.raises(AssertionError, match="goes on at 1, not at 2"):
        files.perform([Append(A, 0, b"x"), Append(A, 2, b"x")])


@pytest.mark.parametrize("point", [1, 2])
def test_failure_is_final_for_one_log_and_the_others_go_on(point):
    """S19: an append fails half-way. The second point is the sync."""
    disk, files = opened()
    files.perform([Append(A, 0, b"unsynced")])
    disk.fail_after(point)
    work: list[FileEffect] = [Append(A, 8, b"1"), Sync(A), Confirm(TOKEN_A)]
    failed, confirmed = (
        files.perform([*work, Append(B, 0, b"1"), Confirm(TOKEN_B)])
        if point == 1
        else (
            *files.perform(work),
            *files.perform([Append(B, 0, b"1"), Confirm(TOKEN_B)]),
        )
    )
    assert isinstance(failed, Failed)
    assert "Input/output error" in failed.reason
    assert confirmed == Confirmed(TOKEN_B)
    disk.log.clear()
    later: list[Answer] = files.perform([Append(A, 0, b"2"), Replace("a-0/marks", b"x"), Confirm(Token("a-0", 2))])
    assert later == [Failed(Token("a-0", 2), failed.reason)]
    assert not disk.log, "nothing more is done to that log"
    assert files.perform([Append(B, 1, b"2"), Sync(B), Confirm(TOKEN_B)]) == [Confirmed(TOKEN_B)]
    assert disk.read(B) == b"12"


def test_full_disk_fails_the_log_that_met_it():
    disk = FaultyDisk(capacity_bytes=10)
    files = Files(disk)
    (failed,) = files.perform([Create(A), Append(A, 0, b"x" * 20), Confirm(TOKEN_A)])
    assert isinstance(failed, Failed)
    assert files.failures == {"a-0": failed.reason}
    assert f"[Errno {errno.ENOSPC}]" in failed.reason


def test_it_is_what_a_log_thread_drives():
    performer: Performer[FileEffect, Answer] = Files(FaultyDisk())
    performer.idle()
    assert performer.is_awaited(Confirmed(TOKEN_A))
    performer.close()
