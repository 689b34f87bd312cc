"""What a command loads: modules are counted, and nothing is timed. `make bench-startup` has the times."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.client.running import running
from zab.cli.commands import COMMANDS
from zab.cli.main import build
from zab.cli.plain_values import read_plainly

USAGE_ERROR: Any = typer.BadParameter.__base__
"""typer's, of which all that is said of a command's words are."""

HEAVY = frozenset(
    {
        *("cryptography", "rich", "prompt_toolkit", "pydantic", "pyspark", "pyarrow", "numpy", "asyncio", "email"),
        *("tomllib", "multiprocessing", "importlib.metadata"),
    }
)
"""What no command needs that reads a znode."""

OURS = frozenset(
    {
        *("zab.tls.stores", "zab.member", "zab.host.loop", "zab.server", "zab.pipeline", "zab.simulator"),
        "zab.cli.znodes.shell",
    }
)
"""The imported modules of this project."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


def loaded(code: str, home: Path) -> set[str]:
    """The modules that are there in the end."""
    program = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(home)},
    )
    return set(done.stderr.split())


def command(*words: str) -> str:
    return (
        "from zab.cli.main import main\n"
        f"try: main({list(words)!r})\n"
        "except SystemExit as ending: assert not ending.code, ending.code"
    )


@pytest.mark.parametrize("words", [["get", "/"], ["ls", "-R", "/"], ["stat", "--json", "/"], ["create", "/made", "x"]])
def test_a_znode_command_loads_nothing_heavy(hosts: str, tmp_path: Path, words: list[str]) -> None:
    found = loaded(command("-s", hosts, *words), tmp_path)
    assert found & (HEAVY | OURS) == set()
    assert "trio" in found


def test_the_client_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded("import zab.client", tmp_path) & (HEAVY | OURS | {"typer"}) == set()


def test_tls_loads_what_opens_stores(tmp_path: Path) -> None:
    """So the test of what is left out notices when nothing is."""
    code = "import zab.client, zab.client.tls_context as tls\ntls.context_of(zab.client.Tls())"
    assert {"cryptography", "zab.tls.stores"} <= loaded(code, tmp_path)


# ------------------------------------------------------------------------------------------------------ reading plainly


def values(name: str, words: list[str], *, plainly: bool) -> Any:
    """What the command would be called with, or why not."""
    found: Any = typer.main.get_command(build(name)).commands[name]  # type: ignore[attr-defined]
    if plainly:
        read_plainly(found)
    try:
        with found.make_context(name, list(words)) as context:
            return context.params
    except (typer.Exit, USAGE_ERROR) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get", ["/a"]),
        ("get", ["/a", "-s", "--json", "--timeout", "7"]),
        ("get", ["/a", "--timeout", "0"]),
        ("get", ["/a", "--timeout", "soon"]),
        ("get", []),
        ("create", ["/a", "x", "-t", "5", "--file", "f"]),
        ("create", ["/a", "x", "-t", "five"]),
        ("set", ["/a", "-5", "-v", "3"]),
        ("delete", ["-R", "-b", "0", "/a"]),
        ("changes", ["--since", "0x5", "-n", "2"]),
        ("restore", ["a", "b", "--to", "c", "--to", "d", "--as", "version-2"]),
        ("restore", ["a", "--to", "c", "--as", "nonsense"]),
        ("explore", ["--voters", "9"]),
        ("simulate", ["--hours", "1"]),
        ("secret", ["/tmp/x"]),
        ("ensemble", ["--size", "1", "--client-port", "7"]),
    ],
)
def test_values_are_those_that_typer_reads(name: str, words: list[str]) -> None:
    assert values(name, words, plainly=True) == values(name, words, plainly=False)


def test_every_command_can_be_read_plainly() -> None:
    for name in COMMANDS.keys() - {"pipeline"}:
        assert values(name, ["--help"], plainly=True) == values(name, ["--help"], plainly=False)
