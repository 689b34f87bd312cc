"""The admin server: ours answers in the shape of what ZooKeeper's own classes make, command by command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.rigs.admin_servers import SUPER_DIGEST
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import java_command, tool_options
from zab.member.words.admin_commands import NAMES_OF, NOT_SERVING
from zab.server.admin import LOG, MORE
from zab.testing.kit.ports import free_ports

pytestmark = pytest.mark.java

SUPERUSER = {"Authorization": "digest super:wire"}

SOURCE = Path(__file__).parent / "admin" / "AdminCommands.java"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, list[str], Any]]:
    """Name, status, names, and JSON."""
    directory = tmp_path_factory.mktemp("admin")
    options = tool_options(directory)
    command = java_command(str(SOURCE), str(directory / "data"), options=options, jars=["javax.servlet"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = []
    for part in f"\n{done.stdout}".split("\n= ")[1:]:
        head, _, body = part.partition("\n")
        name, status, *names = head.split(" ")
        found.append((name, int(status), [each for each in names if each], json.loads(body)))
    return found


@pytest.fixture(scope="module")
def ours() -> Iterator[httpx.Client]:
    [port] = free_ports(1)
    lines = {
        "admin.enableServer": "true",
        "admin.serverPort": port,
        "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    }
    with zab_servers(1, configuration=lines) as servers, kazoo_client(servers.hosts, timeout=10) as client:
        client.create("/a", b"x")
        client.create("/e", b"", ephemeral=True)
        client.get("/a", watch=print)
        client.exists("/nope", watch=print)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/commands/", timeout=60) as asking:
            yield asking


def test_all_of_zookeepers_commands_are_there_under_all_their_names(theirs: list[Any]) -> None:
    known = {**NAMES_OF, **MORE}
    assert known.pop(LOG) == LOG, "it is ours"
    names = {name: each for name, _, each, _ in theirs if name in each}
    names.pop("srvr")
    assert len(names) == 28
    assert {alias: name for name, each in names.items() for alias in each} == known


OF_JAVA = {
    "java.version",
    *("java.vendor", "java.home", "java.class.path", "java.library.path", "java.io.tmpdir", "java.compiler"),
}
OF_PYTHON = {"python.version", "python.implementation", "python.executable"}


def shape(value: Any) -> Any:
    """What kind of value stands where: keys that are numbers, and lists of any length, are one."""
    if isinstance(value, dict):
        return {("N" if key.lstrip("-").isdigit() else key): shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


SHAPES_DIFFER = {
    "monitor": "the figures are those that there are",
    "hash": "the last batch ends, not every 128th transaction",
    "system_properties": "of Java",
    "restore": "GET, where it is POST",
    "snapshot": "below",
}


def test_answers_have_the_shape_of_zookeepers(theirs: list[Any], ours: httpx.Client) -> None:
    for name, status, each, told in theirs:
        if not each or name in SHAPES_DIFFER or told["error"] == NOT_SERVING:
            continue
        answer = ours.get(name, params={"traceMask": "306"}, headers=SUPERUSER)
        assert answer.status_code == status, name
        said = answer.json()
        if name == "environment":
            assert said.keys() >= OF_PYTHON
            told = {key: value for key, value in told.items() if key not in OF_JAVA}
            said = {key: value for key, value in said.items() if key not in OF_PYTHON}
        assert shape(said) == shape(told), name


def test_who_asks_for_a_snapshot_is_judged_alike(theirs: list[Any], ours: httpx.Client) -> None:
    asked = [None, "digest", "digest  a:b", "nope a:b", "ip 127.0.0.1", "digest a", "digest a:b"]
    snapshots = [(status, told) for name, status, _, told in theirs if name == "snapshot"]
    assert len(snapshots) == len(asked)
    for authorization, (status, told) in zip(asked, snapshots, strict=True):
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = ours.get("snapshot", params={"streaming": "false"}, headers=headers)
        # A digest that somebody made up has nothing here, though the root is open (D94).
        assert answer.status_code == (403 if status in (200, 429) else status), authorization
        assert answer.json()["command"] == told["command"]
        if status == 401:
            assert answer.json()["error"] == told["error"]


def test_errors_are_zookeepers(theirs: list[Any], ours: httpx.Client) -> None:
    [(_, status, _, told)] = [each for each in theirs if each[0] == "nope"]
    answer = ours.get("nope")
    assert (answer.status_code, answer.json()) == (status, told)


def test_who_restores_is_judged_alike(theirs: list[Any]) -> None:
    """Nobody, nothing, a snapshot, and another one too soon."""
    [_, *restores] = [(status, told) for name, status, _, told in theirs if name == "restore"]
    assert [status for status, _ in restores] == [401, 400, 200, 429]
    [port] = free_ports(1)
    who = {"Authorization": "digest super:wire"}
    lines = {
        "admin.enableServer": "true",
        "admin.serverPort": port,
        "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
    }
    with (
        zab_servers(1, configuration=lines) as servers,
        httpx.Client(base_url=f"http://127.0.0.1:{port}/commands/", timeout=60) as asking,
    ):
        with kazoo_client(servers.hosts, timeout=10) as client:
            client.create("/a", b"x")
        snapshot = asking.get("snapshot", headers=who).content
        for sent, (status, told) in zip([{}, {"headers": who}], restores, strict=False):
            answer = asking.post("restore", **sent)  # type: ignore[arg-type]
            assert answer.status_code == status
            assert shape({**answer.json(), "error": ""}) == shape({**told, "error": ""})
        answer = asking.post("restore", headers=who, content=snapshot)
        said = answer.json()
        # Ours goes on with another history, and says which.
        assert len(said.pop("lineage")) == 32
        assert (answer.status_code, shape(said)) == (200, shape(restores[2][1]))
