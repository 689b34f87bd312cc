"""The audit log of real servers: its file, start and stop, who is refused at the ports of members, and the start of a
server that cannot write it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from zab.host.journal.audit_log import REFUSALS_PER_SECOND, AuditLog
from zab.host.journal.rotating_file import RotatingFile
from zab.member.clients.audit import Asked, Change
from zab.member.state.metrics import Metrics
from zab.service.audit import SUCCESS, Record, Refusal, ServerEvent
from zab.testing.kit.ports import free_ports


def audit_log(
    path: Path,
    *,
    wall_ms: Callable[[], int] = lambda: 1_700_000_000_123,
    count_lost: Callable[[int], None] = [].append,
    **changes: int,
) -> AuditLog:
    return AuditLog(RotatingFile(str(path), 1 << 20, 2), "own", wall_ms, count_lost, **changes)


def refused() -> Refusal:
    return Refusal("member", "10.0.0.1", reason="it\thas no secret")


def test_lines_have_their_time_and_level(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "log")
    log.started()
    log.write([refused()])
    log.stop()
    assert (tmp_path / "log").read_text() == (
        "2023-11-14T22:13:20.123Z INFO  zab.audit: user=own\toperation=serverStart\tresult=success\n"
        "2023-11-14T22:13:20.123Z ERROR zab.audit: ip=10.0.0.1\toperation=member\treason=it\\thas no secret"
        "\tresult=failure\n"
        "2023-11-14T22:13:20.123Z INFO  zab.audit: user=own\toperation=serverStop\tresult=invoked\n"
    )


def test_start_that_fails_is_a_failure(tmp_path: Path) -> None:
    audit_log(tmp_path / "log").start_failed()
    assert (tmp_path / "log").read_text().endswith("user=own\toperation=serverStart\tresult=failure\n")


def test_flood_of_refusals_fills_no_file_and_is_counted(tmp_path: Path) -> None:
    wall_ms = 5_000
    log = audit_log(tmp_path / "log", wall_ms=lambda: wall_ms)
    for _ in range(1000):
        log.write([refused()])
    log.write([Refusal("auth", "10.0.0.1", 1)])
    wall_ms = 6_000
    log.write([refused()])
    log.stop()
    lines = (tmp_path / "log").read_text().splitlines()
    of_members = [line for line in lines if "operation=member" in line]
    assert len(of_members) == REFUSALS_PER_SECOND + 1
    assert of_members[-1].endswith(f"left_out={1000 - REFUSALS_PER_SECOND}\tresult=failure")
    assert sum("operation=auth" in line for line in lines) == 1, "others are not left out because of these"


def test_changes_of_clients_are_never_left_out(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "log")
    asked = Asked(1, 1, 2, b"", (), "10.0.0.1", 0)
    records: list[Record] = [Change(asked, b"/a", SUCCESS)] * 1000
    log.write(records)
    log.stop()
    assert (tmp_path / "log").read_text().count("operation=delete") == 1000


def test_what_is_lost_is_counted_in_the_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    log = audit_log(tmp_path / "log", bytes_max=0, count_lost=metrics.count_lost_audit_records)
    log.write([ServerEvent("delete", SUCCESS)] * 3)
    assert metrics.audit_records_lost == 3
    log.stop()
    assert metrics.audit_records_lost == 4
    assert "operation=auditRecordsLost\tcount=4\tresult=failure" in (tmp_path / "log").read_text()


@pytest.mark.process
def test_server_writes_its_start_its_clients_refused_members_and_its_stop(tmp_path: Path) -> None:
    with zab_servers(3, directory=tmp_path, configuration={"audit.enable": "true"}) as ensemble:
        member = ensemble.followers()[0]
        config = dict(
            line.split("=", 1) for line in (member.directory / "zoo.cfg").read_text().splitlines() if "=" in line
        )
        _, quorum, election = config[f"server.{member.server_id}"].split(":")
        for port in (quorum, election):
            with socket.create_connection(("127.0.0.1", int(port)), PATIENCE_SECONDS) as stranger:
                stranger.sendall(b"\x00\x00\x00\x04what")
                stranger.settimeout(PATIENCE_SECONDS)
                while stranger.recv(4096):
                    pass
        with kazoo_client(member.host) as client:
            client.create("/a")
        member.stop()
        path = member.data_directory / "audit.log"
        assert path.stat().st_mode & 0o777 == 0o600
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].endswith("operation=serverStart\tresult=success")
        assert lines[-1].endswith("operation=serverStop\tresult=invoked")
        assert sum("operation=create\tznode=/a\tznode_type=persistent\tresult=success" in line for line in lines) == 1
        assert sum("ip=127.0.0.1\toperation=member\treason=" in line for line in lines) >= 2


@pytest.mark.process
def test_start_is_refused_where_the_audit_log_cannot_be_opened(tmp_path: Path) -> None:
    [port] = free_ports(1)
    lines = {"audit.enable": "true", "audit.file": str(tmp_path / "missing" / "log"), "clientPort": port}
    with zab_servers(1, directory=tmp_path, configuration=lines, wait=False) as ensemble:
        [member] = ensemble.members
        assert member.process is not None
        assert member.process.wait(PATIENCE_SECONDS) == 2
        assert f"audit.file={tmp_path}/missing/log: No such file" in member.log_text()
