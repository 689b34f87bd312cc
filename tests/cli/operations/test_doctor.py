"""`zab doctor` beside running members."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, run
from tests.cli.json_page import FIELDS
from tests.rigs.admin_servers import administered
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.java_key_stores import with_java_stores
from zab.operations.probes import days_of, measured
from zab.testing.kit.ports import free_ports

__all__ = ["run"]


def found(out: str) -> list[dict[str, Any]]:
    listed = [json.loads(line) for line in out.splitlines()]
    assert all(list(each) == FIELDS["doctor"] for each in listed)
    return listed


def not_well(out: str) -> list[tuple[str, str, str | None]]:
    return [
        (each["name"], each["verdict"], each["subject"])
        for each in found(out)
        if each["verdict"] not in ("ok", "skipped")
    ]


def test_a_whole_ensemble_and_one_without_a_member(tmp_path: Path, run: Run) -> None:
    with administered(3, directory=tmp_path) as whole:
        servers = whole.servers
        admin = [word for port in whole.admin.values() for word in ("--admin", f"127.0.0.1:{port}")]
        file = tmp_path / "server1" / "zoo.cfg"
        before = set((tmp_path / "server1" / "data").iterdir())
        assert run("--wait", "20", "doctor", file, "--syncs", "0", "--json", *admin) == 0, run.out
        names = {(one["name"], one["verdict"]) for one in found(run.out)}
        assert names == {
            (name, "ok")
            for name in ("configuration", "names", "ports", "members", "clocks", "limits", "disk", "versions")
        }
        assert set((tmp_path / "server1" / "data").iterdir()) == before, "nothing is left"
        lost = servers.leader().server_id
        # One that is not the one whose file it is.
        gone = servers.members[2 if lost != 3 else 1]
        gone.kill()
        assert run("--wait", "20", "doctor", file, "--syncs", "0", "--json", *admin) == 1
        wrong = not_well(run.out)
    assert ("ports", "failed", f"server.{gone.server_id}") in wrong
    assert ("members", "warning", None) in wrong


def test_every_address_of_a_member_is_looked_at(tmp_path: Path, run: Run) -> None:
    ports = free_ports(6)
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        lines = [f"server.1=127.0.0.1:{ports[0]}:{ports[1]}", "tickTime=2000", "initLimit=5", "syncLimit=5"]
        lines += [f"server.2=127.0.0.1:{ports[2]}:{ports[3]}|localhost:{ports[4]}:{port}", "multiAddress.enabled=true"]
        lines += [f"server.3=127.0.0.1:{port}:{ports[5]}", f"dataDir={tmp_path}", "clientPort=2181"]
        file = tmp_path / "zoo.cfg"
        file.write_text("\n".join(lines) + "\n")
        (tmp_path / "myid").write_text("1\n")
        run("--wait", "20", "doctor", file, "--syncs", "0", "--json")
    looked = [(each["name"], each["verdict"], each["subject"]) for each in found(run.out)]
    assert [each for each in looked if each[2] == "server.2"] == [
        ("names", "ok", "server.2"),
        ("names", "ok", "server.2"),
        ("ports", "warning", "server.2"),
        ("ports", "ok", "server.2"),
        ("ports", "failed", "server.2"),
        ("ports", "failed", "server.2"),
    ]


def test_a_wrong_configuration_and_no_neighbours(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text("tickTime=x\n")
    assert run("doctor", file) == 1
    assert run.out.splitlines()[0].startswith(f"failed   configuration {file}:1: tickTime")
    data = tmp_path / "data"
    data.mkdir()
    file.write_text(f"clientPort=1\ndataDir={data}\n")
    # How slow the disk of this machine is at this moment is not asked.
    assert run("doctor", file, "--syncs", "3") in (0, 1)
    assert "a sync takes" in run.out
    assert run("doctor", file, "--syncs", "0") == 0
    assert "a sync takes" not in run.out
    assert list(data.iterdir()) == []


def test_certificates_of_stores(tmp_path: Path, run: Run) -> None:
    member = with_java_stores(Certificates(tmp_path).member("localhost"))
    for kind in ("pem", "p12", "jks"):
        lines = client_store_lines(member, kind)
        password = lines.get("ssl.keyStore.passwordPath")
        secret = None if password is None else Path(password).read_text().strip()
        left = days_of(lines["ssl.keyStore.location"], None, secret)
        assert isinstance(left, float)
        assert 9 < left <= 10
    assert isinstance(days_of(str(tmp_path / "no"), "pem", None), str)
    (tmp_path / "x.pem").write_text("x")
    assert days_of(str(tmp_path / "x.pem"), None, None) == "it contains no certificate"


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    assert "it cannot be written to" in measured(str(tmp_path / "no")).error
    assert len(measured(str(tmp_path), syncs=5).syncs_ms) == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("doctor",), ("doctor", "f", "--admin", "x"), ("doctor", "f", "--syncs", "-1")])
def test_wrong_usage(words: tuple[str, ...], run: Run) -> None:
    assert run(*words) == 2
