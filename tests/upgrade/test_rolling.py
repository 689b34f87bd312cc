"""Members of the version before and of this one, together: one after the other is replaced, up and down again.

The version before is that of commit `BEFORE`, taken out of the history of this repository.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cli.commands import call
from tests.upgrade.rolling_upgrade import Rolling, before, rolling
from zab.client import UnimplementedError
from zab.client.sync import connect
from zab.configuration.reconfiguration import ensemble_of
from zab.service.version import shown

__all__ = ["before", "rolling"]

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]


def test_up_and_down_again_without_a_lost_write_or_session(
    rolling: Rolling, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of both versions leads the other one at some time."""
    ensemble = rolling.ensemble
    for member in ensemble.members:
        member.config.write_text(member.config.read_text().replace("reconfigEnabled=true\n", ""))
        rolling.start(member, old=True)
    ensemble.wait()
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
    ensemble.wait()
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
    assert first.mode() == ""
    rolling.replace(first, old=False)
    assert version_at(first) > 0


def version_at(member: Any) -> int:
    """The version of the configuration that it shows."""
    with connect(f"127.0.0.1:{member.client_port}") as zk:
        data, _ = zk.get_config()
        return ensemble_of(data or b"").version
