"""What a reconfiguration leaves in the files of servers, of ours and of the real ZooKeeper.

Scenarios of ZooKeeper's ReconfigLegacyTest, ReconfigBackupTest and ReconfigRollingRestartCompatibilityTest
(docs/contributing/zookeeper-tests.md). What is asserted is so of both, unless it is said.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.growing import CLIENT, Growing, growing, grown
from tests.rigs.waiting import until
from zab.configuration.dynamic import parse_dynamic
from zab.member.settings.zoo_cfg import entries_of

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.parametrize("kind", ["zab", pytest.param("zookeeper", marks=pytest.mark.longest)]),
    pytest.mark.long,
]


def file_of(servers: Growing, sid: int) -> Path:
    return servers.members[sid].directory / "zoo.cfg"


def entries(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in entries_of(path.read_text(), str(path))}


def dynamic(servers: Growing, sid: int) -> Path:
    """The file that the server's file names."""
    return Path(entries(file_of(servers, sid)).get("dynamicConfigFile", "/none"))


def names(servers: Growing, sid: int, version: int) -> None:
    """Waits until its file names the one of this version, which has what the server shows."""
    until(lambda: dynamic(servers, sid).name.endswith(f"cfg.dynamic.{version:x}"), f"server {sid} has written it")
    path = dynamic(servers, sid)
    written = parse_dynamic(list(entries_of(path.read_text(), str(path))))
    assert written.lines == servers.shown(sid).lines


def left(servers: Growing, sid: int) -> set[str]:
    """The names of what is beside the file of a server, and of it."""
    return {path.name for path in file_of(servers, sid).parent.glob("zoo.cfg*")}


@pytest.mark.long
def test_one_file_becomes_two_and_a_new_one_with_each_change(kind: str) -> None:
    with growing(kind) as servers:
        lines = [servers.line(sid) for sid in (1, 2, 3)]
        before = {sid: file_of_new(servers, sid, lines) for sid in (1, 2, 3)}
        servers.wait(1, 2, 3)
        first = servers.show(lines, 1, 2, 3)
        for sid in (1, 2, 3):
            names(servers, sid, first)
            own = entries(file_of(servers, sid))
            assert not [key for key in own if key.startswith("server.")]
            assert "clientPort" not in own
            assert "dynamicConfigFile" not in entries(dynamic(servers, sid))
            assert (file_of(servers, sid).parent / "zoo.cfg.bak").read_text() == before[sid]
        servers.work(1, 2, 3)
        servers.kill(1, 2, 3)
        for sid in (1, 2, 3):
            servers.members[sid].start()
        servers.wait(1, 2, 3)
        assert servers.show(lines, 1, 2, 3) == first

        more = [*lines, servers.line(4)]
        servers.start(4, *more)
        servers.wait(4)
        servers.reconfig(2, joining=servers.line(4))
        second = servers.show(more, 1, 2, 3, 4)
        assert second > first
        for sid in (1, 2, 3, 4):
            names(servers, sid, second)
            assert (file_of(servers, sid).parent / "zoo.cfg.bak").exists()


def file_of_new(servers: Growing, sid: int, lines: list[str]) -> str:
    servers.start(sid, *lines)
    return file_of(servers, sid).read_text()


def test_a_client_port_stays_in_the_file_until_the_line_has_one(kind: str) -> None:
    with growing(kind) as servers:
        lines = [servers.line(sid, has_client_port=False) for sid in (1, 2, 3)]
        for sid in (1, 2, 3):
            servers.start(sid, *lines)
        servers.wait(1, 2, 3)
        first = servers.show(lines, 1, 2, 3)
        for sid in (1, 2, 3):
            names(servers, sid, first)
            assert entries(file_of(servers, sid))["clientPort"] == str(servers.ports(sid)[CLIENT])
        servers.move(1, CLIENT)
        lines[0] = servers.line(1)
        servers.reconfig(2, members=",".join(lines))
        servers.members[1].client_port = servers.ports(1)[CLIENT]
        servers.wait(1)
        second = servers.show(lines, 1, 2, 3)
        for sid in (1, 2, 3):
            names(servers, sid, second)
        kept = [sid for sid in (1, 2, 3) if "clientPort" in entries(file_of(servers, sid))]
        assert kept == [2, 3]
        servers.work(1, 2, 3)


def test_who_is_in_no_configuration_can_be_started_again(kind: str) -> None:
    """One that was removed, and one that was not taken in yet. The real ZooKeeper cannot start either again (D65)."""
    with grown(kind, 3) as servers:
        leader = servers.leader()
        removed = next(sid for sid in (1, 2, 3) if sid != leader)
        own = [servers.line(sid) for sid in (1, 2, 3)]
        first = servers.show(own, 1, 2, 3)
        servers.start(4, *own, servers.line(4))
        servers.wait(4)
        names(servers, removed, first)
        servers.reconfig(leader, leaving=str(removed))
        remaining = [line for sid, line in enumerate(own, 1) if sid != removed]
        second = servers.show(remaining, leader)
        if kind == "zookeeper":
            for sid in (removed, 4):
                until(lambda sid=sid: dynamic(servers, sid).name.endswith(f".{second:x}"), "it is written")  # type: ignore[misc]
        else:
            servers.show(remaining, removed, 4)
        for sid in (removed, 4):
            servers.kill(sid)
            servers.members[sid].start()
        if kind == "zookeeper":
            for sid in (removed, 4):
                until(lambda sid=sid: not servers.members[sid].running, "it ends")  # type: ignore[misc]
            return
        servers.wait(removed, 4)
        assert dynamic(servers, removed).name.endswith(f".{first:x}")
        assert left(servers, 4) == {"zoo.cfg"}
        servers.show(remaining, removed, 4)
        servers.reconfig(leader, joining=f"{own[removed - 1]},{servers.line(4)}")
        third = servers.show([*own, servers.line(4)], 1, 2, 3, 4)
        for sid in (1, 2, 3, 4):
            names(servers, sid, third)


@pytest.mark.long
def test_without_the_key_files_stay_and_say_who_belongs_to_the_ensemble(kind: str) -> None:
    """The real ZooKeeper lets a server in that the files of the others do not name. Ours does not: all files are
    changed first (D125)."""
    with grown(kind, 3, reconfigEnabled="false") as servers:
        before = {sid: file_of(servers, sid).read_text() for sid in (1, 2, 3)}
        for sid in (1, 2, 3):
            assert left(servers, sid) == {"zoo.cfg"}
            servers.kill(sid)
            servers.members[sid].start()
            servers.wait(sid)
        servers.work(1, 2, 3)
        assert {sid: file_of(servers, sid).read_text() for sid in (1, 2, 3)} == before

        five = [servers.line(sid) for sid in range(1, 6)]
        leader = servers.leader()
        followers = sorted({1, 2, 3} - {leader})
        for sid in (4, 5):
            servers.start(sid, *five)
        if kind == "zookeeper":
            servers.wait(4, 5)
            for sid in (*followers, leader):
                servers.kill(sid)
                servers.start(sid, *five)
                servers.wait(sid)
        else:
            for sid in (4, 5):
                said = f"server {sid} is not in the configuration of server {leader}"
                until(lambda sid=sid, said=said: said in servers.members[sid].log_text(), said)  # type: ignore[misc]
                assert servers.members[sid].mode() == ""
            servers.kill(1, 2, 3)
            for sid in (1, 2, 3):
                servers.start(sid, *five)
            servers.wait(1, 2, 3, 4, 5)
        servers.work(1, 4, 5)
        servers.kill(*followers)
        servers.work(leader, 4, 5)
