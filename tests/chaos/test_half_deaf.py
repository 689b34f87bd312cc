"""Real members of which the one that leads hears the others no more, or is not heard: another one leads until that is
over, and sessions of the others' clients go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.relay import network
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from zab.client.sync import connect
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

CONFIGURATION = {"tickTime": 500, "initLimit": 10, "syncLimit": 4, "maxSessionTimeout": 120_000}
WRITES_COUNT = 50


@pytest.mark.parametrize("is_mute", [False, True], ids=["deaf", "mute"])
def test_while_a_leader_is_half_deaf_another_one_leads(tmp_path: Path, is_mute: bool) -> None:
    found = free_ports(6)
    ports = {sid: (found[2 * sid - 2], found[2 * sid - 1]) for sid in (1, 2, 3)}
    with network(ports) as net:
        each = [net.lines(sid) for sid in ports]
        with zab_servers(3, directory=tmp_path, configuration=CONFIGURATION, each=each) as ensemble:
            old = ensemble.leader()
            others = [member for member in ensemble.members if member is not old]
            with connect(",".join(member.host for member in others), session_timeout_ms=100_000) as zk:
                session = zk.session_id
                zk.create("/alive", ephemeral=True)
                for other in others:
                    pair = old.server_id, other.server_id
                    net.cut(*(pair if is_mute else pair[::-1]))
                until(lambda: "leader" in {member.mode() for member in others}, "another leader")
                for count in range(WRITES_COUNT):
                    zk.retrying().set("/alive", b"%d" % count)
                until(lambda: old.mode() != "leader", "the end of the old leader's role")
                assert zk.session_id == session
                net.heal()
                ensemble.wait()
                assert zk.get("/alive")[0] == b"%d" % (WRITES_COUNT - 1)
            with connect(old.host) as late:
                late.sync()
                assert late.get_children("/") == ["zookeeper"], "the old leader knows that /alive is gone"
