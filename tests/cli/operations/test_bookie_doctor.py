"""`zab doctor` with the file of a bookie."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.cli.json_page import check
from tests.rigs.bookie import BookieProcess, bookies
from tests.rigs.in_process import members_here
from zab.client import sync
from zab.operations.verdicts import bookie_checks
from zab.operations.verdicts.bookie_checks import Directory, Metadata
from zab.operations.verdicts.bookies import Bookies, BookieStatus
from zab.operations.verdicts.checks import Verdict
from zab.testing.kit.ports import free_ports

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def zab(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with members_here(1) as members:
        yield members.hosts


@pytest.fixture(scope="module")
def bookie(hosts: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcess]:
    with bookies(tmp_path_factory.mktemp("doctor"), 1, hosts) as [found]:
        yield found


def found(zab: Run, file: Path, code: int) -> dict[str, list[dict[str, Any]]]:
    """The checks by their name."""
    assert zab("--wait", "10", "doctor", file, "--syncs", "0", "--json") == code, zab.out
    checks: dict[str, list[dict[str, Any]]] = {}
    for line in zab.out.splitlines():
        check("doctor", json.loads(line))
        checks.setdefault(json.loads(line)["name"], []).append(json.loads(line))
    return checks


def with_lines(bookie: BookieProcess, file: Path, **lines: object) -> Path:
    """The file of this bookie, with other lines."""
    given = dict(line.split("=", 1) for line in bookie.file.read_text().splitlines())
    file.write_text("".join(f"{key}={value}\n" for key, value in {**given, **lines}.items()))
    return file


def test_a_running_bookie_is_well(zab: Run, bookie: BookieProcess, tmp_path: Path) -> None:
    file = with_lines(bookie, tmp_path / "conf", diskUsageThreshold="0.999", diskUsageLwmThreshold="0.998")
    checks = found(zab, file, 0)
    verdicts = {name: {each["verdict"] for each in several} for name, several in checks.items()}
    assert verdicts == {key: {"ok"} for key in ("configuration", "address", "directory", "disk", "cluster")}
    assert checks["cluster"][0]["said"] == "1 bookie; this one is registered"


def test_the_cookie_of_another_bookie_a_lost_disk_and_a_damaged_cookie(
    zab: Run, hosts: str, bookie: BookieProcess, tmp_path: Path
) -> None:
    other = with_lines(bookie, tmp_path / "other", bookieId="other")
    [one] = found(zab, other, 1)["directory"]
    assert one["said"] == f"it belongs to bookie {bookie.bookie_id}, and the file is that of other"
    empty = with_lines(bookie, tmp_path / "empty", ledgerDirectories=tmp_path / "new")
    [one] = found(zab, empty, 1)["directory"]
    assert "the disk was lost" in one["said"]
    copy = tmp_path / "copy"
    shutil.copytree(bookie.directory / "files", copy)
    file = with_lines(bookie, tmp_path / "conf", ledgerDirectories=copy)
    assert found(zab, file, 0)["directory"][0]["verdict"] == "ok"
    (copy / "cookie").write_bytes((copy / "cookie").read_bytes()[:-1])
    [one] = found(zab, file, 1)["directory"]
    assert "is damaged" in one["said"]
    (copy / "cookie").unlink()
    assert "there is no cookie, but journal" in found(zab, file, 1)["directory"][0]["said"]
    (copy / "cookie").write_bytes((bookie.directory / "files" / "cookie").read_bytes())
    with sync.connect(hosts) as zk:
        path = f"/ledgers/cookies/{bookie.bookie_id}"
        data, _ = zk.get(path)
        zk.delete(path)
        try:
            assert "the metadata has no cookie of it" in found(zab, file, 1)["directory"][0]["said"]
        finally:
            zk.create(path, data)


def test_a_file_that_refuses_a_start_has_its_line(zab: Run, tmp_path: Path) -> None:
    file = tmp_path / "bk_server.conf"
    file.write_text("ledgerDirectories=/tmp/x\nbookiePort=many\n")
    [one] = found(zab, file, 1)["configuration"]
    assert (one["verdict"], "line 2: bookiePort" in one["said"]) == ("failed", True)


def test_members_that_are_away_and_a_root_that_is_not_formatted(zab: Run, hosts: str, tmp_path: Path) -> None:
    [port] = free_ports(1)
    file = tmp_path / "bk_server.conf"
    file.write_text(f"ledgerDirectories={tmp_path}/x\nmetadataServiceUri=zk://127.0.0.1:{port}/ledgers\n")
    assert zab("--wait", "1", "doctor", file, "--syncs", "0") == 1
    assert "failed   cluster" in zab.out
    assert "skipped  directory" in zab.out
    file.write_text(f"ledgerDirectories={tmp_path}/x\nmetadataServiceUri=zk://{hosts}/none\n")
    assert "zab ledger format makes it" in found(zab, file, 1)["cluster"][0]["said"]


METADATA = Metadata(
    bookies=Bookies((BookieStatus("a", "writable"), BookieStatus("b", "gone"))), instance="i", cookie=b"c"
)


def test_verdicts_of_directories() -> None:
    mine = Directory(path="/d", bookie="a", instance="i", cookie=b"c")
    for directory, verdict in (
        (mine, Verdict.OK),
        (Directory(path="/d", bookie="a", instance="other", cookie=b"c"), Verdict.FAILED),
        (Directory(path="/d", bookie="a", instance="i", cookie=b"other"), Verdict.FAILED),
        (Directory(path="/d", error="x"), Verdict.FAILED),
        (Directory(path="/d"), Verdict.FAILED),
    ):
        [one] = bookie_checks.of_directory(directory, "a", METADATA)
        assert one.verdict is verdict, directory
    [one] = bookie_checks.of_directory(Directory(path="/d"), "a", None)
    assert one.verdict is Verdict.OK


def test_verdicts_of_address_space_and_cluster() -> None:
    [one] = bookie_checks.of_address("a", "127.0.0.1", is_here_only=True, has_members_elsewhere=True)
    assert one.verdict is Verdict.WARNING
    [one] = bookie_checks.of_address("a", "127.0.0.1", is_here_only=True, has_members_elsewhere=False)
    assert one.verdict is Verdict.OK
    assert list(bookie_checks.of_space("/d", 0.94, 0.95)) == []
    [one] = bookie_checks.of_space("/d", 0.95, 0.95)
    assert one.verdict is Verdict.WARNING
    [one] = bookie_checks.of_cluster(METADATA, "a")
    assert (one.verdict, one.said) == (Verdict.WARNING, "bookie b is not registered")
