"""`zab service install`: the unit of a member, and what it replaces."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import call
from zab.cli.servers import service
from zab.cli.servers.service import MARK


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return configured(tmp_path)


def configured(tmp_path: Path, *more: str) -> Path:
    file = tmp_path / "zoo.cfg"
    lines = [f"dataDir={tmp_path}/data", "clientPort=2181", "admin.enableServer=false", *more]
    file.write_text("\n".join(lines) + "\n")
    return file


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    done = call(capsys, "service", "install", "--print", *words)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def test_unit_runs_this_member_watches_it_and_lets_it_write_its_own_directories(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, file)
    assert lines[0] == MARK
    assert f'ExecStart="{sys.executable}" -m zab.server "{file}"' in lines
    assert f'ReadWritePaths="{file.parent}/data"' in lines
    for line in ("Type=notify", "WatchdogSec=30", "User=zab", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert line in lines
    assert not any(line.startswith("ExecReload=") for line in lines)
    assert not list(file.parent.glob("*.service"))


def test_what_a_reconfiguration_changes_beside_the_file_may_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, configured(tmp_path, "reconfigEnabled=true"))
    assert f'ReadWritePaths="{tmp_path}/data" "{tmp_path}"' in lines


def test_options_say_who_runs_it_and_by_which_python(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "--user", "keeper", "--python", "/opt/zab/bin/python", file)
    assert "User=keeper" in lines
    assert f'ExecStart="/opt/zab/bin/python" -m zab.server "{file}"' in lines


def test_all_files_of_the_configuration_may_be_written_and_low_ports_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("dataLogDir=/fast disk/100%", "log.file=/var/log/zab/zab.log", "audit.enable=true", "secureClientPort=0")
    file = configured(tmp_path, *more, "audit.file=/var/log/audit/zab.log")
    file.write_text(file.read_text().replace("clientPort=2181", "clientPort=218"))
    lines = printed(capsys, file)
    data = f'"{tmp_path}/data" "/fast disk/100%%" "/var/log/zab" "/var/log/audit"'
    assert f"ReadWritePaths={data}" in lines
    assert "ExecReload=/bin/kill -HUP $MAINPID" in lines
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in lines


def test_unit_is_written_and_replaced_and_what_others_wrote_is_left_alone(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    path = units / "zab.service"
    words = ("service", "install", "--directory", units)
    first = call(capsys, *words, file)
    assert first.code == 0
    assert first.out == f"{path} is written; its place on its machine is /etc/systemd/system\n"
    assert "User=zab" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644
    assert call(capsys, *words, "--user", "other", file).code == 0
    assert "User=other" in path.read_text()
    path.write_text("[Service]\nExecStart=/bin/true\n")
    refused = call(capsys, *words, file)
    assert refused.code == 1
    assert "is left alone" in refused.err
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"
    path.unlink()
    path.symlink_to("/dev/null")
    assert call(capsys, *words, file).code == 1
    assert path.is_symlink()
    assert call(capsys, *words, "--name", "zab2", file).code == 0
    assert sorted(each.name for each in units.iterdir()) == ["zab.service", "zab2.service"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["clientPort=x"], "zoo.cfg:2: clientPort: 'x' is not"),
        (["dataLogDir=data"], "dataLogDir=data is no absolute path"),
        (["log.file=zab.log"], "log.file=zab.log is no absolute path"),
        (["initLimit=5", "syncLimit=5", "server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2"], "myid"),
    ],
)
def test_configuration_that_cannot_be_run_as_a_service_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], reason: str
) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text("\n".join([f"dataDir={tmp_path}", *lines]) + "\n")
    if not any(line.startswith("clientPort") for line in lines):
        file.write_text(file.read_text() + "clientPort=2181\n")
    done = call(capsys, "service", "install", "--print", file)
    assert done.code == 2
    assert reason in done.err
    assert done.out == ""


def test_all_that_is_wrong_is_said_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = configured(tmp_path, "tickTime=x", "maxCnxns=lots")
    done = call(capsys, "service", "install", "--print", file)
    assert done.code == 2
    assert [line.partition(": '")[0] for line in done.err.splitlines()] == [
        f"zab: {file}:4: tickTime",
        f"zab: {file}:5: maxCnxns",
    ]


def test_directories_that_are_not_there_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = tmp_path / "units"
    units.mkdir()
    file = configured(tmp_path, f"log.file={tmp_path}/a log/zab.log", f"dataLogDir={tmp_path}/data")
    words = ("service", "install", "--directory", units, "--user", pwd.getpwuid(os.getuid()).pw_name)
    done = call(capsys, *words, file)
    assert done.code == 0
    of_data, of_log = done.err.splitlines()
    assert of_data.startswith(f"zab: dataDir: {tmp_path}/data is not there, and without it the unit does not start: ")
    assert of_log.startswith(f"zab: log.file: {tmp_path}/a log is not there")
    for line in (of_data, of_log):
        subprocess.run(line.rpartition(": ")[2], shell=True, check=True)
    assert call(capsys, *words, file).err == ""


def test_the_description_says_which_member_it_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Description=zab, standalone" in printed(capsys, file)


@pytest.mark.parametrize("words", [("--user", "x y"), ("--user", "root\nGroup=x"), ("--name", "../zab")])
def test_names_that_are_none_are_refused(
    file: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    assert call(capsys, "service", "install", "--print", *words, file).code == 2


def test_directory_that_is_not_there_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "service", "install", "--directory", "/nowhere/at/all", file)
    assert done.code == 1
    assert "/nowhere/at/all/zab.service: No such file or directory" in done.err


def test_user_that_this_machine_has_not_is_refused_where_systemd_of_this_machine_reads(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    units, elsewhere, own = tmp_path / "units", tmp_path / "elsewhere", pwd.getpwuid(os.getuid()).pw_name
    units.mkdir()
    (tmp_path / "link").symlink_to(units)
    elsewhere.mkdir()
    monkeypatch.setattr(service, "_SYSTEMD", (units,))
    for directory in (units, tmp_path / "link"):
        done = call(capsys, "service", "install", "--directory", directory, "--user", "nobody-like-that", file)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("zab: this machine has no user nobody-like-that: ")
        assert len(done.err.splitlines()) == 1
        assert not list(units.iterdir())
    done = call(capsys, "service", "install", "--directory", units, "--user", own, file)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("is written; start it: systemctl daemon-reload && systemctl enable --now zab\n")
    done = call(capsys, "service", "install", "--directory", elsewhere, "--user", "nobody-like-that", file)
    assert done.code == 0
    assert done.err == "zab: this machine has no user nobody-like-that; the machine that the unit is for needs one\n"
    assert "User=nobody-like-that" in (elsewhere / "zab.service").read_text()
    done = call(capsys, "service", "install", "--print", "--user", "nobody-like-that", file)
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("more", [(), ("log.file=/var/log/zab/zab.log", "dataLogDir=/fast disk/100%")])
def test_systemd_accepts_the_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    file = configured(tmp_path, *more)
    assert call(capsys, "service", "install", "--directory", tmp_path, "--user", "root", file).code == 0
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "zab.service")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
