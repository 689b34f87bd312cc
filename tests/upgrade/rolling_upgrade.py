"""An ensemble whose members change their version one after the other."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.zab_server import unstarted
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client.sync import Client, connect

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

    def __init__(self, ensemble: ZooKeeperEnsemble, before: Path, patch: pytest.MonkeyPatch) -> None:
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
        self.ensemble.wait()

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
