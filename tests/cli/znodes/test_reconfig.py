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
from tests.cli.test_json import check
from tests.client.running import running
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.testing.ports import free_ports

__all__ = ["run"]

LINES = {"reconfigEnabled": "true", "skipACL": "yes"}


@pytest.fixture(scope="module")
def servers() -> Iterator[ZooKeeperEnsemble]:
    with running("zab", 3, LINES) as servers:
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
    assert "there is no participant" in run.err


def test_a_plan_changes_nothing(hosts: str, run: Run) -> None:
    before = configuration(run, hosts)
    quorum, election, client = free_ports(3)
    new = f"4=127.0.0.1:{quorum}:{election};127.0.0.1:{client}"
    assert run("-s", hosts, "reconfig", "add", new, "--plan") == 0
    assert run.out.splitlines() == [
        f"server 4 joins as participant: 127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{client}",
        "quorum before: 2 of servers 1, 2, 3",
        "quorum meanwhile: 2 of servers 1, 2, 3, and 3 of servers 1, 2, 3, 4",
        "quorum after: 3 of servers 1, 2, 3, 4",
        *(line for line in run.out.splitlines() if re.fullmatch("server [123] now: (leader|follower)", line)),
        "server 4 now: cannot be asked",
    ]
    assert len(run.out.splitlines()) == 8
    assert run("-s", hosts, "reconfig", "add", new, "--plan", "--json") == 0
    check("reconfig add --plan", plan := json.loads(run.out))
    assert plan["voters_now"]["4"] is None
    assert run("-s", hosts, "reconfig", "remove", "3", "--plan", "--json") == 0
    check("reconfig remove --plan", json.loads(run.out))
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


def test_where_it_is_switched_off(run: Run) -> None:
    with running("zab", 3, {"skipACL": "yes"}) as servers:
        assert run("-s", servers.hosts, "reconfig", "remove", "3") == 1
        assert "reconfigEnabled=true in the zoo.cfg of all members allows it" in run.err


DIGEST = "super:VlEP1YpIxNQhza4pO3pp/dAbHPI="
"""Of the password `known`, as docs/security.md makes it."""


def test_who_may_not_is_told_who_may_and_how(run: Run, tmp_path: Path) -> None:
    lines = {"reconfigEnabled": "true", "DigestAuthenticationProvider.superDigest": DIGEST}
    (tmp_path / "auth").write_text("digest:super:known\n")
    (tmp_path / "auth").chmod(0o600)
    with running("zab", 3, lines) as servers:
        leader = servers.leader()
        follower = next(member for member in servers.members if member is not leader)
        for words in (["lead", str(follower.server_id)], ["reconfig", "remove", str(follower.server_id)]):
            assert run("-s", servers.hosts, *words) == 1
            assert run.err.startswith("zab: NOAUTH /zookeeper/config: no identity of the connection has the permission")
            for needed in ("DigestAuthenticationProvider.superDigest", "zab --auth @FILE", "docs/reconfiguration.md"):
                assert needed in run.err
            assert len(run.err.splitlines()) == 1
        assert run("--auth", f"@{tmp_path / 'auth'}", "-s", servers.hosts, "reconfig", "remove", "3", "--plan") == 0
        assert run("--auth", f"@{tmp_path / 'auth'}", "-s", servers.hosts, "lead", str(leader.server_id)) == 1
        assert "has no client port to ask it at" in run.err


def test_a_standalone_server_has_no_ensemble(run: Run) -> None:
    with running("zab", 1, LINES) as servers:
        assert run("-s", servers.hosts, "reconfig", "show") == 1
        assert "holds no configuration of an ensemble" in run.err
        assert run("-s", servers.hosts, "lead", "1") == 1
