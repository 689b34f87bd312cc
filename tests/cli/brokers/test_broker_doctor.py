"""`zab doctor` with the file of a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.cli.json_page import check
from tests.rigs.kafka_broker import KafkaBroker
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.slow


def found(zab: Run, file: Path, code: int) -> dict[str, list[dict[str, Any]]]:
    """The checks by their name."""
    assert zab("--wait", "10", "doctor", file, "--syncs", "0", "--json") == code, zab.out
    checks: dict[str, list[dict[str, Any]]] = {}
    for line in zab.out.splitlines():
        check("doctor", json.loads(line))
        checks.setdefault(json.loads(line)["name"], []).append(json.loads(line))
    return checks


def test_a_running_broker_is_well_but_for_its_one_replica(zab: Run, running_broker: KafkaBroker) -> None:
    checks = found(zab, running_broker.settings, 1)
    verdicts = {name: {each["verdict"] for each in several} for name, several in checks.items()}
    assert verdicts.pop("safety") == {"warning"}
    assert verdicts == {"configuration": {"ok"}, "directory": {"ok"}, "disk": {"ok"}, "cluster": {"ok"}}
    assert checks["directory"][0]["said"].endswith("the broker is registered")
    assert checks["cluster"][0]["said"] == "1 broker, all replicas are in sync; this one is registered"
    [danger] = [each for each in checks["safety"] if each["subject"] == "default.replication.factor"]
    lines = running_broker.settings.read_text().splitlines()
    assert danger["said"].startswith(f"line {lines.index('default.replication.factor=1') + 1}: ")


def test_a_foreign_and_damaged_directory_and_members_that_are_away(zab: Run, tmp_path: Path) -> None:
    [port] = free_ports(1)
    logs = tmp_path / "logs"
    (logs / "t-0").mkdir(parents=True)
    (logs / "meta.properties").write_text("version=0\nbroker.id=4\ncluster.id=c\n")
    (logs / "recovery-point-offset-checkpoint").write_text("damaged")
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=3\nlog.dirs={logs}\nzookeeper.connect=127.0.0.1:{port}\nmin.insync.replicas=2\n")
    assert zab("--wait", "1", "doctor", file, "--syncs", "0") == 1
    assert f"{logs}/recovery-point-offset-checkpoint: " in zab.out
    assert f"{logs}/t-0/partition.metadata: it is missing" in zab.out
    assert "it belongs to broker 4, and the file is that of broker 3" in zab.out
    assert "failed   cluster" in zab.out


def test_a_file_that_refuses_a_start_has_its_line(zab: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nlog.retention.ms=soon\n")
    [one] = found(zab, file, 1)["configuration"]
    assert (one["verdict"], "line 2: log.retention.ms" in one["said"]) == ("failed", True)
