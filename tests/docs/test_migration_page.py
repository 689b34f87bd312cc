"""What docs/how-to/migrate.md shows is what happens, from a real ZooKeeper to members of ours and back."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.wire import Wire
from tests.docs.page_steps import steps
from tests.rigs.waiting import until
from tests.rigs.zookeeper_server import ZooKeeperMember, zookeeper
from tests.tidy.sources import ROOT
from zab.cli.arguments import arrange
from zab.cli.commands import COMMANDS
from zab.cli.servers.local_ensemble import OFFSETS
from zab.client.sync import connect
from zab.configuration.fields import settings_of
from zab.member.settings.config import Config
from zab.testing.kit.ports import free_ports_in_a_row

PAGE = (ROOT / "docs" / "how-to" / "migrate.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.java, pytest.mark.process]


class Reader:
    """A reader who follows the page in a directory, with two terminals."""

    def __init__(self, place: Path, old_port: int) -> None:
        self._place = place
        self._old = f"localhost:{old_port}"
        self.port = free_ports_in_a_row(3, OFFSETS)
        self._ensemble: subprocess.Popen[bytes] | None = None
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "HOME": str(place)}

    def follow(self, command: str, expected: str) -> None:
        """It prints what is expected; on standard error, too, where that has a line of it."""
        ours = command.replace("localhost:2181", self._old).replace("2281", str(self.port))
        if ours.startswith("zab ensemble"):
            self.interrupt()
            with (self._place / "ensemble.log").open("ab") as log:
                run = ours.split(" ")
                self._ensemble = subprocess.Popen(
                    run, cwd=self._place, env=self._environment, stdout=log, stderr=subprocess.STDOUT
                )
            return
        if "--as version-2" in ours:
            self.interrupt()
        errors = subprocess.STDOUT if "zab: " in expected else subprocess.PIPE
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {ours}"],
            cwd=self._place, env=self._environment, stdout=subprocess.PIPE, stderr=errors, text=True,
            timeout=180, check=False,
        )  # fmt: skip
        code = re.search(r" # exit code (\d+)$", command)
        assert done.returncode == int(code[1] if code else 0), (ours, done.stdout, done.stderr)
        pattern = ".*".join(map(re.escape, expected.strip().split("…")))
        assert re.fullmatch(pattern, done.stdout.strip(), re.S), (ours, done.stdout)

    def interrupt(self) -> None:
        """Ctrl-C in the other terminal."""
        if self._ensemble is not None:
            self._ensemble.send_signal(signal.SIGINT)
            self._ensemble.wait()
            self._ensemble = None

    @property
    def hosts(self) -> str:
        return f"localhost:{self.port}"


@contextmanager
def reading(place: Path, old_port: int) -> Iterator[Reader]:
    reader = Reader(place, old_port)
    try:
        yield reader
    finally:
        reader.interrupt()


@pytest.mark.longest
def test_an_application_moves_from_zookeeper_and_back(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="zab restore needs zab[backup]")
    shown = steps(PAGE)
    writes_end = next(n for n, (command, _) in enumerate(shown) if " export " in command) + 1
    with zookeeper(3, directory=tmp_path, configuration={"maxSessionTimeout": 100_000}) as old:
        members = old.members
        _as_on_the_page(tmp_path, members)
        with reading(tmp_path, members[0].client_port) as reader, connect(old.hosts, session_timeout_ms=10_000) as zk:
            zk.create("/app", b"the application")
            zk.create("/app/config", b"one")
            for _ in range(5):
                last = zk.create("/app/job-", b"work", sequence=True)
            zk.create("/app/alive", ephemeral=True)
            before = zk.get("/app/config")
            seen = zk.last_zxid
            idle = Wire(members[0].client_port, timeout_ms=100_000)
            idle.drop()
            for command, expected in shown[:writes_end]:
                reader.follow(command, expected)
            for member in members:
                member.stop()
            for command, expected in shown[writes_end:-1]:
                reader.follow(command, expected)
            with Wire(reader.port, session=idle.session, password=idle.password) as again:
                assert again.session == 0 != idle.session, "it has expired, although the time is not over"
            with connect(reader.hosts) as new:
                assert new.get("/app/config") == before
                job = new.create("/app/job-", sequence=True)
                assert job > last, "no number comes twice"
                assert new.last_zxid > seen
                until(lambda: new.exists("/app/alive") is None, "the end of an earlier ephemeral")
            reader.follow(*shown[-1])
    shutil.copytree(tmp_path / "back" / "1", tmp_path / "again" / "server1" / "data")
    with zookeeper(1, directory=tmp_path / "again") as alone, connect(alone.hosts) as zk:
        assert zk.get("/app/config") == before
        assert zk.exists(job)


def test_two_exports_that_fail_are_not_the_same(tmp_path: Path) -> None:
    """The files are there then, and both are empty."""
    (tmp_path / "before.jsonl").touch()
    compared = [command for command, _ in steps(PAGE) if " export " in command]
    assert len(compared) == 2
    for command in compared:
        nobody = re.sub(r"localhost:\d+( --wait \d+)?", "127.0.0.1:1 --wait 0.1", command)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-c", nobody], cwd=tmp_path, env=ours, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (3, ""), nobody


def test_what_stands_beside_the_scripts_of_zookeeper_is_there() -> None:
    table = PAGE.partition("## Scripts and settings")[2].partition("\n## ")[0]
    named = {arrange(words.split()[1:])[0] for words in re.findall(r"`(zab [^`]+)`", table)}
    assert named == {"server", "service", "status", "4lw", "shell", "ls", "snapshot", "log"}
    assert named <= COMMANDS.keys()
    keys = {each.key for each in settings_of(Config)}
    assert set(re.findall(r"`((?:log|autopurge)\.\w+)`", table)) <= keys


def _as_on_the_page(place: Path, members: list[ZooKeeperMember]) -> None:
    (place / "zoo").mkdir()
    for member in members:
        (place / "zoo" / str(member.server_id)).symlink_to(member.data_directory)
    (place / "zoo" / "zoo.cfg").symlink_to(members[0].directory / "zoo.cfg")
