"""`zab reconfig` and `zab lead` at three running servers, and what they say where nothing can be changed."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import check
from tests.client.running import running_processes
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.client import Client, UnimplementedError
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

LINES = {"reconfigEnabled": "true", "skipACL": "yes"}


@pytest.fixture(scope="module")
def servers() -> Iterator[ZooKeeperEnsemble]:
    with running_processes("zab", 3, LINES) as servers:
        yield servers


@pytest.fixture
def hosts(servers: ZooKeeperEnsemble, run: Run) -> str:
    """Each server line has its client port, so that each can be asked."""
    assert run("-s", servers.hosts, "reconfig", "show") == 0
    joining = [
        line.removeprefix("server.").partition(";")[0] + f";127.0.0.1:{servers.members[int(line[7]) - 1].client_port}"
        for line in run.out.splitlines()
        if line.startswith("server.")
    ]
    if len(joining) == 3:
        assert run("-s", servers.hosts, "reconfig", "add", *joining) == 0, run.err
    return servers.hosts


def configuration(run: Run, hosts: str) -> dict[str, Any]:
    assert run("-s", hosts, "reconfig", "show", "--json") == 0
    check("reconfig show", value := json.loads(run.out))
    return value


def test_what_is_in_force_is_shown(hosts: str, run: Run) -> None:
    value = configuration(run, hosts)
    assert [server["id"] for server in value["servers"]] == [1, 2, 3]
    assert {server["role"] for server in value["servers"]} == {"participant"}
    assert run("-s", hosts, "reconfig", "show") == 0
    assert run.out.splitlines()[-1] == f"version={int(value['version'], 16):x}"


def test_a_server_leaves_and_joins_again(hosts: str, run: Run, servers: ZooKeeperEnsemble) -> None:
    leaver = next(member.server_id for member in servers.members if member is not servers.leader())
    before = configuration(run, hosts)
    [line] = [each for each in before["servers"] if each["id"] == leaver]
    assert run("-s", hosts, "reconfig", "remove", str(leaver), "--json") == 0
    check("reconfig remove", removed := json.loads(run.out))
    assert leaver not in [server["id"] for server in removed["servers"]]
    again = f"{leaver}=127.0.0.1:{line['quorum_port']}:{line['election_port']};127.0.0.1:{line['client_port']}"
    assert run("-s", hosts, "reconfig", "add", again, "--json", "-v", removed["version"]) == 0, run.err
    check("reconfig add", added := json.loads(run.out))
    assert added["servers"] == before["servers"]


def test_the_whole_of_it(hosts: str, run: Run, tmp_path: Path) -> None:
    assert run("-s", hosts, "reconfig", "show") == 0
    (tmp_path / "lines").write_text(re.sub("version=.*\n", "", run.out))
    assert run("-s", hosts, "reconfig", "set", tmp_path / "lines", "--json") == 0, run.err
    check("reconfig set", json.loads(run.out))
    assert run("-s", hosts, "reconfig", "set", tmp_path / "none") == 2
    assert "No such file" in run.err


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_the_whole_of_it_is_never_nothing(
    hosts: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    for more in ([], ["--plan"]):
        assert run("-s", hosts, "reconfig", "set", "-", *more) == 2
        assert (run.out, run.err) == ("", "zab: standard input is empty: no server line is in it\n")
    (tmp_path / "lines").write_text(text)
    assert run("-s", hosts, "reconfig", "set", tmp_path / "lines") == 2
    assert run.err == f"zab: {tmp_path / 'lines'} is empty: no server line is in it\n"
    (tmp_path / "lines").write_text("# nobody\n")
    assert run("-s", hosts, "reconfig", "set", tmp_path / "lines") == 2
    assert "there would be no participant" in run.err


@pytest.mark.parametrize("form", ["ours", "zookeeper's"])
def test_one_takes_the_place_of_another_in_one_step(
    hosts: str, run: Run, servers: ZooKeeperEnsemble, form: str
) -> None:
    """The new one is an observer, which no quorum waits for."""
    leaver = next(member.server_id for member in servers.members if member is not servers.leader())
    before = configuration(run, hosts)
    quorum, election, client = free_ports(3)
    line = f"server.4=127.0.0.1:{quorum}:{election}:observer;127.0.0.1:{client}"
    assert run("-s", hosts, "config") == 0
    there = [line for line in run.out.splitlines() if line.startswith("server.")]
    ways = {
        "ours": (["add", line, "--remove", str(leaver)], ["set", *there]),
        "zookeeper's": (["-remove", str(leaver), "-add", line], ["-members", ",".join(there)]),
    }
    change, back = ways[form]
    assert run("-s", hosts, "reconfig", *change, "-v", before["version"], "--json") == 0, run.err
    value = json.loads(run.out)
    check("reconfig add", value)
    assert {each["id"] for each in value["servers"]} == {1, 2, 3, 4} - {leaver}
    assert run("-s", hosts, "reconfig", *back, "--json") == 0, run.err
    assert json.loads(run.out)["servers"] == before["servers"]


def test_a_plan_changes_nothing(hosts: str, run: Run, servers: ZooKeeperEnsemble) -> None:
    before = configuration(run, hosts)
    line = before["servers"][2]
    moved, quorum, election, client = free_ports(4)
    again = f"3=127.0.0.1:{moved}:{line['election_port']}:observer;127.0.0.1:{line['client_port']}"
    assert run("-s", hosts, "reconfig", "add", again, "--plan") == 0, run.err
    changed = f"127.0.0.1:{moved}:{line['election_port']}:observer;127.0.0.1:{line['client_port']}"
    leads = servers.leader() is servers.members[2]
    lines = run.out.splitlines()
    assert re.fullmatch(rf"server 3 changes: participant 127.0.0.1:\S+ -> observer {changed}", lines[0])
    assert lines[1:-3] == [
        *["server 3 leads, and hands the lead over once this is in force"] * leads,
        "quorum before: 2 of servers 1, 2, 3",
        "quorum meanwhile: 2 of servers 1, 2, 3, and 2 of servers 1, 2",
        "quorum after: 2 of servers 1, 2",
    ]
    assert all(re.fullmatch("server [12] now: (leader|follower)", each) for each in lines[-3:-1])
    assert lines[-1].startswith("until this is in force: if the disk of one of servers 1, 2 is lost")
    new = f"4=127.0.0.1:{quorum}:{election};127.0.0.1:{client}"
    assert run("-s", hosts, "reconfig", "add", new, "--plan", "--json") == 0
    check("reconfig add --plan", plan := json.loads(run.out))
    assert (plan["voters_now"]["4"], plan["refused"], plan["not_known"]) == (None, None, [])
    assert configuration(run, hosts) == before


def test_a_plan_says_that_the_leader_hands_over(hosts: str, run: Run, servers: ZooKeeperEnsemble) -> None:
    leader = servers.leader().server_id
    assert run("-s", hosts, "reconfig", "remove", str(leader), "--plan") == 0
    assert f"server {leader} leads, and hands the lead over once this is in force" in run.out.splitlines()
    assert run("-s", hosts, "reconfig", "remove", str(leader), "--plan", "--json") == 0
    check("reconfig remove --plan", plan := json.loads(run.out))
    assert plan["hands_over"] == leader


def refusals(run: Run, hosts: str, *words: str | Path) -> tuple[str, str]:
    """What a plan says of the refusal, and what the same says of it without one."""
    assert run("-s", hosts, "reconfig", *words, "--plan", "--json") == 1
    planned = json.loads(run.out)["refused"]
    assert run("-s", hosts, "reconfig", *words, "--plan") == 1
    assert (run.out.splitlines()[-1], run.err) == (f"would be refused: {planned}", "")
    assert run("-s", hosts, "reconfig", *words) == 1
    return planned, run.err.removeprefix("zab: ").rstrip("\n")


def test_a_plan_says_what_would_be_refused(hosts: str, run: Run, tmp_path: Path) -> None:
    before = configuration(run, hosts)
    ports = iter(free_ports(9))
    new = [f"{sid}=127.0.0.1:{next(ports)}:{next(ports)};127.0.0.1:{next(ports)}" for sid in (4, 5, 6)]
    planned, told = refusals(run, hosts, "add", *new)
    assert planned.startswith("NEWCONFIGNOQUORUM /zookeeper/config: no quorum of the new configuration follows: 4 of ")
    assert told == f"{planned}; --plan says who does"
    assert run("-s", hosts, "reconfig", "show") == 0
    (tmp_path / "one").write_text(run.out.splitlines()[0] + "\n")
    for words in (["remove", "1,2"], ["set", tmp_path / "one"]):
        planned, told = refusals(run, hosts, *words)
        assert planned == told
        assert planned.startswith("BADARGUMENTS /zookeeper/config: 1 participant would be left")
    planned, told = refusals(run, hosts, "remove", "3", "--version", "77")
    assert (planned.split()[0], told.split()[0]) == ("BADVERSION", "BADVERSION")
    assert configuration(run, hosts) == before


def test_what_is_refused_says_what_to_do(hosts: str, run: Run) -> None:
    quorum, election, client = free_ports(3)
    new = f"4=127.0.0.1:{quorum}:{election};127.0.0.1:{client}"
    assert run("-s", hosts, "reconfig", "add", new, f"5=127.0.0.1:{client}:{quorum};{election}") == 2
    assert "is already that of server.4" in run.err
    assert run("-s", hosts, "reconfig", "remove", "1", "2") == 1
    assert "1 participant would be left, and an ensemble has two, unless standaloneEnabled=false" in run.err
    assert run("-s", hosts, "reconfig", "remove", "3,9") == 2
    assert "server 9 is in no server line" in run.err
    assert run("-s", hosts, "reconfig", "add", new, "-v", "77") == 1
    assert "version" in run.err
    assert run("-s", hosts, "reconfig", "add", new, "-v", "x") == 2
    assert run("-s", hosts, "reconfig", "add", "4=nothing") == 2
    assert run("-s", hosts, "lead", "9") == 1
    assert "server 9 is in no server line" in run.err


def test_the_lead_goes_over_to_who_is_named(hosts: str, run: Run, servers: ZooKeeperEnsemble) -> None:
    heir = next(member for member in servers.members if member is not servers.leader())
    assert run("-s", hosts, "lead", str(heir.server_id)) == 0, run.err
    assert run.out == f"server {heir.server_id} leads\n"
    assert servers.leader() is heir
    assert run("-s", hosts, "lead", "--json", str(heir.server_id)) == 0, run.err
    check("lead", json.loads(run.out))


def test_a_leader_of_a_version_without_the_hand_over_is_told_from_a_standalone_server(
    hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_zk: Client, _server_id: int) -> None:
        raise UnimplementedError("/zookeeper/config")

    monkeypatch.setattr(Client, "hand_over", refused)
    assert run("-s", hosts, "lead", "1") == 1
    assert run.err.startswith(
        "zab: UNIMPLEMENTED /zookeeper/config: the leader, or the server that was asked, has a version "
    )
    assert run.err.endswith("like ZooKeeper: end the leader instead, and another one leads\n")
    alone = ensemble_of(b"server.1=127.0.0.1:1:2:participant;127.0.0.1:3\nversion=0")

    async def one(_zk: Client) -> Ensemble:
        return alone

    monkeypatch.setattr("zab.cli.znodes.reconfig._in_force", one)
    assert run("-s", hosts, "lead", "1") == 1
    assert run.err == "zab: UNIMPLEMENTED /zookeeper/config: a standalone server leads itself\n"


def test_where_it_is_switched_off(run: Run) -> None:
    with running_processes("zab", 3, {"skipACL": "yes"}) as servers:
        planned, told = refusals(run, servers.hosts, "remove", "3")
        assert planned == told
        assert "reconfigEnabled=true in the zoo.cfg of all members allows it" in told


DIGEST = "super:VlEP1YpIxNQhza4pO3pp/dAbHPI="
"""The digest of the password `known`, as docs/how-to/secure.md makes it."""


def test_who_may_not_is_told_who_may_and_how(run: Run, tmp_path: Path) -> None:
    lines = {"reconfigEnabled": "true", "DigestAuthenticationProvider.superDigest": DIGEST}
    (tmp_path / "auth").write_text("digest:super:known\n")
    (tmp_path / "auth").chmod(0o600)
    with running_processes("zab", 3, lines) as servers:
        leader = servers.leader()
        follower = next(member for member in servers.members if member is not leader)
        for words in (["lead", str(follower.server_id)], ["reconfig", "remove", str(follower.server_id)]):
            assert run("-s", servers.hosts, *words) == 1
            assert run.err.startswith("zab: NOAUTH /zookeeper/config: no identity of the connection has the permission")
            for needed in (
                "DigestAuthenticationProvider.superDigest",
                "zab --auth @FILE",
                "docs/how-to/reconfigure.md",
            ):
                assert needed in run.err
            assert len(run.err.splitlines()) == 1
        assert run("--auth", f"@{tmp_path / 'auth'}", "-s", servers.hosts, "reconfig", "remove", "3", "--plan") == 0
        assert run("--auth", f"@{tmp_path / 'auth'}", "-s", servers.hosts, "lead", str(leader.server_id)) == 1
        assert "has no client port to ask it at" in run.err


def test_a_standalone_server_has_no_ensemble(run: Run) -> None:
    with running_processes("zab", 1, LINES) as servers:
        assert run("-s", servers.hosts, "reconfig", "show") == 1
        assert "holds no configuration of an ensemble" in run.err
        assert run("-s", servers.hosts, "lead", "1") == 1
