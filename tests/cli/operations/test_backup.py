"""`zab backup` and what `zab restore` makes of it, against running members."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run, started
from tests.cli.json_page import table
from tests.cli.operations.running_member import Running, running
from tests.rigs.admin_servers import administered, lines_of
from tests.rigs.in_process import members_here
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.operations.backup import _Member
from zab.cli.operations.durations import duration_ms
from zab.operations.admin_client import AdminError, admin_port
from zab.testing.kit.ports import free_ports

__all__ = ["run", "running"]

FIELDS = table("Lines of `zab backup`")


def lines(out: str) -> list[dict[str, Any]]:
    listed = [json.loads(line) for line in out.splitlines()]
    assert all(list(each) == FIELDS[each["type"]] for each in listed)
    return listed


def test_from_any_member_and_back_to_any_moment(running: Running, tmp_path: Path, run: Run) -> None:
    """The log is the same on every member: one begins, another goes on, and a third is taken where one is gone."""
    place = tmp_path / "backups"
    client = running.client
    moments = []
    for at in range(3):
        moments.append(client.create(f"/m{at}", b"x", include_data=True)[1].czxid)
        # The write is on every member that is asked.
        for member in running.servers.members:
            with kazoo_client(member.host) as one:
                one.sync("/")
        words = running.words("take", place, "--json")
        words = [*words[: -2 * 3], *words[-2 * (3 - at) :]]
        assert run(*words) == 0, run.err
        [taken] = lines(run.out)
        assert int(taken["zxid"], 16) >= moments[-1]
        assert ("version-1/snapshot" in str(taken["files"])) is (at == 0)
    assert run("backup", "list", place, "--json") == 0
    listed = lines(run.out)
    assert len(listed) == 3
    assert [each["znode_count"] for each in listed] == sorted(each["znode_count"] for each in listed)
    assert run("backup", "verify", place, "--json") == 0
    assert lines(run.out) == [{"type": "verified", "count": 3, "is_whole": True}]
    for at, zxid in enumerate(moments[1:], 1):
        to = tmp_path / f"restored{at}"
        assert run("restore", place, "--at", f"{zxid:#x}", "--to", f"1={to}", "--json") == 0, run.err
        assert run.err == ""
        [snapshot] = (to / "version-1").glob("snapshot.*")
        assert run("snapshot", snapshot, "--json") == 0
        paths = {json.loads(line).get("path") for line in run.out.splitlines()}
        assert {f"/m{number}" for number in range(3) if f"/m{number}" in paths} == {f"/m{n}" for n in range(at + 1)}
    for at in range(3):
        client.delete(f"/m{at}")


def test_a_restored_backup_is_an_ensemble_that_serves(running: Running, tmp_path: Path, run: Run) -> None:
    place, data = tmp_path / "backups", tmp_path / "new" / "server1" / "data"
    running.client.create("/kept", b"value")
    assert run(*running.words("take", place, members=1)) == 0, run.err
    assert run("restore", place, "--to", f"1={data}") == 0
    with (
        administered(1, directory=tmp_path / "new") as alone,
        kazoo_client(alone.servers.hosts) as client,
    ):
        assert client.get("/kept")[0] == b"value"
        # Its log begins later: of which history it is, is said all the same.
        with pytest.raises(AdminError) as refused:
            admin_port(f"127.0.0.1:{alone.admin[1]}", authorization="super:wire").read("log", 60, after="0x0")
        assert refused.value.status == 410
        assert len(bytes.fromhex(refused.value.headers["lineage"])) == 16
    running.client.delete("/kept")


def test_damage_is_said_by_verify_and_by_restore(running: Running, tmp_path: Path, run: Run) -> None:
    place = tmp_path / "backups"
    assert run(*running.words("take", place)) == 0
    running.client.create("/d", b"x" * 100)
    running.client.delete("/d")
    assert run(*running.words("take", place)) == 0
    [log] = (place / "version-1").glob("log.*")
    data = log.read_bytes()
    log.write_bytes(data[:200] + b"?" + data[201:])
    assert run("backup", "verify", place, "--json") == 1
    fault, verdict = lines(run.out)
    assert fault["file"] == f"version-1/{log.name}"
    assert len(fault["backups"]) == 1
    assert verdict["is_whole"] is False
    assert run("backup", "verify", place, "--bytes") == 1
    assert run("restore", place, "--to", f"1={tmp_path / 'no'}") == 1
    assert f"version-1/{log.name}: its bytes are not those that were written" in run.err
    said = re.search(
        r"between (0x\w+) and 0x\w+ are missing or damaged; before them all can be read up to (0x\w+)", run.err
    )
    assert said is not None, run.err
    assert said[1] == said[2]
    assert "kept are" not in run.err
    assert run("restore", place, "--at", said[2], "--to", f"1={tmp_path / 'before'}") == 0, run.err
    catalogue = place / "catalogue.json"
    catalogue.write_text(catalogue.read_text().replace("1", "2", 1))
    assert run("backup", "list", place) == 1
    assert run(*running.words("take", place)) == 1
    assert run("backup", "verify", tmp_path / "nothing") == 1


def test_an_interrupt_says_how_much_was_received(
    running: Running, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, log = tmp_path / "backups", _Member.log
    received: list[int] = []

    def interrupted(member: _Member, after: int) -> None:
        received.append(len(log(member, after).raw))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Member, "log", interrupted)
        assert run(*running.words("take", place, members=1)) == 130
    [snapshot] = (place / "version-1").glob("snapshot.*")
    size = snapshot.stat().st_size
    assert run.err == f"zab: not finished: {size + received[0]} bytes received\n"
    assert run(*running.words("take", place, members=1)) == 0
    running.client.create("/received", b"x" * 100)
    monkeypatch.setattr(_Member, "log", interrupted)
    assert run(*running.words("take", place, members=1)) == 130
    assert received[1] > 100
    assert run.err == f"zab: not finished: {received[1]} bytes received\n"
    running.client.delete("/received")


def test_again_and_again_with_retention(running: Running, tmp_path: Path) -> None:
    words = running.words("take", tmp_path, "--every", "1s", "--keep", "2", "--full", "--json")
    with started(*map(str, words)) as process:
        assert process.stdout is not None
        for number in range(4):
            running.client.create(f"/e{number}", b"")
            assert process.stdout.readline(), process.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert len(list((tmp_path / "version-1").glob("snapshot.*"))) <= 3
    for number in range(4):
        running.client.delete(f"/e{number}")


def test_a_member_that_gives_none_is_passed_over(running: Running, tmp_path: Path, run: Run) -> None:
    [closed] = free_ports(1)
    words = running.words("take", tmp_path, "--admin", f"127.0.0.1:{closed}")
    assert run(*words) == 0
    assert f"127.0.0.1:{closed}: Connection refused" in run.err
    assert run("backup", "take", tmp_path, "--admin", f"127.0.0.1:{closed}") == 3
    # A client without an identity.
    assert run("backup", "take", tmp_path / "x", "--admin", f"127.0.0.1:{running.admin[0]}") == 3
    assert "--auth" in run.err


def test_prune(running: Running, tmp_path: Path, run: Run) -> None:
    for _ in range(3):
        running.client.create("/p", b"", sequence=True)
        assert run(*running.words("take", tmp_path, "--full", "--no-verify")) == 0
    assert run("backup", "prune", tmp_path, "--keep", "1", "--json") == 0
    [pruned] = lines(run.out)
    assert pruned["count"] == 1
    assert len(pruned["removed"]) >= 2
    assert run("backup", "verify", tmp_path, "--bytes") == 0
    assert run("backup", "prune", tmp_path, "--keep-for", "1h") == 0
    assert "1 backup kept, 0 files removed" in run.out


@pytest.mark.parametrize(
    "words",
    [
        ("take", "d", "--every", "x"),
        ("take", "d", "--every", "0s"),
        ("take", "d", "--keep", "0"),
        ("take", "d", "--keep-for", "7"),
        ("take", "d", "--admin", "x"),
        ("prune", "d"),
        ("list", "nowhere://x"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], run: Run) -> None:
    assert run("backup", *words) == 2


def test_no_password_goes_over_a_network_in_the_clear(running: Running, tmp_path: Path, run: Run) -> None:
    assert run("--auth", f"@{running.auth}", "backup", "take", tmp_path, "--admin", "192.0.2.1:8080") == 2
    assert "over the network as it is" in run.err


def test_durations() -> None:
    assert [duration_ms(text, "") for text in ("1s", "2m", "3h", "1d", "1w")] == [
        1000,
        120_000,
        10_800_000,
        86_400_000,
        604_800_000,
    ]


def test_when_the_next_snapshot_may_be_had_is_said(tmp_path: Path, run: Run) -> None:
    ports = free_ports(2)
    with members_here(1, {**lines_of(*ports), "admin.rateLimiterIntervalInMS": 300_000}):
        words = ("--auth", "digest:super:wire", "backup", "take")
        admin = ("--admin", f"127.0.0.1:{ports[0]}")
        assert run(*words, tmp_path / "one", *admin) == 0, run.err
        assert run(*words, tmp_path / "two", *admin) == 3
    said = re.search(r"the next may be had in (\d+) s; another member may give one now", run.err)
    assert said is not None, run.err
    assert 0 < int(said[1]) <= 300
