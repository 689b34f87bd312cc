"""`zab snapshot` and `zab log`: the text of ZooKeeper's own tools, native and foreign files, damage, live reading."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from datatree.record import Txn
from datatree.zookeeper.log import LOG_HEADER, encode_record
from tests.cli.commands import Run, nap_with, run
from tests.cli.files.member_files import RARE, TIME, Member, _made, member
from tests.datatree.histories import LINEAGE, snapshot
from tests.datatree.zookeeper.histories import history
from tests.rigs.zookeeper_data import RealFiles
from tests.rigs.zookeeper_directory import from_cursor, write_directory
from tests.rigs.zookeeper_server import log_toolkit, snapshot_formatter
from zab.cli.files.formatters import long_date, short_date
from zab.cli.files.log_files import Damage, Entry, Event, Note, open_log
from zab.host.storage.disk import RealDisk

__all__ = ["member", "run"]


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    path = tmp_path / "log.1"
    path.write_bytes(LOG_HEADER + b"".join(map(encode_record, RARE)) + bytes(500))
    return path


# The text of ZooKeeper's tools.


def java_lines(output: bytes) -> list[str]:
    # Newer Java writes the half of the day after a narrow no-break space.
    return output.decode().replace("\u202f", " ").splitlines()


def as_it_was(output: str) -> list[str]:
    """Ours with what it makes visible as ZooKeeper's tool prints it."""

    def character(found: re.Match[str]) -> str:
        hexadecimal = found[1] or found[2]
        return chr(int(hexadecimal, 16)) if hexadecimal else {"t": "\t", "n": "\n", "r": "\r"}[found[3]]

    return re.sub(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([tnr]))", character, output).splitlines()


def without_multis(lines: list[str]) -> list[str]:
    """ZooKeeper's tool prints the parts of a multi as bytes, which may have line ends in them; ours their fields."""
    kept = []
    is_multi = False
    for line in lines:
        begins = re.match(r"\d+/\d+/\d\d, .* session 0x.* zxid 0x[0-9a-f]+ (\w+)|EOF", line)
        if begins is not None:
            is_multi = begins[1] == "multi"
            line = line.partition(" multi ")[0]
        if begins is not None or not is_multi:
            kept.append(line)
    return kept


@pytest.mark.java
@pytest.mark.slow
def test_logs_of_a_real_zookeeper_are_printed_as_by_its_own_tool(run: Run, real_files: RealFiles) -> None:
    path = real_files.logs()[0]
    assert run("log", path) == 0
    theirs = java_lines(log_toolkit(path).stdout)
    assert without_multis(as_it_was(run.out)) == without_multis(theirs)
    assert len(theirs) > 300
    assert "multi create:/multi,1,[31,s{'world,'anyone}\n],false," in run.out
    assert ";delete:'/a/include\n" in run.out
    assert "multi error:-110;error:-2;error:-2;error:-2;error:-2\n" in run.out


@pytest.mark.java
@pytest.mark.slow
def test_rare_transactions_are_printed_as_by_zookeepers_own_tool(run: Run, rare: Path) -> None:
    assert run("log", rare) == 0
    assert as_it_was(run.out) == java_lines(log_toolkit(rare).stdout)


def blocks(lines: list[str]) -> tuple[str, list[str], list[str]]:
    """First line, the blocks of the znodes, and all after them; each sorted, since ours come in the file's order."""
    text = "\n".join(lines)
    head, *znodes, sessions, last = text.split("\n----\n")
    title, *each = sessions.split("\n")
    return head, sorted(znodes), [title, *sorted(each), last]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-d"]])
def test_snapshots_of_a_real_zookeeper_are_printed_as_by_its_own_tool(
    run: Run, real_files: RealFiles, flags: list[str]
) -> None:
    path = real_files.snapshots()[-1]
    assert run("snapshot", *flags, path) == 0
    theirs = blocks(java_lines(snapshot_formatter(path, *flags).stdout))
    assert blocks(run.out.splitlines()) == theirs
    assert len(theirs[1]) > 50


def sorted_ncdu(value: list | dict) -> list | dict:
    """A tree of ncdu's format with its numbers taken out and children by name."""
    if isinstance(value, dict):
        return {**value, "ino": 0}
    head, *below = value
    return [sorted_ncdu(head), *sorted((sorted_ncdu(each) for each in below), key=str)]


@pytest.mark.java
@pytest.mark.slow
def test_snapshot_for_ncdu_is_that_of_zookeepers_own_tool(run: Run, real_files: RealFiles) -> None:
    path = real_files.snapshots()[-1]
    assert run("snapshot", "--ncdu", path) == 0
    ours, theirs = json.loads(run.out), json.loads(snapshot_formatter(path, "-json").stdout)
    assert ours[:2] == theirs[:2] == [1, 0]
    assert ours[2].keys() == theirs[2].keys()
    assert sorted_ncdu(ours[3]) == sorted_ncdu(theirs[3])


@pytest.mark.parametrize(
    ("time_ms", "short", "long"),
    [
        (0, "1/1/70, 12:00:00 AM UTC", "Thu Jan 01 00:00:00 UTC 1970"),
        (TIME, "11/21/25, 4:40:00 AM UTC", "Fri Nov 21 04:40:00 UTC 2025"),
        (TIME + 46_800_999, "11/21/25, 5:40:00 PM UTC", "Fri Nov 21 17:40:00 UTC 2025"),
        (1 << 62, f"{1 << 62} ms", f"{1 << 62} ms"),
    ],
)
def test_dates(time_ms: int, short: str, long: str) -> None:
    assert (short_date(time_ms), long_date(time_ms)) == (short, long)


def test_snapshot_text(run: Run, tmp_path: Path) -> None:
    """Without Java: the form byte by byte, of a file of ours in ZooKeeper's format."""
    _, tree = history(2, 1)
    path = write_directory(_made(tmp_path / "version-2"), from_cursor(tree.begin_snapshot()))
    assert run("snapshot", tmp_path / path) == 0
    head, *znodes, sessions, last = run.out.split("----\n")
    assert last == "Last zxid: 0x1\n"
    assert head == "ZNode Details (count=5):\n"
    assert znodes[0] == (
        "/\n  cZxid = 0x00000000000000\n  ctime = Thu Jan 01 00:00:00 UTC 1970\n  mZxid = 0x00000000000000\n"
        "  mtime = Thu Jan 01 00:00:00 UTC 1970\n  pZxid = 0x00000000000000\n  cversion = 0\n  dataVersion = 0\n"
        "  aclVersion = 0\n  ephemeralOwner = 0x00000000000000\n  dataLength = 0\n"
    )
    assert sessions == "Session Details (sid, timeout, ephemeralCount):\n0x00000000000101, 40001, 0\n"


# Native files.


def test_native_snapshot_has_the_same_text_as_its_zookeeper_twin(run: Run, tmp_path: Path) -> None:
    _, tree = history(4, 200)
    native = snapshot(RealDisk(str(tmp_path)), tree, bytes(16))
    twin = write_directory(_made(tmp_path / "version-2"), from_cursor(tree.begin_snapshot()))
    for flags in ([], ["--data"]):
        assert run("snapshot", *flags, tmp_path / native) == 0
        ours = run.out
        assert run("snapshot", *flags, tmp_path / twin) == 0
        assert ours == run.out
        assert re.search(r"0x00000000000\w+, 40\d+, 1\n", ours)
    assert run("snapshot", "--ncdu", tmp_path / native) == 0
    ours = json.loads(run.out)[3]
    assert run("snapshot", "--ncdu", tmp_path / twin) == 0
    assert json.loads(run.out)[3] == ours


def test_native_log_marks_what_is_above_the_high_water_mark(run: Run, member: Member) -> None:
    member.write(1)
    member.write(2)
    assert run("log", member.path) == 0
    lines = [line for line in run.out.splitlines() if "zxid" in line and "session" in line]
    assert ["uncommitted - " in line for line in lines] == [False, False, True]
    assert run.out.startswith(f"Transaction log of lineage {LINEAGE.hex()} format version 1 after zxid 0x0\n")
    assert run.out.endswith("EOF reached after 3 txns.\n")


def test_mark_of_an_idle_log_is_in_the_file_beside_it(run: Run, member: Member) -> None:
    member.write(3)
    member.log.set_mark(member.author.last[0])
    assert run("log", member.path) == 0
    assert "uncommitted" not in run.out
    # Away from its directory the log has only its own marks.
    copy = member.directory.parent / "copy"
    copy.write_bytes(member.path.read_bytes())
    assert run("log", copy) == 0
    assert run.out.count("uncommitted - ") == 1


def test_log_as_json(run: Run, member: Member, rare: Path) -> None:
    member.write(3)
    assert run("log", "--json", member.path) == 0
    values = [json.loads(line) for line in run.out.splitlines()]
    assert [value["committed"] for value in values] == [True, True, False]
    assert [value["zxid"] for value in values] == ["0x100000001", "0x100000002", "0x100000003"]
    assert run("log", "--json", rare) == 0
    values = [json.loads(line) for line in run.out.splitlines()]
    assert len(values) == len(RARE)
    assert base64.b64decode(values[4]["data"]) == RARE[4].data
    assert [values[at]["encoding"] for at in (4, 5, 7)] == ["base64", "utf-8", None]
    assert values[7]["data"] is None
    assert values[3]["acl"] == [
        {"scheme": "world", "id": "anyone", "permissions": "cdrwa"},
        {"scheme": "digest", "id": "u%,}:x\n", "permissions": "r"},
    ]
    assert values[10]["paths"] == ["/a,b", "/c"]
    kinds = [(values[at]["ephemeral_owner"], values[at]["container"], values[at]["ttl_ms"]) for at in (9, 11, 12)]
    assert kinds == [("0x55", False, None), (None, True, None), (None, False, 1)]
    assert values[13]["time"] == "3270-01-05T00:00:00.000Z"
    assert values[0]["time"] == "2025-11-21T04:40:00.000Z"
    assert (values[2]["session"], values[5]["session"]) == (None, "0xffffffffffffffab")


def test_gzipped_snapshot_is_read(run: Run, tmp_path: Path) -> None:
    _, tree = history(4, 50)
    path = tmp_path / write_directory(_made(tmp_path / "version-2"), from_cursor(tree.begin_snapshot()))
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert run("snapshot", path) == 0
    plain = run.out
    assert run("snapshot", packed) == 0
    assert run.out == plain


def test_data_does_not_command_a_terminal(run: Run, rare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        assert run("log", rare) == 0
        assert "\x1b" not in run.out
        assert "\\x00\\x1b[2J" in run.out


def test_data_forges_no_line_of_the_log(run: Run, tmp_path: Path) -> None:
    """Nor does a path of a log that somebody else has written."""
    line = b"x\n11/21/25, 2:19:56 AM UTC session 0x0 cxid 0x0 zxid 0x9 delete '/"
    txns = [Txn(1, 0, 5, 1, 5, 1, b"/a", line, None), Txn(2, 0, 5, 2, 2, 0, b"/" + line, None, None)]
    (tmp_path / "log.1").write_bytes(LOG_HEADER + b"".join(encode_record(txn, 0) for txn in txns))
    assert run("log", tmp_path / "log.1") == 0
    assert run.out.count("11/21/25") == 2
    assert not [line for line in run.out.splitlines() if line.startswith("11/21/25")]


# Damage, and wrong usage.


def test_damaged_log_of_zookeeper_is_read_on_and_ends_in_1(run: Run, rare: Path) -> None:
    data = bytearray(rare.read_bytes())
    at = data.index(b"server.1=x")
    data[at] ^= 1
    rare.write_bytes(data)
    assert run("log", rare) == 1
    start = data.index(encode_record(RARE[5])[:12])
    assert run.err == f"zab: {rare}: offset {start}: checksum of the transaction does not match\n"
    assert "CRC ERROR - 11/21/25" in run.out
    assert run.out.endswith(f"EOF reached after {len(RARE)} txns.\n")


def test_torn_end_is_no_damage(run: Run, rare: Path) -> None:
    rare.write_bytes(rare.read_bytes().rstrip(b"\0")[:-3])
    assert run("log", rare) == 0
    assert re.search(r"log\.1: offset \d+: the last transaction is torn", run.err)


def test_damaged_snapshot_prints_nothing(run: Run, tmp_path: Path) -> None:
    _, tree = history(4, 50)
    for path in (
        write_directory(_made(tmp_path / "version-2"), from_cursor(tree.begin_snapshot())),
        snapshot(RealDisk(str(tmp_path)), tree, bytes(16)),
    ):
        whole = (tmp_path / path).read_bytes()
        (tmp_path / path).write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
        assert run("snapshot", tmp_path / path) == 1
        assert run.out == ""
        assert re.search(rf"{re.escape(str(tmp_path / path))}:? .*offset \d+: ", run.err)


def test_damaged_native_log_is_read_on_and_ends_in_1(run: Run, member: Member) -> None:
    member.write(1)
    member.write(1)
    member.write(1)
    path = member.path
    data = bytearray(path.read_bytes())
    at = data.index(b"/z000001")
    data[at] ^= 1
    path.write_bytes(data)
    assert run("log", path) == 1
    assert re.search(rf"{re.escape(str(path))}: offset \d+: checksum of the batch body does not match", run.err)
    assert run.out.endswith("EOF reached after 2 txns.\n")


def test_torn_end_of_a_native_log_is_no_damage(run: Run, member: Member) -> None:
    member.write(1)
    member.write(1)
    path = member.path
    path.write_bytes(path.read_bytes()[:-9])
    assert run("log", path) == 0
    assert "never acknowledged" in run.err
    assert run.out.endswith("EOF reached after 1 txns.\n")


@pytest.mark.parametrize("command", ["log", "snapshot"])
@pytest.mark.parametrize("content", [b"", b"tickTime=2000\n", b"ZLOG", b"ZKLG", b"ZSNP", b"ZKSN", b"\x1f\x8b"])
def test_other_files_end_in_1(run: Run, tmp_path: Path, command: str, content: bytes) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    assert run(command, path) == 1
    assert str(path) in run.err
    assert run.out == ""


def test_log_given_to_the_other_command_is_named(run: Run, rare: Path) -> None:
    assert run("snapshot", rare) == 1
    assert f"zab log {rare}" in run.err


def test_wrong_usage_ends_in_2(run: Run, rare: Path, tmp_path: Path) -> None:
    assert run("log", tmp_path / "absent") == 2
    assert run("snapshot", "--json", "-d", rare) == 2
    assert run("snapshot", "--json", "--ncdu", rare) == 2
    assert run("log", "--follow", rare) == 2
    assert "--uncommitted" in run.err


# Live reading.


def zxids(events: list[Event]) -> list[tuple[int, bool | None]]:
    return [(event.txn.zxid & 0xFFFFFFFF, event.committed) for event in events if isinstance(event, Entry)]


def notes(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Note)]


def test_native_log_is_followed_across_files(member: Member) -> None:
    member.write(2)
    log = open_log(member.path)
    assert zxids(list(log.dump())) == [(1, True), (2, False)]
    assert list(log.poll()) == []
    member.write(2)
    events = list(log.poll())
    assert notes(events) == ["committed up to 0x100000002"]
    assert zxids(events) == [(3, True), (4, False)]
    member.log.roll()
    member.write(1)
    assert list(log.poll()) == []
    events = list(log.poll())
    assert zxids(events) == [(5, False)]
    member.log.set_mark(member.author.last[0])
    assert notes(list(log.poll())) == ["committed up to 0x100000005"]
    assert list(log.poll()) == []


def test_frame_that_is_half_written_is_waited_for(member: Member) -> None:
    member.write(1)
    log = open_log(member.path)
    list(log.dump())
    member.write(1)
    path, whole = member.path, member.path.read_bytes()
    # The last 12 bytes are zeros, as the preallocated space is.
    for length in range(log.position, len(whole) - 12, 5):
        path.write_bytes(whole[:length] + bytes(100))
        assert list(log.poll()) == []
    path.write_bytes(whole)
    assert zxids(list(log.poll())) == [(2, False)]


def test_truncation_is_said(member: Member) -> None:
    member.write(1)
    member.write(3, lag=3)
    log = open_log(member.path)
    assert len(zxids(list(log.dump()))) == 4
    kept = member.author.batches[1]
    member.log.truncate(kept.zxid, kept.chain)
    member.author = member.author.cut(2)
    member.write(1)
    events = [event for _ in range(4) for event in log.poll()]
    assert notes(events)[-1] == "truncated to 0x100000002" or "truncated to 0x100000001" in notes(events)
    assert zxids(events)[-1][0] == 1
    assert not any(isinstance(event, Damage) for event in events)


def test_log_of_zookeeper_is_followed_across_files(tmp_path: Path) -> None:
    records = list(map(encode_record, RARE))
    path = tmp_path / "log.1"
    path.write_bytes(LOG_HEADER + b"".join(records[:2]) + records[2][:20] + bytes(200))
    log = open_log(path)
    assert zxids(list(log.dump())) == [(1, None), (2, None)]
    assert list(log.poll()) == []
    path.write_bytes(LOG_HEADER + b"".join(records[:4]) + bytes(200))
    assert zxids(list(log.poll())) == [(3, None), (4, None)]
    following = tmp_path / "log.5"
    following.write_bytes(b"")
    assert [list(log.poll()) for _ in range(3)] == [[], [], []]
    following.write_bytes(LOG_HEADER + b"".join(records[4:6]))
    assert zxids([event for _ in range(2) for event in log.poll()]) == [(5, None), (6, None)]


def test_follow_prints_as_it_comes(run: Run, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of the command: what is there, what comes, until Ctrl-C."""
    member.write(1)
    naps = 0

    def sleep(_seconds: float) -> None:
        nonlocal naps
        naps += 1
        if naps == 3:
            raise KeyboardInterrupt
        member.write(1)

    nap_with(monkeypatch, sleep)
    assert run("log", "--follow", member.path) == 130
    assert run.out.count("uncommitted - ") == 3
    assert run.err == "zab: committed up to 0x100000001\nzab: committed up to 0x100000002\n"


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "it is empty"), (b"x", "it begins with b'x'"), (b"tickTime=2000\n", "it begins with b'tick'")],
)
def test_a_file_that_is_no_snapshot_is_said_to_be_none(run: Run, tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "snapshot.1"
    path.write_bytes(data)
    assert run("snapshot", path) == 1
    assert (run.out, run.err) == ("", f"zab: {path}: neither a snapshot of zab nor one of ZooKeeper ({why})\n")
