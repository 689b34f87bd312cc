"""Real members of which the one that leads has a slow disk: another one leads soon, and nobody's session ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import late
from tests.rigs.zab_server import unstarted
from zab.client.sync import connect

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

ROOT = Path(__file__).parents[2]
LATE_SECONDS = 0.3
"""More than a quarter of a tick, and much less than syncLimit."""
WRITE_COUNT_MAX = 2_000


def test_a_leader_with_a_slow_disk_hands_over(tmp_path: Path) -> None:
    with unstarted(tmp_path, 3, program=("-m", late.__name__)) as ensemble:
        for member in ensemble.members:
            settings = member.config.read_text()
            member.config.write_text(settings.replace("tickTime=200", "tickTime=500").replace("=50\n", "=8\n"))
            member.start(cwd=ROOT)
        ensemble.wait()
        [slow] = ensemble.with_mode("leader")
        others = [member for member in ensemble.members if member is not slow]
        hosts = ",".join(f"127.0.0.1:{member.client_port}" for member in others)
        with connect(hosts, session_timeout_ms=40_000) as zk:
            session = zk.session_id
            zk.create("/alive", ephemeral=True)
            slow.directory.joinpath(late.NAME).write_text(str(LATE_SECONDS))
            for count in range(1, WRITE_COUNT_MAX):
                zk.retrying().set("/alive", b"%d" % count)
                if "the lead is handed over" in slow.log_text():
                    break
            ensemble.wait()
            assert slow not in ensemble.with_mode("leader")
            zk.sync()
            assert zk.session_id == session
            assert zk.get("/alive")[0] == b"%d" % count
        assert "this member's disk is slow" in slow.log_text()
        assert all("this member's disk is slow" not in member.log_text() for member in others)
