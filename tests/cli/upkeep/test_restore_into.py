"""`zab restore --into`: what each member is sent, and what is said where one does not take it."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from datatree.snapshot import load_snapshot, snapshot_path
from tests.cli.commands import Result, call
from tests.cli.upkeep.test_restore import RESTORED, TREE, backup
from zab.simulator.world.disk import FaultyDisk
from zab.testing.ports import free_ports

__all__ = ["backup"]

LINEAGE = "0123456789abcdef" * 2


class Member:
    """An admin port that keeps what it is sent, and answers as it is told to; or, with None, not at all."""

    def __init__(self, status: int, answer: dict[str, Any] | None) -> None:
        self.sent: list[tuple[str, str, bytes]] = []
        member = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                member.sent.append((self.path, self.headers["Authorization"], body))
                if answer is None:
                    self.close_connection = True
                    return
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"


def takes(lineage: str = LINEAGE) -> Member:
    return Member(200, {"last_zxid": RESTORED, "lineage": lineage, "command": "restore", "error": None})


def refuses(status: int, reason: str) -> Member:
    return Member(status, {"command": "restore", "error": reason})


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


def test_where_the_first_does_not_take_it_nothing_is_changed(zab: Callable[..., Result], backup: Path) -> None:
    other = takes()
    with running(refuses(403, "Not authorized"), other) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert "restore: Not authorized: who asks has not all permissions on /; " in done.err
    assert "; no member has it, and nothing is changed" in done.err
    assert other.sent == []


def test_where_another_does_not_take_it_both_are_named(zab: Callable[..., Result], backup: Path) -> None:
    first, [port] = takes(), free_ports(1)
    with running(first) as into:
        done = zab(backup, *into, "--into", f"127.0.0.1:{port}", "--into", first.name)
    assert done.code == 3
    assert f"127.0.0.1:{port}: Connection refused; 1 of 3 members went on with it: {first.name}. Give" in done.err
    assert len(first.sent) == 1


@pytest.mark.parametrize("before", [0, 1])
def test_one_that_goes_away_before_its_answer_may_have_it(
    zab: Callable[..., Result], backup: Path, before: int
) -> None:
    members = [*(takes() for _ in range(before)), Member(0, None)]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    silent, given = members[-1].name, "".join(f": {member.name}" for member in members[:-1])
    assert f"; {before} of {before + 1} member{'s' if before else ''} went on with it{given}; " in done.err
    assert f"whether {silent} did is not known, and its journal says so: this member goes on with a" in done.err
    assert "nothing is changed" not in done.err


def test_members_of_different_histories_are_told(zab: Callable[..., Result], backup: Path) -> None:
    members = [takes(), takes("f" * 32)]
    with running(*members) as into:
        done = zab(backup, *into)
    assert done.code == 3
    assert f"no ensemble now: {members[0].name}: {LINEAGE}, {members[1].name}: {'f' * 32}" in done.err


@pytest.mark.parametrize("lineage", [None, 7, "", "no number"])
def test_who_says_no_lineage_is_no_member_of_ours(zab: Callable[..., Result], backup: Path, lineage: object) -> None:
    with running(Member(200, {"last_zxid": 1, "lineage": lineage, "error": None})) as into:
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
        (["--into", "here"], "the admin port is 8080 unless"),
        (["--into", "10.0.0.1:8080"], "https://HOST:PORT, or --plain"),
    ],
)
def test_wrong_usage(zab: Callable[..., Result], backup: Path, tmp_path: Path, words: list[str], reason: str) -> None:
    done = zab(backup, *(word.format(new=tmp_path / "new") for word in words))
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert not (tmp_path / "new").exists()
