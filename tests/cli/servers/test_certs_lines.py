"""The lines that `zab certs` prints are what a server, kazoo, Java's command line and `zab` need."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cli.commands import Run, run
from tests.rigs.zab_server import zab_over_tls
from tests.rigs.zookeeper_server import run_tool

__all__ = ["run"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("certs") / "c"
    words = ("certs", str(made), "--host", "localhost", "--place", str(made / "members" / "localhost"))
    command = [sys.executable, "-m", "zab.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def hosts(said: str) -> Iterator[str]:
    lines = block(said, "add to its zoo.cfg").splitlines()
    with zab_over_tls(dict(line.split("=", 1) for line in lines if "uorum" not in line)) as (_, hosts):
        yield hosts


def block(said: str, begin: str) -> str:
    """The lines after one that begins so."""
    (found,) = re.findall(rf"^{begin}[^\n]*:\n\n(.*?)(?:\n\n|\Z)", said, re.M | re.S)
    return str(found)


def test_zabs_lines_are_its_file(
    said: str, run: Run, hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = block(said, "a client of zab")
    assert file.startswith('[profiles.default]\nhosts = "localhost:2281"\n')
    (tmp_path / "config.toml").write_text(file.replace("localhost:2281", hosts))
    monkeypatch.setenv("ZAB_CONFIG", str(tmp_path / "config.toml"))
    assert run("ls", "/") == 0
    assert run.out == "[zookeeper]\n"


def test_kazoos_lines_are_its_arguments(said: str, hosts: str) -> None:
    client = eval(block(said, "kazoo").replace("localhost:2281", hosts), {"KazooClient": KazooClient})
    client.start(timeout=60)
    try:
        assert client.get_children("/") == ["zookeeper"]
    finally:
        client.stop()
        client.close()


@pytest.mark.java
def test_javas_lines_are_its_configuration(said: str, hosts: str, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(block(said, "Java"))
    done = run_tool(
        "org.apache.zookeeper.ZooKeeperMain",
        *("-client-configuration", str(tmp_path / "client.properties"), "-server", hosts, "ls", "/"),
    )
    assert done.returncode == 0, done.stderr
    # What it says of its session may come in the middle of the list.
    assert b"[zookeeper" in done.stdout
