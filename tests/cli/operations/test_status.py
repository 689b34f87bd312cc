"""`zab status` against running members, some of which are not there."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run, started
from tests.cli.json_page import table
from tests.rigs.admin_servers import lines_of
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_over_tls, zab_servers
from zab.testing.kit.ports import free_ports

__all__ = ["run"]

FIELDS = table("Lines of `zab status`")


class Ensemble:
    def __init__(self, hosts: str, admin: list[int]) -> None:
        self.hosts = hosts
        self.admin = admin


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """The server lines of its members say where clients find them."""
    ports = free_ports(15)
    each = [lines_of(*pair) for pair in zip(ports[:3], ports[3:6], strict=True)]
    places = zip(ports[6:9], ports[9:12], ports[12:], strict=True)
    servers_lines = {
        f"server.{sid}": f"127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{client}"
        for sid, (client, quorum, election) in enumerate(places, 1)
    }
    for own, client in zip(each, ports[6:9], strict=True):
        own |= {**servers_lines, "clientPort": client, "clientPortAddress": "127.0.0.1"}
    with zab_servers(3, each=each) as servers:
        yield Ensemble(servers.hosts, ports[:3])


def lines(out: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"member": [], "alarm": [], "ensemble": []}
    for line in out.splitlines():
        value = json.loads(line)
        assert list(value) == FIELDS[value["type"]]
        found[value["type"]].append(value)
    return found


def test_one_server_is_named_and_all_members_are_asked(ensemble: Ensemble, run: Run) -> None:
    first = ensemble.hosts.split(",")[0]
    assert run("-s", first, "status", "--json") == 0, run.out
    found = lines(run.out)
    assert sorted(member["member"] for member in found["member"]) == [1, 2, 3]
    assert sorted(member["state"] for member in found["member"]) == ["follower", "follower", "leader"]
    assert [member["role"] for member in found["member"]] == ["participant"] * 3
    assert {member["server"] for member in found["member"]} == set(ensemble.hosts.split(","))
    [whole] = found["ensemble"]
    assert whole["is_well"]
    assert whole["leader"] in ensemble.hosts


def test_the_admin_ports_tell_more(ensemble: Ensemble, run: Run) -> None:
    words = [word for port in ensemble.admin for word in ("--admin", f"127.0.0.1:{port}")]
    assert run("-s", ensemble.hosts, "status", "--json", *words) == 0
    found = lines(run.out)
    assert len(found["member"]) == 3
    assert all(member["watches"] == 0 and member["sessions"] is not None for member in found["member"])
    assert sorted(member["lag"] is None for member in found["member"]) == [False, False, True]
    assert (found["ensemble"][0]["voters_taking_part"], found["ensemble"][0]["voters_needed"]) == (3, 2)


def test_it_is_shown_to_people(ensemble: Ensemble, run: Run) -> None:
    assert run("-s", ensemble.hosts, "status") == 0
    head, *rows = run.out.splitlines()
    assert head.split("  ")[0] == "member"
    assert sum(bool(re.match(r"[123]  +127\.0\.0\.1:\d+  +(leader|follower)", row)) for row in rows) == 3
    assert rows[-1] == "all is well"


def test_a_member_that_answers_nothing_delays_no_other(ensemble: Ensemble, run: Run) -> None:
    """Each of the three mute ones would take the whole time, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        mute = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        hosts = ",".join((*mute, *ensemble.hosts.split(",")))
        with started("-s", hosts, "--wait", "3", "status", "--json") as process:
            out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    found = lines(out)
    states = {member["server"]: member["state"] for member in found["member"]}
    assert [states[each] for each in mute] == ["unreachable"] * 2
    assert sum(state != "unreachable" for state in states.values()) == 3
    assert sorted(member["member"] for member in found["member"] if member["member"]) == [1, 2, 3]
    assert sum(member["role"] == "participant" for member in found["member"]) == 3
    assert [(alarm["name"], alarm["server"]) for alarm in found["alarm"]] == [("unreachable", each) for each in mute]
    assert {alarm["reason"] for alarm in found["alarm"]} == {"it does not answer in time"}


def test_a_member_says_who_it_is_where_no_server_line_has_its_client_port(run: Run) -> None:
    with members_here(3, {"4lw.commands.whitelist": "mntr"}) as servers:
        assert run("-s", servers.hosts, "status", "--json") == 0
        assert [member["member"] for member in lines(run.out)["member"]] == [1, 2, 3]


def test_nobody_is_there(run: Run) -> None:
    [port] = free_ports(1)
    assert run("-s", f"127.0.0.1:{port}", "--wait", "1", "status") == 3
    assert "critical: no member can be reached" in run.out
    assert "Connection refused" in run.out


def test_again_and_again(ensemble: Ensemble) -> None:
    with started("-s", ensemble.hosts, "status", "--watch", "0.1", "--json") as process:
        assert process.stdout is not None
        seen = 0
        while seen < 2:
            seen += '"ensemble"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130


def test_a_certificate_that_ends_soon(tmp_path: Path, run: Run) -> None:
    certificates = Certificates(tmp_path)
    alice = certificates.client("alice")
    member = certificates.member("localhost")
    with zab_over_tls(client_store_lines(member)) as (_, host):
        own = ("--ca", str(alice / "truststore.pem"), "--cert", str(alice / "keystore.pem"))
        code = run("-s", host, *own, "status", "--json")
        found = lines(run.out)
    assert code == 1
    assert [each["state"] for each in found["member"]] == ["standalone"]
    assert [alarm["name"] for alarm in found["alarm"]] == ["certificate_ends"], "it is good for ten days"


@pytest.mark.parametrize("words", [("--admin", "nowhere"), ("--admin", "ftp://a:1"), ("--watch", "0")])
def test_wrong_usage(words: tuple[str, ...], run: Run) -> None:
    assert run("-s", "127.0.0.1:1", "status", *words) == 2
