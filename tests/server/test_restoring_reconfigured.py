"""Members of an ensemble that was reconfigured are given a snapshot: who belongs to it stays as it is in force, in the
same process and in the next one (B8 restored members)."""

from __future__ import annotations

import httpx
import pytest

from tests.rigs.admin_servers import lines_of
from tests.rigs.growing import SESSION_MS, Growing, growing
from tests.rigs.waiting import until
from tests.server.restoring import AUTHORIZATION
from zab.client.sync import connect
from zab.server.restoring import NOT_IN_FILES
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.slow

HEADERS = {"Authorization": AUTHORIZATION}


class Asked:
    """The admin ports of servers that are `growing`."""

    def __init__(self, servers: Growing) -> None:
        self._servers = servers
        self._ports: dict[int, int] = {}

    def start(self, sid: int, *lines: str) -> None:
        admin, metrics = free_ports(2)
        self._ports[sid] = admin
        self._servers.start(sid, *lines, **lines_of(admin, metrics))

    def snapshot(self, sid: int) -> bytes:
        answer = httpx.get(self._url(sid, "snapshot"), headers=HEADERS, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.content

    def restore(self, sid: int, snapshot: bytes) -> httpx.Response:
        """Its answer, once it has started again where it does."""
        log = self._servers.members[sid].log_text
        begun = log().count("listening ")
        answer = httpx.post(self._url(sid, "restore"), content=snapshot, headers=HEADERS, timeout=60)
        if answer.status_code == 200:
            until(lambda: log().count("listening ") > begun, f"server {sid} starts again")
        return answer

    def _url(self, sid: int, command: str) -> str:
        return f"http://127.0.0.1:{self._ports[sid]}/commands/{command}"


@pytest.mark.long
def test_those_in_force_find_each_other_and_those_that_left_are_no_ensemble() -> None:
    with growing("zab") as servers:
        asked = Asked(servers)
        old = [servers.line(sid) for sid in (1, 2, 3)]
        for sid in (1, 2, 3):
            asked.start(sid, *old)
        servers.wait(1, 2, 3)
        for sid in (4, 5):
            asked.start(sid, *old, servers.line(sid))
            servers.wait(sid)
            servers.reconfig(3, joining=servers.line(sid))
        for sid in (1, 2):
            servers.reconfig(3, leaving=str(sid))
        new = [servers.line(sid) for sid in (3, 4, 5)]
        servers.show(new, 3, 4, 5)
        with connect(servers.members[3].host, session_timeout_ms=SESSION_MS) as zk:
            zk.retrying().create("/kept", b"old")
        snapshot = asked.snapshot(3)
        with connect(servers.members[3].host, session_timeout_ms=SESSION_MS) as zk:
            zk.retrying().set("/kept", b"new")
        # Two of them would be a majority of the first configuration, in a history that the others are in, too.
        for sid in (1, 2):
            answer = asked.restore(sid, snapshot)
            assert answer.status_code == 503
            assert "is not in the configuration in force" in answer.json()["error"]
        # After a crash the files would decide, and that of server 4 is one of a time before.
        file = servers.members[4].directory / "zoo.cfg"
        written = file.read_text()
        file.write_text("\n".join([line for line in written.splitlines() if "dynamicConfigFile" not in line] + old))
        answer = asked.restore(4, snapshot)
        assert (answer.status_code, answer.json()["error"]) == (503, NOT_IN_FILES)
        file.write_text(written)
        assert len({asked.restore(sid, snapshot).json()["lineage"] for sid in (3, 4, 5)}) == 1
        servers.wait(3, 4, 5)
        with connect(servers.members[4].host, session_timeout_ms=SESSION_MS) as zk:
            assert zk.retrying().get("/kept")[0] == b"old"
        servers.show(new, 3, 4, 5)
        servers.kill(3, 4, 5)
        for sid in (3, 4, 5):
            servers.members[sid].start()
        servers.wait(3, 4, 5)
        servers.show(new, 3, 4, 5)


@pytest.mark.long
def test_while_the_files_cannot_be_written_nothing_is_taken() -> None:
    """A directory has the name that the writer needs for the file as it was, which even root cannot replace."""
    with growing("zab") as servers:
        asked = Asked(servers)
        old = [servers.line(sid) for sid in (1, 2)]
        for sid in (1, 2):
            asked.start(sid, *old)
        in_the_way = servers.members[1].directory / "zoo.cfg.bak"
        in_the_way.mkdir()
        servers.wait(1, 2)
        asked.start(3, *old, servers.line(3))
        servers.wait(3)
        servers.reconfig(2, joining=servers.line(3))
        first = servers.members[1]
        first.wait_until_it_says("the configuration in force cannot be written beside the file")
        snapshot = asked.snapshot(1)
        answer = asked.restore(1, snapshot)
        assert (answer.status_code, answer.json()["error"]) == (503, NOT_IN_FILES)
        assert "server.3=" not in (first.directory / "zoo.cfg").read_text()
        # The journal said why, and the next start writes them.
        in_the_way.rmdir()
        first.kill()
        first.start()
        servers.wait(1, 2, 3)
        until(lambda: "dynamicConfigFile" in (first.directory / "zoo.cfg").read_text(), "the files are written")
        assert asked.restore(1, snapshot).status_code == 200
