"""`zab log FILE --to DIR`: chopped and repaired copies of logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from datatree.log.segment import SEGMENT_HEADER_BYTES, iterate
from datatree.zookeeper.log import LOG_HEADER, LogReader, encode_record
from tests.cli.commands import Result, call
from tests.cli.files.member_files import Member
from tests.cli.json_page import FIELDS
from tests.datatree.zookeeper.histories import history
from tests.rigs.zookeeper_server import log_toolkit, run_tool
from tests.tidy.sources import ROOT
from zab.host.storage.disk import RealDisk

Zab = Callable[..., Result]


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str]) -> Zab:
    return lambda *words: call(capsys, "log", *words)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    txns, _ = history(4, 50)
    path = tmp_path / "log.1"
    path.write_bytes(LOG_HEADER + b"".join(map(encode_record, txns)) + bytes(500))
    return path


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    member = Member(tmp_path)
    for count in (3, 2, 4):
        member.write(count)
    member.log.append([member.author.batch(3), member.author.batch(2)])
    member.log.close()
    return member.path


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def zxids(path: Path) -> list[int]:
    data = path.read_bytes()
    if data.startswith(b"ZKLG"):
        return [record.txn.zxid for record in LogReader(iter((data,)), str(path))]
    first = int(path.suffix[1:], 16)
    disk = RealDisk(str(path.parent), lock=False)
    return [batch.zxid for _, batch in iterate(disk, path.name, first, SEGMENT_HEADER_BYTES, len(data), {})]


def test_a_chopped_copy_ends_at_the_zxid(zab: Zab, theirs: Path, ours: Path, copies: Path) -> None:
    before = theirs.read_bytes()
    done = zab(theirs, "--to", copies, "--chop", "0x14")
    assert done == Result(0, f"{copies / 'log.1'}: 20 transactions up to zxid 0x14\n", "")
    assert zxids(copies / "log.1") == list(range(1, 21))
    assert theirs.read_bytes() == before
    ends = zxids(ours)
    assert zab(ours, "--to", copies, "--chop", hex(ends[4])).code == 0
    assert zxids(copies / ours.name) == ends[:5]


def test_within_a_batch_of_ours_the_batch_before_is_the_last(zab: Zab, ours: Path, copies: Path) -> None:
    ends = zxids(ours)
    [middle] = [end - 1 for end in ends if end - 1 not in ends][-1:]
    assert zab(ours, "--to", copies, "--chop", hex(middle)).code == 0
    assert zxids(copies / ours.name) == [end for end in ends if end < middle]


def test_checksums_of_zookeepers_records_are_written_anew(zab: Zab, theirs: Path, copies: Path) -> None:
    flip(theirs, 16 + 3)
    refused = zab(theirs, "--to", copies, "--chop", "0x30")
    assert (refused.code, refused.out) == (1, "")
    assert "checksum of the transaction does not match" in refused.err
    done = zab(theirs, "--to", copies, "--repair")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("50 transactions up to zxid 0x32, 1 repaired\n")
    assert len(zxids(copies / "log.1")) == 50


def test_behind_what_is_no_record_nothing_is_copied(zab: Zab, theirs: Path, copies: Path) -> None:
    data = bytearray(theirs.read_bytes())
    at = data.index(encode_record(history(4, 50)[0][9]))
    data[at + 8 : at + 12] = b"\xff\xff\xff\xff"
    theirs.write_bytes(data)
    done = zab(theirs, "--to", copies, "--repair")
    assert done.code == 1
    assert f"offset {at}" in done.err
    assert "nothing after that is in it" in done.err
    assert zxids(copies / "log.1") == list(range(1, 10))


def test_a_frame_of_ours_whose_header_is_damaged_costs_no_batch(zab: Zab, ours: Path, copies: Path) -> None:
    ends = zxids(ours)
    flip(ours, SEGMENT_HEADER_BYTES + 5)
    assert zab(ours, "--to", copies, "--chop", hex(ends[-1])).code == 1
    done = zab(ours, "--to", copies, "--repair")
    assert (done.code, done.err) == (0, "")
    assert zxids(copies / ours.name) == ends


def test_a_batch_of_ours_that_cannot_be_read_is_never_made_up(zab: Zab, ours: Path, copies: Path) -> None:
    ends = zxids(ours)
    flip(ours, SEGMENT_HEADER_BYTES + 28 + 40)
    done = zab(ours, "--to", copies, "--repair")
    assert (done.code, "the copy would be empty" in done.err) == (1, True)
    flip(ours, SEGMENT_HEADER_BYTES + 28 + 40)
    flip(ours, ours.stat().st_size // 2)
    done = zab(ours, "--to", copies, "--repair")
    assert done.code == 1
    copied = zxids(copies / ours.name)
    assert 0 < len(copied) < len(ends)
    assert copied == ends[: len(copied)]


def test_a_copy_takes_the_place_of_nothing_and_says_what_is_wrong(zab: Zab, theirs: Path, copies: Path) -> None:
    assert zab(theirs, "--to", copies, "--chop", "5").code == 0
    assert "is there already" in zab(theirs, "--to", copies, "--chop", "5").err
    for words in (["--chop", "5"], ["--to", copies], ["--to", copies, "--chop", "x"], ["--repair"]):
        assert zab(theirs, *words).code == 2
    assert zab(theirs, theirs, "--to", copies, "--repair").code == 2
    (copies / "log.9").write_bytes(b"other")
    (copies / "more").mkdir()
    assert "neither a log of zab" in zab(copies / "log.9", "--to", copies / "more", "--repair").err


def test_json_and_the_example_of_the_page(zab: Zab, theirs: Path, copies: Path) -> None:
    flip(theirs, 16 + 3)
    (copies / "more").mkdir()
    said = json.loads(zab(theirs, "--to", copies, "--repair", "--chop", "32", "--json").out)
    assert list(said) == FIELDS["log --to"]
    page = (ROOT / "docs" / "how-to" / "read-logs.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^\$ zab log \S+ --to /tmp/copy --chop 0x1\S+ --repair\n(.*)$", page, re.MULTILINE)
    out = zab(theirs, "--to", copies / "more", "--chop", "32", "--repair").out.strip()
    shape = re.compile(r"\S+/log\.\w+: (\d+ transactions) up to zxid 0x[0-9a-f]+, 1 repaired")
    assert shape.fullmatch(example)[1] == shape.fullmatch(out)[1]  # type: ignore[index]


@pytest.mark.java
@pytest.mark.slow
def test_zookeepers_own_tools_agree(zab: Zab, theirs: Path, copies: Path, tmp_path: Path) -> None:
    """What LogChopper leaves is what is in our copy, and TxnLogToolkit finds nothing wrong with it."""
    chopped = tmp_path / "chopped"
    run_tool("org.apache.zookeeper.server.util.LogChopper", "20", str(theirs), str(chopped))
    flip(theirs, 16 + 3)
    assert zab(theirs, "--to", copies, "--chop", "20", "--repair").code == 0
    wanted = log_toolkit(chopped).stdout.splitlines()
    assert log_toolkit(copies / "log.1").stdout.splitlines()[1:] == wanted[1:]
    assert b"CRC ERROR" not in b"".join(wanted)
    assert len(wanted) > 20
