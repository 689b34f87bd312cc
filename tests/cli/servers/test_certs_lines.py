"""The lines for clients that `zab certs` prints are what kazoo, Java's command line and `zab` need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cli.commands import Run, run
from tests.rigs.tls_proxy import tls_proxy
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import run_tool

__all__ = ["run"]


@pytest.fixture(scope="module")
def target() -> Iterator[int]:
    with zab_servers(1) as servers:
        yield servers.members[0].client_port


@pytest.fixture
def said(run: Run, tmp_path: Path) -> str:
    assert run("certs", tmp_path / "c", "--host", "localhost") == 0
    return run.out


def block(said: str, begin: str) -> str:
    """The lines after one that begins so."""
    (found,) = re.findall(rf"^{begin}[^\n]*:\n\n(.*?)(?:\n\n|\Z)", said, re.M | re.S)
    return str(found)


def test_zabs_lines_are_its_file(
    said: str, run: Run, target: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "client.toml").write_text(block(said, "a client of zab"))
    monkeypatch.setenv("ZAB_CONFIG", str(tmp_path / "client.toml"))
    with tls_proxy(tmp_path / "c" / "members" / "localhost", target) as port:
        assert run("-s", f"localhost:{port}", "ls", "/") == 0
        assert run.out == "[zookeeper]\n"


def test_kazoos_lines_are_its_arguments(said: str, target: int, tmp_path: Path) -> None:
    with tls_proxy(tmp_path / "c" / "members" / "localhost", target) as port:
        text = block(said, "kazoo").replace("…:2281", f"localhost:{port}")
        client = eval(text, {"KazooClient": KazooClient})
        client.start(timeout=60)
        try:
            assert client.get_children("/") == ["zookeeper"]
        finally:
            client.stop()
            client.close()


@pytest.mark.java
def test_javas_lines_are_its_configuration(said: str, target: int, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(block(said, "Java"))
    with tls_proxy(tmp_path / "c" / "members" / "localhost", target) as port:
        done = run_tool(
            "org.apache.zookeeper.ZooKeeperMain",
            *("-client-configuration", str(tmp_path / "client.properties")),
            *("-server", f"localhost:{port}", "ls", "/"),
        )
    assert done.returncode == 0, done.stderr
    assert b"[zookeeper]" in done.stdout
