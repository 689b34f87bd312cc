"""`zab restore --into`: what each member is sent, and what is said where one does not take it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from datatree.snapshot import load_snapshot, snapshot_path
from tests.cli.commands import Result, call
from tests.cli.operations.restorable import RESTORED, TREE, backup
from zab.simulator.world.disk import FaultyDisk
from zab.testing.kit.ports import free_ports

__all__ = ["backup"]

BEFORE = "fedcba9876543210" * 2
LINEAGE = "0123456789abcdef" * 2


class Member:
    """An admin port that keeps what it is sent, and answers as it is told to; or, with None, not at all.

    asked: its answer before anything is sent, None: the same."""

    def __init__(self, status: int, answer: dict[str, Any] | None, asked: dict[str, Any] | None = None) -> None:
        self.sent: list[tuple[str, str, bytes]] = []
        self.asked_count = 0
        member = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_asked = self.path == "/commands/restore?ask=true"
                if is_asked:
                    assert (self.headers["Authorization"], body) == ("digest admin:secret", b"")
                    member.asked_count += 1
                else:
                    member.sent.append((self.path, self.headers["Authorization"], body))
                told, code = (asked, 200) if is_asked and asked is not None else (answer, status)
                if told is None:
                    self.close_connection = True
                    return
                data = json.dumps(told).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"


_sids = itertools.count(1)


def before(*, lineage: str = BEFORE, sid: int = 0, size: int = 0) -> dict[str, Any]:
    """What a member of an ensemble of this size says. By default of its own number, and the only one that counts."""
    sid = sid or next(_sids)
    participants = list(range(1, size + 1)) if size else [sid]
    return {"server_id": sid, "participants": participants, "lineage": lineage, "command": "restore", "error": None}


def takes(lineage: str = LINEAGE, **asked: Any) -> Member:
    told = {"last_zxid": RESTORED, "lineage": lineage, "command": "restore", "error": None}
    return Member(200, told, before(**asked))


def refuses(status: int, reason: str) -> Member:
    return Member(status, {"command": "restore", "error": reason})


def refuses_later(status: int, reason: str) -> Member:
    return Member(status, {"command": "restore", "error": reason}, before())


@contextlib.contextmanager
def running(*members: Member) -> Iterator[list[str]]:
    """The words that name them."""
    threads = [Thread(target=member.server.serve_forever, kwargs={"poll_interval": 0.01}) for member in members]
    for thread in threads:
        thread.start()
    try:
        yield [word for member in members for word in ("--into", member.name)]
    finally:
        for member, thread in zip(members, threads, strict=True):
            member.server.shutdown()
            member.server.server_close()
            thread.join()


@pytest.fixture
def zab(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("COLUMNS", "400")
    return lambda *words: call(capsys, "--auth", "digest:admin:secret", "restore", *words)


def test_each_is_sent_the_snapshot(zab: Callable[..., Result], backup: Path) -> None:
    members = [takes(), takes()]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-3:] == [f"lineage {LINEAGE}", *(f"given: {member.name}" for member in members)]
    for member in members:
        [(path, authorization, body)] = member.sent
        assert (path, authorization) == ("/commands/restore", "digest admin:secret")
        disk = FaultyDisk()
        disk.replace(snapshot_path(RESTORED), body)
        header, tree = load_snapshot(disk, snapshot_path(RESTORED))
        assert (header.zxid, tree.digest) == (RESTORED, TREE.digest)
    assert members[0].sent == members[1].sent


def test_it_is_said_as_json(zab: Callable[..., Result], backup: Path) -> None:
    member = takes()
    with running(member) as into:
        told = json.loads(zab(backup, *into, "--json").out)
    assert (told["lineage"], told["members"], told["given"]) == (LINEAGE, [], [member.name])
    assert told["restored_zxid"] == f"{RESTORED:#x}"


@pytest.mark.parametrize("refusing", [0, 1])
def test_where_one_would_not_take_it_nothing_is_changed(
    zab: Callable[..., Result], backup: Path, refusing: int
) -> None:
    other = takes()
    members = [refuses(403, "Not authorized"), other]
    with running(*(members if not refusing else members[::-1])) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert "restore: Not authorized: it is for the superuser, and for who is named by an ACL of / " in done.err
    assert "; no member has it, and nothing is changed" in done.err
    assert other.sent == []


def test_where_one_cannot_be_reached_nothing_is_changed(zab: Callable[..., Result], backup: Path) -> None:
    first, [port] = takes(), free_ports(1)
    with running(first) as into:
        done = zab(backup, *into, "--into", f"127.0.0.1:{port}")
    assert done.code == 3
    assert f"127.0.0.1:{port}: Connection refused; no member has it, and nothing is changed" in done.err
    assert first.sent == []


def test_members_of_different_histories_are_given_nothing(zab: Callable[..., Result], backup: Path) -> None:
    members = [takes(), Member(200, {}, before(lineage="e" * 32))]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert (
        f"different histories, and would be no ensemble: {members[0].name}: {BEFORE}, {members[1].name}: " in done.err
    )
    assert [member.sent for member in members] == [[], []]


def test_one_member_is_named_once(zab: Callable[..., Result], backup: Path) -> None:
    members = [takes(sid=7), takes(sid=7)]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert f"{members[0].name} and {members[1].name} are both server 7; no member has it" in done.err
    assert [member.sent for member in members] == [[], []]


@pytest.mark.parametrize(("size", "sids", "is_taken"), [(3, [1], False), (4, [1, 2], False), (3, [1, 3], True)])
def test_fewer_than_a_majority_are_given_it_as_the_rest_alone(
    zab: Callable[..., Result], backup: Path, size: int, sids: list[int], is_taken: bool
) -> None:
    """Observers do not count."""
    members = [takes(sid=sid, size=size) for sid in (*sids, 9)]
    with running(*members) as into:
        done = zab(backup, *into)
        assert [len(member.sent) for member in members] == [int(is_taken)] * len(members)
        if not is_taken:
            assert done.code == 3
            assert f"{len(sids)} of {size} participants would have it, which is no majority" in done.err
            assert "nothing is changed" in done.err
            done = zab(backup, *into, "--rest")
    assert done.code == 0, done.err
    assert [len(member.sent) for member in members] == [1] * len(members)


def test_where_one_does_not_take_it_when_it_comes_both_are_named(zab: Callable[..., Result], backup: Path) -> None:
    first, second = takes(), refuses_later(500, "it cannot be written: No space left on device")
    last = takes()
    with running(first, second, last) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert f"No space left on device; 1 of 3 members went on with it: {first.name}. Give the same to the" in done.err
    assert [len(member.sent) for member in (first, second, last)] == [1, 1, 0]


@pytest.mark.parametrize("given_before", [0, 1])
def test_one_that_goes_away_before_its_answer_may_have_it(
    zab: Callable[..., Result], backup: Path, given_before: int
) -> None:
    members = [*(takes() for _ in range(given_before)), Member(0, None, before())]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    silent, given = members[-1].name, "".join(f": {member.name}" for member in members[:-1])
    assert (
        f"; {given_before} of {given_before + 1} member{'s' if given_before else ''} went on with it{given}; "
        in done.err
    )
    assert f"whether {silent} did is not known, and its journal says so: this member goes on with a" in done.err
    assert "nothing is changed" not in done.err


def test_members_that_come_to_different_histories_are_told_at_once(zab: Callable[..., Result], backup: Path) -> None:
    members = [takes(), takes("f" * 32), takes()]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert [len(member.sent) for member in members] == [1, 1, 0]
    assert f"no ensemble now: {members[0].name}: {LINEAGE}, {members[1].name}: {'f' * 32}" in done.err


@pytest.mark.parametrize("lineage", [None, 7, "", "no number"])
def test_who_says_no_lineage_is_no_member_of_ours(zab: Callable[..., Result], backup: Path, lineage: object) -> None:
    with running(Member(200, {"last_zxid": 1, "lineage": lineage, "error": None}, before())) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert "names no lineage: is that an admin port of zab?" in done.err


def test_a_disk_without_room_for_what_is_sent_is_told(
    zab: Callable[..., Result], backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zab.pipeline.state import snapshot_output

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(snapshot_output, "write_native", full)
    member = takes()
    with running(member) as into:
        done = zab(backup, *into)
    assert (done.code, member.sent) == (1, [])
    assert "the snapshot that is sent: No space left on device" in done.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "either --to, for new directories, or --into"),
        (["--to", "{new}", "--into", "127.0.0.1:1"], "either --to, for new directories, or --into"),
        (["--into", "127.0.0.1:1", "--as", "version-2"], "either --to, for new directories, or --into"),
        (["--to", "{new}", "--rest"], "either --to, for new directories, or --into"),
        (["--into", "here"], "the admin port is 8080 unless"),
        (["--into", "10.0.0.1:8080"], "https://HOST:PORT, or --plain"),
    ],
)
def test_wrong_usage(zab: Callable[..., Result], backup: Path, tmp_path: Path, words: list[str], reason: str) -> None:
    done = zab(backup, *(word.format(new=tmp_path / "new") for word in words))
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert not (tmp_path / "new").exists()
