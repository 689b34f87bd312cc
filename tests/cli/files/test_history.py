"""`zab log DIR` of a member of ours: all of its files are one history."""

import re
from pathlib import Path
from typing import IO

import pytest

from datatree.history import LOG_DIRECTORY
from datatree.log.batch import CHAIN_BYTES
from datatree.log.segment import SegmentHeader, log_path
from datatree.log.zxid import BEFORE_ALL
from datatree.recovery.recover import recover
from tests.cli.commands import Run, run, started
from tests.cli.files.member_files import Member, member
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.storage.disk import RealDisk

__all__ = ["member", "run"]

EPOCH = 0x100000000


def zxids(text: str) -> list[int]:
    return [int(found, 16) - EPOCH for found in re.findall(r" cxid 0x\w+ zxid 0x(\w+) ", text)]


def test_all_files_of_a_directory_are_one_history(run: Run, member: Member) -> None:
    for _ in range(3):
        member.write(2)
        member.log.roll()
    assert len(list(member.directory.glob("log.*[0-9a-f]"))) == 3
    for directory in (member.directory, member.directory.parent):
        assert run("log", directory) == 0
        assert run.err == ""
        assert zxids(run.out) == [1, 2, 3, 4, 5, 6]
        # The mark of a later file is that of the earlier ones as well.
        assert [zxids(line)[0] for line in run.out.splitlines() if line.startswith("uncommitted - ")] == [6]
        assert run.out.count("Transaction log of lineage") == 1
        assert run.out.endswith("EOF reached after 6 txns.\n")
    assert run("log", "--json", member.directory) == 0
    assert run.out.count("\n") == 6


def test_what_a_start_copied_comes_once(run: Run, member: Member) -> None:
    """What was not known to be synced when the member was killed is in two files."""
    member.write(2)
    member.write(1)
    member.disk.close()
    disk = RealDisk(str(member.directory.parent))
    recover(disk)
    disk.close()
    assert len(list(member.directory.glob("log.*[0-9a-f]"))) == 2
    assert run("log", member.directory) == 0
    assert zxids(run.out) == [1, 2, 3]


def test_what_lies_between_two_files_is_named(run: Run, member: Member) -> None:
    paths: list[Path] = []
    for _ in range(3):
        member.write(2)
        paths.append(member.path)
        member.log.roll()
    paths[1].unlink()
    assert run("log", member.directory) == 0
    assert zxids(run.out) == [1, 2, 5, 6]
    assert run.err == "zab: goes on after 0x100000004: what lies between came with a snapshot, or its file is gone\n"


def test_a_file_that_cannot_be_read_is_damage(run: Run, member: Member) -> None:
    member.write(2)
    first = member.path
    member.log.roll()
    member.write(2)
    data = bytearray(first.read_bytes())
    data[20] ^= 1
    first.write_bytes(data)
    (member.directory / Path(log_path(EPOCH + 9)).name).write_bytes(bytes(4096))
    assert run("log", member.directory) == 1
    assert zxids(run.out) == [3, 4]
    assert str(first) in run.err
    assert "the checksum of the log's header does not match" in run.err


def test_logs_of_another_ensemble_are_left_out(run: Run, member: Member) -> None:
    member.write(3)
    stray = member.directory / "log.1"
    stray.write_bytes(SegmentHeader(bytes(16), (BEFORE_ALL, bytes(CHAIN_BYTES)), 1).pack())
    assert run("log", member.directory) == 0
    assert zxids(run.out) == [1, 2, 3]
    assert run.err == f"zab: {stray}: of lineage {bytes(16).hex()}: left out\n"


@pytest.mark.parametrize("made", [(), ("log.1",)])
def test_a_directory_without_a_log_is_said_to_be_one(run: Run, tmp_path: Path, made: tuple[str, ...]) -> None:
    place = tmp_path / "version-1"
    place.mkdir()
    for name in made:
        (place / name).write_bytes(bytes(4096))
    assert run("log", tmp_path) == 1
    assert run.err == f"zab: {tmp_path}: no log that can be read in {place}; {LOG_DIRECTORY}\n"


def test_a_directory_is_followed(member: Member) -> None:
    member.write(2)
    member.log.roll()
    member.write(1)
    with started("log", "--follow", str(member.directory)) as process:
        assert process.stdout is not None
        assert read(process.stdout, 3) == [1, 2, 3]
        member.write(1)
        member.log.roll()
        member.write(1)
        assert read(process.stdout, 2) == [4, 5]
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def read(output: IO[str], count: int) -> list[int]:
    """The zxids of the next transactions that are printed."""
    found: list[int] = []
    while len(found) < count:
        line = output.readline()
        assert line, "ended before it printed all"
        found += zxids(line)
    return found
