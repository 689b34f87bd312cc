"""`zab changes --to-log` and `--from-log`: each change is in the log once, whatever is killed when, and is read again
where servers no longer have it."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest
import trio

from tests.cli.commands import Run, started
from tests.cli.json_page import check
from tests.cli.ledger.rig import hosts
from tests.rigs.bookie import bookies
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import zab_servers
from zab.cli.znodes.publishing import PLACE_SECONDS
from zab.client import connect
from zab.ledgers.change_entries import decode_entry

__all__ = ["hosts"]

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = 4


@pytest.fixture
def run(hosts: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("ZAB_HOSTS", hosts)
    return Run(capsys)


@pytest.fixture
def log(run: Run) -> str:
    """The name of a log, and of the znode below which changes are followed."""
    name = f"kept-{uuid.uuid4().hex[:8]}"
    assert run("ledger-log", "create", name) == 0, run.err
    return name


async def change(hosts: str, root: str, count: int, first: int = 0) -> None:
    """So many times three changes below the root, which is created the first time."""
    async with connect(hosts) as zk:
        await zk.ensure_path(root)
        for number in range(first, first + count):
            async with zk.transaction() as parts:
                parts.create(f"{root}/n{number}", b"%d" % number)
                parts.set(root, b"\xff%d" % number)
            await zk.delete(f"{root}/n{number}")


def kept(run: Run, log: str) -> list[tuple[int, int, str, bytes | None]]:
    """What the log has: zxid, part, kind, data; in order."""
    assert run("ledger-log", "read", log) == 0, run.err
    entries = [decode_entry(line.encode()) for line in run.out.splitlines()]
    return [(each.zxid, each.part, each.kind.name, each.data) for entry in entries for each in entry.changes]


def keep_until(run: Run, words: list[str], log: str, total: int) -> None:
    """Keep changes until the log has so many. How many are left cannot be told before: it is the next owner that
    decides which of the last entries are in the log."""
    if len(kept(run, log)) == total:
        return
    with started(*words) as feed:
        until(lambda: feed.poll() is not None or len(kept(run, log)) >= total)
        assert feed.poll() is None, feed.stderr.read()
        feed.send_signal(signal.SIGINT)
        assert feed.wait(PATIENCE_SECONDS) == 130


def followed(run: Run, root: str, count: int) -> list[dict]:
    """What `zab changes` says."""
    assert run("changes", "--since", "0", "--prefix", root, "--count", count, "--json") == 0, run.err
    return [json.loads(line) for line in run.out.splitlines()]


def is_same(kept: list[tuple[int, int, str, bytes | None]], told: list[dict]) -> bool:
    return [each[:3] for each in kept] == [(int(one["zxid"], 16), one["part"], one["kind"]) for one in told]


def test_each_change_is_in_the_log(run: Run, hosts: str, log: str) -> None:
    root = f"/{log}"
    trio.run(change, hosts, root, 20)
    count = 1 + 20 * 3
    assert run("changes", "--to-log", log, "--since", "0", "--prefix", root, "--count", count) == 0, run.err
    assert f"publishing {root} to {log} from 0x0" in run.err
    assert f"{count} changes in {log}" in run.out
    found = kept(run, log)
    assert is_same(found, followed(run, root, count))
    assert found[2][3] == b"\xff0"
    trio.run(change, hosts, root, 1, 20)
    assert run("changes", "--to-log", log, "--since", "0", "--prefix", root, "--count", 3) == 0, run.err
    assert is_same(kept(run, log), followed(run, root, count + 3))


def test_whenever_it_is_killed_no_change_is_missing_and_none_is_there_twice(run: Run, hosts: str, log: str) -> None:
    root = f"/{log}"
    words = ["changes", "--to-log", log, "--since", "0", "--prefix", root]
    total = 0
    for turn in range(KILLS):
        before = len(kept(run, log))
        with started(*words) as feed:
            trio.run(change, hosts, root, 30, 30 * turn)
            until(lambda before=before, feed=feed: feed.poll() is not None or len(kept(run, log)) > before)
            assert feed.poll() is None, feed.stderr.read()
            feed.kill()
            feed.wait(PATIENCE_SECONDS)
        total += 30 * 3
    total += 1
    keep_until(run, words, log, total)
    assert is_same(kept(run, log), followed(run, root, total))


def test_one_that_is_killed_before_its_first_change_goes_on_from_its_beginning(run: Run, hosts: str, log: str) -> None:
    root = f"/{log}"
    trio.run(change, hosts, root, 1)
    with started("changes", "--to-log", log, "--prefix", root) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("publishing ")
        process.kill()
        process.wait(PATIENCE_SECONDS)
    trio.run(change, hosts, root, 2, 1)
    assert run("changes", "--to-log", log, "--prefix", root, "--count", 6, "--timeout", 60) == 0, run.err
    assert is_same(kept(run, log), followed(run, root, 10)[4:])


def test_changes_read_with_a_log_are_those_of_servers_where_they_have_them(run: Run, hosts: str, log: str) -> None:
    root = f"/{log}"
    trio.run(change, hosts, root, 2)
    assert run("changes", "--to-log", log, "--since", "0", "--prefix", root, "--count", 4) == 0, run.err
    words = ["changes", "--from-log", log, "--since", "0", "--prefix", root, "--count", 7, "--json"]
    assert run(*words) == 0, run.err
    assert f"following {root} from 0x0" in run.err
    told = [json.loads(line) for line in run.out.splitlines()]
    for each in told:
        check("changes", each)
    assert told == followed(run, root, 7)
    assert run("changes", "--from-log", log, "--timeout", 0.5) == 124
    assert "no answer within 0.5 s (--timeout)" in run.err
    assert "write" not in run.err, "it reads alone"


def test_a_second_process_takes_the_log_over_and_the_first_ends_though_nothing_changes(
    run: Run, hosts: str, log: str
) -> None:
    root = f"/{log}"
    words = ["changes", "--to-log", log, "--since", "0", "--prefix", root]
    with started(*words) as first:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("publishing ")
        with started(*words) as second:
            assert second.stderr is not None
            assert second.stderr.readline().startswith("publishing ")
            # Before it would keep its place.
            assert first.wait(PLACE_SECONDS / 2) == 1
            assert "another process keeps this log now" in first.stderr.read()
            trio.run(change, hosts, root, 2)
            until(lambda: len(kept(run, log)) == 7)
            assert second.poll() is None
            second.send_signal(signal.SIGINT)
            assert second.wait(PATIENCE_SECONDS) == 130
            assert "Traceback" not in second.stderr.read()
    assert is_same(kept(run, log), followed(run, root, 7))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to-log", "nowhere"], 1, "zab ledger-log create nowhere makes it"),
        (["--to-log", "{log}", "--json"], 2, "entries have JSON without it"),
        (["--to-log", "{log}", "--to-topic", "t"], 2, "it does not go together with --to-topic"),
        (["--to-log", "{log}", "--from-log", "{log}"], 2, "it does not go together with --to-log"),
        (["--to-log", "{log}", "--feed", "x"], 2, "it needs --to-topic"),
        (["--root", "/x"], 2, "it needs --to-log or --from-log"),
        (["--password-file", "x"], 2, "it needs --to-log or --from-log"),
        (["--to-log", "{log}", "--root", "x"], 2, "is not the path of a znode"),
        (["--to-log", "{log}", "--root", "/none"], 1, "zab ledger format makes it"),
        (["--to-log", ".."], 2, "--to-log"),
        (["--to-log", "{log}", "--prefix", "/" + "x" * 1000], 2, "it has more than 1000 characters"),
    ],
)
def test_wrong_input_is_told(run: Run, log: str, words: list[str], code: int, said: str) -> None:
    assert run("changes", *(word.format(log=log) for word in words)) == code
    assert said in " ".join(run.err.replace("│", "").split())


def test_a_log_of_something_else_is_refused(run: Run, hosts: str, log: str, tmp_path: Path) -> None:
    trio.run(change, hosts, f"/{log}", 1)
    words = ["changes", "--to-log", log, "--since", "0", "--count", 1]
    assert run(*words, "--prefix", f"/{log}") == 0, run.err
    assert run(*words, "--prefix", "/other") == 1
    assert "it keeps the changes below" in run.err
    lines = tmp_path / "lines"
    lines.write_bytes(b"one\n")
    assert run("ledger-log", "append", log, "--file", lines) == 0, run.err
    assert run(*words, "--prefix", f"/{log}") == 1
    assert "is none of a feed of changes" in run.err


def test_a_log_with_a_password(run: Run, hosts: str, tmp_path: Path) -> None:
    name = f"kept-{uuid.uuid4().hex[:8]}"
    password = tmp_path / "password"
    password.write_text("secret\n")
    assert run("ledger-log", "create", name, "--password-file", password) == 0, run.err
    trio.run(change, hosts, f"/{name}", 1)
    words = ["changes", "--to-log", name, "--since", "0", "--prefix", f"/{name}", "--count", 4]
    assert run(*words, "--password-file", password) == 0, run.err
    assert run("ledger-log", "read", name, "--password-file", password) == 0, run.err
    assert len(run.out.splitlines()) >= 2


@pytest.mark.long
def test_the_log_goes_on_where_the_servers_log_no_longer_reaches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With bookies that are processes: the command is killed again and again, and so are bookies, while retention
    removes the member's log."""
    run = Run(capsys)
    configuration = {"snapCount": 100, "preAllocSize": 64, "maxRecentBytes": 2_000, "maxBatchBytes": 1_000}
    with (
        zab_servers(1, directory=tmp_path / "member", configuration=configuration) as servers,
        bookies(tmp_path / "bookies", 3, servers.hosts) as found,
    ):
        monkeypatch.setenv("ZAB_HOSTS", servers.hosts)
        assert run("ledger-log", "create", "tree") == 0, run.err
        words = ["changes", "--to-log", "tree", "--since", "0", "--prefix", "/app"]
        oldest = tmp_path / "member/server1/data/version-1/log.100000001"
        assert oldest.exists()
        turn = 0
        while oldest.exists():
            before = len(kept(run, "tree"))
            with started(*words) as feed:
                trio.run(change, servers.hosts, "/app", 30, 30 * turn)
                until(lambda before=before, feed=feed: feed.poll() is not None or len(kept(run, "tree")) > before)
                assert feed.poll() is None, feed.stderr.read()
                feed.kill()
                feed.wait(PATIENCE_SECONDS)
            found[turn % 3].kill()
            found[turn % 3].start()
            turn += 1
        total = 1 + turn * 30 * 3
        keep_until(run, words, "tree", total)
        assert run("changes", "--since", "0", "--prefix", "/app") == 1
        assert "cannot be told" in run.err
        trio.run(change, servers.hosts, "/app", 5, 30 * turn)
        total += 5 * 3
        follow = ["changes", "--since", "0", "--prefix", "/app", "--from-log", "tree", "--count", total]
        assert run(*follow, "--json") == 0, run.err
        told = [json.loads(line) for line in run.out.splitlines()]
        for each in told:
            check("changes", each)
        assert len(told) == total
        paths = ["/app"] + [f"/app{part}" for each in range(total // 3) for part in (f"/n{each}", "", f"/n{each}")]
        assert [each["path"] for each in told] == paths
        assert run(*follow) == 0, run.err
        assert run.out.splitlines()[1].startswith("CREATED /app/n0 zxid=")
