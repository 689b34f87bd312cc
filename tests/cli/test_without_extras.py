"""Every command in an installation without extras: it works, or says which extra to install."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from tests.cli.commands import leaves
from tests.rigs.bare_installation import Ended, bare
from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from zab.cli.commands import COMMANDS
from zab.cli.servers.local_ensemble import OFFSETS
from zab.testing.kit.ports import free_ports_in_a_row

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.long]

TESTDATA = Path(__file__).parents[1] / "testdata"
SUBTREE = """{"format": "zab subtree", "version": 1, "root": "/a"}
{"path": "/a", "data": "y", "encoding": "utf-8", "acl": [{"scheme": "world", "id": "anyone", "permissions": "cdrwa"}]}
{"znodes": 1}
"""
REFUSED, USAGE, NOT_REACHED, TIMED_OUT = 1, 2, 3, 124
NOWHERE = "127.0.0.1:1"


class Place(NamedTuple):
    """What commands are run on."""

    directory: Path
    hosts: str
    data: Path
    """The directories of running members."""

    @property
    def config(self) -> Path:
        return self.data / "1" / "zoo.cfg"

    def copy(self, name: str) -> Path:
        """A directory of a stopped member."""
        source = TESTDATA / "upgrade" / "before-secrets" / "ensemble" / "1"
        return Path(shutil.copytree(source, self.directory / name))

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path


Line = tuple[str, Sequence[object], int]
"""The command by its name, what follows it, and the exit code."""


def working(place: Place) -> Iterator[Line]:
    """Commands that need no extra, in an order in which each finds what it needs."""
    stopped = place.copy("stopped")
    yield "create", ["/a", "x"], 0
    yield "get", ["/a"], 0
    yield "set", ["/a", "y"], 0
    yield "ls", ["/"], 0
    yield "stat", ["/a"], 0
    yield "count", ["/"], 0
    yield "tree", ["/"], 0
    yield "find", ["/"], 0
    yield "du", ["/"], 0
    yield "touch", ["/b"], 0
    yield "cp", ["/a", "/c"], 0
    yield "mv", ["/c", "/d"], 0
    yield "export", ["/a"], 0
    yield "import", [place.file("subtree", SUBTREE), "/imported"], 0
    yield "edit", ["/a"], 0
    yield "multi", [place.file("multi", "create /m x\n")], 0
    yield "wait", ["/a", "--exists"], 0
    yield "lock", ["/l", "--", "true"], 0
    yield "elect", ["/e", "--", "true"], 0
    yield "ephemerals", [], 0
    yield "sync", [], 0
    yield "whoami", [], 0
    yield "config", [], 0
    yield "4lw", ["srvr"], 0
    yield "lead", ["1"], REFUSED
    yield "acl get", ["/a"], 0
    yield "acl set", ["/a", "world:anyone:cdrwa"], 0
    yield "quota set", ["/a", "-n", "5"], 0
    yield "quota list", ["/a"], 0
    yield "quota delete", ["/a"], 0
    yield "reconfig show", [], 0
    yield "reconfig add", ["server.9=127.0.0.1:1:2;3"], REFUSED
    yield "reconfig remove", ["3"], USAGE
    yield "reconfig set", [place.file("lines", "server.1=127.0.0.1:1:2;3\n")], REFUSED
    yield "shell", [], 0
    yield "delete", ["/a"], 0
    yield "watch", ["/", "--timeout", "0.2"], TIMED_OUT
    yield "changes", ["--timeout", "0.2"], TIMED_OUT
    yield "status", [], 0
    yield "doctor", [place.config], REFUSED
    yield "support", [place.config, "--to", place.directory / "support.tar.gz"], 0
    yield "secret", [place.directory / "secret"], 0
    yield "certs", [place.directory / "certs", "--host", "127.0.0.1"], 0
    yield "user", [place.directory / "users", "bob"], REFUSED
    yield "snapshot", [stopped / "version-1" / "snapshot.100000028"], 0
    yield "log", [stopped], 0
    yield "segment", [place.file("meta.properties", "version=0\nbroker.id=1\ncluster.id=a\n")], 0
    yield "fsck", [stopped], 0
    yield "recover", [place.directory], REFUSED
    yield "server", [place.directory / "none.cfg"], USAGE
    yield "service install", ["--print", place.config], 0
    yield "backup take", [place.directory / "backup", "--admin", NOWHERE], NOT_REACHED
    for name in ("list", "verify", "prune"):
        yield f"backup {name}", [place.directory / "backup", *(["--keep", "1"] if name == "prune" else [])], REFUSED
    yield "broker list", [], REFUSED
    yield "simulate", ["--seed", "3"], 0
    yield "explore", ["--voters", "1", "--writes", "0"], 0
    yield "completion", ["bash"], 0


def needing(place: Place) -> Iterator[tuple[str, str, Sequence[object]]]:
    """The extra, and a command that needs it."""
    file = place.file("file", "x\n")
    yield "backup", "restore", [place.directory, "--to", place.directory / "restored"]
    yield "ledgers", "simulate", ["--ledgers", "--seed", "3"]
    yield "broker", "simulate", ["--partitions", "--seed", "3"]
    yield "broker", "explore", ["--partitions"]
    yield "broker", "broker run", [place.file("server.properties", _properties(place))]
    yield "broker", "ensemble", ["--brokers", "1", "--data", place.directory / "with-broker", "--client-port", _port()]
    yield "ledgers", "ensemble", ["--bookies", "1", "--data", place.directory / "with-bookie", "--client-port", _port()]
    yield "kafka", "changes", ["--to-topic", "t"]
    yield "ledgers", "doctor", [place.file("bookie.conf", "bookiePort=1\n")]
    yield "ledgers", "changes", ["--to-log", "t"]
    yield "ledgers", "changes", ["--from-log", "t"]
    yield "kafka", "broker drain", ["1"]
    yield "kafka", "broker acl add", ["User:a", "read", "--topic", "t"]
    yield "kafka", "broker acl list", []
    yield "kafka", "broker acl remove", ["User:a"]
    yield "kafka", "broker quota list", []
    yield "kafka", "broker quota set", ["producer_byte_rate=1", "--user", "a"]
    yield "kafka", "broker quota remove", ["--user", "a"]
    yield "kafka", "topic list", []
    yield "kafka", "topic create", ["t"]
    yield "kafka", "topic delete", ["t"]
    yield "kafka", "topic describe", ["t"]
    yield "kafka", "topic alter", ["t", "--partitions", "2"]
    yield "kafka", "produce", ["t", file]
    yield "kafka", "consume", ["t"]
    yield "kafka", "group list", []
    yield "kafka", "group describe", ["g"]
    yield "kafka", "group delete", ["g"]
    yield "kafka", "group reset", ["g", "--to", "end"]
    yield "ledgers", "bookie run", [place.file("bk_server.conf", f"zkServers={place.hosts}\n")]
    yield "ledgers", "bookie autorecovery", [place.directory / "bk_server.conf"]
    yield "ledgers", "bookie inspect", [place.directory]
    yield "ledgers", "bookie list", []
    for name in ("show", "decommission"):
        yield "ledgers", f"bookie {name}", ["127.0.0.1:3181"]
    for name in ("status", "run", "disable", "enable", "records"):
        yield "ledgers", f"audit {name}", []
    yield "ledgers", "ledger-log list", []
    for name in ("create", "append", "read", "tail", "info", "trim", "terminate", "delete", "cursors"):
        yield "ledgers", f"ledger-log {name}", ["l"]
    yield "ledgers", "ledger-log offload", ["l", "--to", place.directory]
    for name in ("format", "create", "append", "list"):
        yield "ledgers", f"ledger {name}", []
    for name in ("read", "tail", "close", "recover", "delete", "show", "check"):
        yield "ledgers", f"ledger {name}", ["1"]
    yield "ledgers", "ledger seal", ["1", "--at", "0", "--data-loss", "--yes", "1"]
    yield "pipeline", "simulate", ["--both-judges", "--seed", "3"]
    for job in ("audit", "hotspots", "sessions", "locks", "state", "verify"):
        yield "pipeline", f"pipeline {job}", [place.data / "1"]
    yield "pipeline", "pipeline diff", [place.data / "1", "--from", "0"]
    yield "pipeline", "pipeline history", [file]
    yield "pipeline", "pipeline compact", [place.data / "1", "--out", place.directory / "compact"]
    yield "pipeline", "pipeline report", [place.data / "1", "--out", place.directory / "report.html"]
    out = ["--out", place.directory / "follow", "--checkpoint", place.directory / "checkpoint"]
    yield "pipeline", "pipeline follow", [place.data / "1", *out]
    yield "pipeline", "pipeline package", [place.directory / "package"]
    yield "pipeline", "pipeline run", [place.file("jobs", f"audit {place.data / '1'}\n")]
    yield "pipeline", "pipeline prepare", []


def _properties(place: Place) -> str:
    return f"node.id=1\nzookeeper.connect={place.hosts}\nlog.dirs={place.directory}/logs\nlisteners=PLAINTEXT://:0\n"


def _port() -> int:
    return free_ports_in_a_row(1, OFFSETS)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**bare(tmp_path_factory.mktemp("bare")), "EDITOR": "true", "ZAB_BROKERS": NOWHERE}


@pytest.fixture(scope="module")
def place(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With an ensemble, whose members are bare, too."""
    directory, data, port = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("data"), _port()
    command = [sys.executable, "-m", "zab.cli.main", "ensemble", "--size", "1", "--data", str(data)]
    with subprocess.Popen(
        [*command, "--client-port", str(port)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "serving at" in process.stdout.readline()
            yield Place(directory, f"127.0.0.1:{port}", data)
        finally:
            process.terminate()
            process.wait(LONG_PATIENCE_SECONDS)


def run_all(commands: Sequence[Sequence[object]], place: Place, environment: dict[str, str]) -> list[Ended]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.rigs.bare_installation"],
        input=json.dumps([["-s", place.hosts, *map(str, words)] for words in commands]),
        env={**environment, "ZAB_DIRECTORY": str(place.directory)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [Ended(*each) for each in json.loads(done.stdout)]


def test_commands_that_need_no_extra_work(place: Place, environment: dict[str, str]) -> None:
    lines = [*working(place)]
    ends = run_all([[*name.split(), *words] for name, words, _ in lines], place, environment)
    wrong = [
        f"zab {name}: {ended.code}, not {code}: {ended.said[-500:]}{ended.problem}"
        for (name, _, code), ended in zip(lines, ends, strict=True)
        if ended.code != code or ended.problem or "Traceback" in ended.said or "pip install" in ended.said
    ]
    assert not wrong, "\n".join(wrong)


def test_commands_that_need_an_extra_say_which(place: Place, environment: dict[str, str]) -> None:
    lines = [*needing(place)]
    ends = run_all([[*name.split(), *words] for _, name, words in lines], place, environment)
    wrong = [
        f"zab {name} does not ask for zab[{extra}]: {ended.code}: {ended.said[-500:]}{ended.problem}"
        for (extra, name, _), ended in zip(lines, ends, strict=True)
        if ended.problem or "Traceback" in ended.said or f"pip install 'zab[{extra}]'\n" not in ended.said
    ]
    assert not wrong, "\n".join(wrong)


def test_no_command_is_missing_here(tmp_path: Path) -> None:
    place = Place(tmp_path, NOWHERE, tmp_path)
    here = {name for name, _, _ in working(place)} | {name for _, name, _ in needing(place)}
    app = typer.Typer()
    for name, command in COMMANDS.items():
        command.add_to(app, name)
    found = {name for top, below in typer.main.get_command(app).commands.items() for name, _ in leaves(top, below)}
    assert here == found
