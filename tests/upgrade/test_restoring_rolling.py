"""A snapshot is given to members of this version while one of the version before runs beside them: those that have it
are one ensemble, and the older one takes no part before it is empty (B8 restored members)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.rigs.admin_servers import lines_of
from tests.upgrade.rolling_upgrade import Rolling, before, rolling
from zab.client.sync import connect
from zab.testing.kit.ports import free_ports

__all__ = ["before", "rolling"]

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

HEADERS = {"Authorization": "digest super:wire"}


class Given:
    """Members 2 and 3 run this version, and have admin ports."""

    def __init__(self, rolling: Rolling) -> None:
        self.rolling = rolling
        self.old, *self.new = rolling.ensemble.members
        self._ports: dict[Any, int] = {}
        for member in rolling.ensemble.members:
            member.config.write_text(member.config.read_text().replace("reconfigEnabled=true\n", ""))
        rolling.start(self.old, old=True)
        for member in self.new:
            admin, metrics = free_ports(2)
            self._ports[member] = admin
            lines = "".join(f"{key}={value}\n" for key, value in lines_of(admin, metrics).items())
            member.config.write_text(member.config.read_text() + lines)
            rolling.start(member, old=False)
        rolling.ensemble.wait()

    def snapshot(self) -> bytes:
        answer = httpx.get(self._url(self.new[0], "snapshot"), headers=HEADERS, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.content

    def restore(self, member: Any, snapshot: bytes) -> str:
        begun = member.log_text().count("listening")
        answer = httpx.post(self._url(member, "restore"), content=snapshot, headers=HEADERS, timeout=60)
        assert answer.status_code == 200, answer.text
        member.wait_until_it_says("listening", begun + 1)
        return str(answer.json()["lineage"])

    def _url(self, member: Any, command: str) -> str:
        return f"http://127.0.0.1:{self._ports[member]}/commands/{command}"


def kept_at(member: Any) -> bytes | None:
    with connect(f"127.0.0.1:{member.client_port}") as zk:
        zk.sync()
        return zk.get("/kept")[0]


def set_kept(rolling: Rolling, data: bytes) -> None:
    with connect(rolling.ensemble.hosts) as zk:
        zk.retrying().ensure_path("/kept")
        zk.retrying().set("/kept", data)


def test_the_older_one_takes_no_part_until_it_is_empty(rolling: Rolling) -> None:
    given = Given(rolling)
    ensemble = rolling.ensemble
    set_kept(rolling, b"old")
    snapshot = given.snapshot()
    set_kept(rolling, b"new")

    # With one of them, the older one and the other one are a majority as before.
    first, second = given.new
    lineage = given.restore(first, snapshot)
    ensemble.wait(members=[given.old, second])
    assert first.mode() == ""
    set_kept(rolling, b"newer")
    assert [kept_at(member) for member in (given.old, second)] == [b"newer", b"newer"]

    # With both of them, it is alone, with what was written meanwhile.
    assert given.restore(second, snapshot) == lineage
    ensemble.wait(members=given.new)
    assert [kept_at(member) for member in given.new] == [b"old", b"old"]
    given.old.wait_until(lambda: given.old.mode() == "")
    set_kept(rolling, b"after")

    # Emptied it is filled by the others, of either version.
    assert given.old.stop() == 0
    shutil.rmtree(Path(given.old.directory) / "version-1")
    rolling.start(given.old, old=True)
    ensemble.wait()
    assert [kept_at(member) for member in ensemble.members] == [b"after"] * 3
    rolling.replace(given.old, old=False)
    assert kept_at(given.old) == b"after"


def test_one_that_was_restored_goes_on_in_the_version_before(rolling: Rolling) -> None:
    given = Given(rolling)
    set_kept(rolling, b"old")
    snapshot = given.snapshot()
    set_kept(rolling, b"new")
    rolling.replace(given.old, old=False)
    given.old.stop()
    for member in given.new:
        given.restore(member, snapshot)
    rolling.ensemble.wait(members=given.new)
    set_kept(rolling, b"after")
    for member in given.new:
        assert member.stop() == 0
        rolling.start(member, old=True)
    rolling.ensemble.wait(members=given.new)
    assert [kept_at(member) for member in given.new] == [b"after", b"after"]
