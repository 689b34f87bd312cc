"""Members of the version before and of this one, together: one after the other is replaced, up and down again.

The version before is that of commit `BEFORE`, taken out of the history of this repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import call
from tests.rigs.processes import Ensemble, unstarted
from zab.client import UnimplementedError
from zab.client.sync import Client, connect
from zab.configuration.reconfiguration import ensemble_of
from zab.service.version import shown

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).parents[2]
BEFORE = "5371b6142c86e43b9a8b90370454d7a46c950130"
"""The last one without reconfiguration."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the version before."""
    directory = tmp_path_factory.mktemp("before")
    taken = directory / "sources.tar"
    with taken.open("wb") as file:
        found = subprocess.run(
            ["git", "archive", BEFORE, "zab", "datatree", "session"], cwd=ROOT, stdout=file, stderr=subprocess.PIPE
        )
    if found.returncode:
        pytest.skip(f"the history of the repository is not here: {found.stderr.decode().strip()}")
    with tarfile.open(taken) as archive:
        archive.extractall(directory, filter="data")
    shown = subprocess.run(
        [sys.executable, "-m", "zab", "server", "--help"], cwd=directory, capture_output=True, text=True
    )
    assert "--log-format" not in shown.stdout, "it is not the version before that runs there"
    return directory


class Rolling:
    """An ensemble whose members are replaced one by one, and a client that works all the time."""

    def __init__(self, ensemble: Ensemble, before: Path, patch: pytest.MonkeyPatch) -> None:
        self.ensemble = ensemble
        self._before = before
        self._patch = patch
        self.is_old = dict.fromkeys(ensemble.members, True)
        self.written = 0

    def start(self, member: Any, *, old: bool) -> None:
        with self._patch.context() as patch:
            if old:
                patch.setenv("PYTHONPATH", str(self._before))
            member.start(cwd=self._before if old else ROOT)
        self.is_old[member] = old

    def replace(self, member: Any, *, old: bool) -> None:
        assert member.stop() == 0
        self.start(member, old=old)
        self.ensemble.wait_until_serving()

    @property
    def leader(self) -> Any:
        [leader] = self.ensemble.with_mode("leader")
        return leader

    @property
    def follower(self) -> Any:
        return self.ensemble.with_mode("follower")[0]

    def work(self, zk: Client) -> None:
        """A write by the client that stays, and what every member has then."""
        self.written += 1
        zk.retrying().create(f"/work/{self.written}", b"x" * self.written)
        for member in self.ensemble.members:
            with connect(f"127.0.0.1:{member.client_port}") as other:
                other.sync()
                assert len(other.get_children("/work")) == self.written
                data, _ = other.get(f"/work/{self.written}")
                assert data == b"x" * self.written
                assert other.exists("/alive") is not None


@pytest.fixture
def rolling(tmp_path: Path, before: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rolling]:
    with unstarted(tmp_path, 3, "reconfigEnabled=true", "skipACL=yes") as ensemble:
        yield Rolling(ensemble, before, monkeypatch)


def test_up_and_down_again_without_a_lost_write_or_session(
    rolling: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of both versions leads the other one at some time."""
    ensemble = rolling.ensemble
    for member in ensemble.members:
        member.config.write_text(member.config.read_text().replace("reconfigEnabled=true\n", ""))
        rolling.start(member, old=True)
    ensemble.wait_until_serving()
    with connect(ensemble.hosts, session_timeout_ms=40_000) as zk:
        session = zk.session_id
        zk.create("/work")
        zk.create("/alive", ephemeral=True)
        rolling.work(zk)
        led_old = False
        rolling.replace(rolling.follower, old=False)
        assert rolling.is_old[rolling.leader]
        said = call(capsys, "-s", ensemble.hosts, "lead", "1")
        assert said.code == 1
        assert "UNIMPLEMENTED" in said.err
        assert "has a version that cannot hand over the lead" in said.err
        rolling.work(zk)
        for member in [each for each in ensemble.members if rolling.is_old[each]]:
            rolling.replace(member, old=False)
            rolling.work(zk)
        rolling.replace(rolling.follower, old=True)
        led_old = not rolling.is_old[rolling.leader]
        rolling.work(zk)
        for member in [each for each in ensemble.members if not rolling.is_old[each]]:
            rolling.replace(member, old=True)
            rolling.work(zk)
        assert led_old
        assert zk.session_id == session


def test_what_the_version_before_does_not_know_begins_when_all_know_it(
    rolling: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    ensemble = rolling.ensemble
    first, second, third = ensemble.members
    rolling.start(first, old=True)
    for member in (second, third):
        rolling.start(member, old=False)
    ensemble.wait_until_serving()
    assert not rolling.is_old[rolling.leader], "the one with the highest id leads"
    said = call(capsys, "-s", ensemble.hosts, "status")
    assert re.search(rf"members run \S+ and {re.escape(shown().partition(',')[0])}", said.out), said
    with connect(f"127.0.0.1:{third.client_port}") as zk, pytest.raises(UnimplementedError):
        zk.reconfig(leaving="1")
    rolling.replace(first, old=False)
    second.wait_until(lambda: version_at(second) > 0)
    first.stop()
    rolling.start(first, old=True)
    rolling.leader.wait_until_it_says("has a version that knows no reconfiguration: upgrade it")
    assert first.mode is None
    rolling.replace(first, old=False)
    assert version_at(first) > 0


def version_at(member: Any) -> int:
    """Of the configuration that it shows."""
    with connect(f"127.0.0.1:{member.client_port}") as zk:
        data, _ = zk.get_config()
        return ensemble_of(data or b"").version
