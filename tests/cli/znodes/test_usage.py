"""What may be given to the znode commands: numbers as data, standard input, large requests; and their help."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.commands import Run, run, standard_input, started
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.arguments import JUTE_MAXBUFFER
from zab.cli.commands import COMMANDS
from zab.cli.main import build
from zab.client import Settings

__all__ = ["run"]

UNREAD = "zab: standard input is not read; --file - takes the data from it\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with members_here(1, {"jute.maxbuffer": 3_000_000}) as servers:
        yield servers.hosts


def test_negative_numbers_are_data(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "create", "/number", "-5") == 0
    assert run("-s", hosts, "get", "/number") == 0
    assert run.out == "-5\n"
    assert run("-s", hosts, "set", "/number", "-0.25e3", "-v", "0", "-s") == 0
    assert "dataVersion = 1\n" in run.out
    assert run("-s", hosts, "set", "-v", "-1", "/number", "-7") == 0
    assert run("-s", hosts, "get", "/number") == 0
    assert run.out == "-7\n"
    assert run("-s", hosts, "set", "/number", "-nonsense") == 2
    with started("-s", hosts, "shell") as process:
        out, err = process.communicate("set /number -8\nget /number\n", timeout=PATIENCE_SECONDS)
    assert (out, err) == ("-8\n", "")


def test_standard_input_that_nobody_asked_for_is_named(hosts: str, run: Run, tmp_path: Path) -> None:
    def fed(hosts: str, source: int, *words: str) -> tuple[int, str]:
        with standard_input(source):
            return run("-s", hosts, *words), run.err

    reading, writing = os.pipe()
    os.write(writing, b"data")
    assert fed(hosts, reading, "create", "/piped") == (0, UNREAD)
    # It is for somebody else, as in a loop over the lines of a file.
    assert fed(hosts, reading, "create", "/piped/a", "other") == (0, "")
    assert os.read(reading, 100) == b"data"
    assert fed(hosts, reading, "create", "/piped/b") == (0, "")
    os.close(writing)
    assert fed(hosts, reading, "create", "/piped/c") == (0, "")
    os.close(reading)
    (tmp_path / "data").write_bytes(b"data")
    with (tmp_path / "data").open("rb") as file:
        assert fed(hosts, file.fileno(), "create", "/file") == (0, UNREAD)
        assert fed(hosts, file.fileno(), "create", "/file/a", "--file", "-") == (0, "")
        assert fed(hosts, file.fileno(), "create", "/file/b") == (0, "")
        code, said = fed(hosts, file.fileno(), "set", "/file")
    assert code == 2
    assert "give DATA, or --file, where - is standard" in said


def test_a_large_request_names_the_option_that_allows_it(hosts: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(2_000_000))
    assert run("-s", hosts, "create", "/large", "--file", tmp_path / "data") == 1
    assert run.err == (
        "zab: BADARGUMENTS /large: a request of 2,000,045 bytes is above jute.maxbuffer, here 1,048,575 bytes; "
        "--jute-maxbuffer allows more, if the servers' jute.maxbuffer does\n"
    )
    assert run("--jute-maxbuffer", "2500000", "-s", hosts, "create", "/large", "--file", tmp_path / "data") == 0
    assert run("-s", hosts, "stat", "/large") == 0
    assert "dataLength = 2000000\n" in run.out
    assert run("--jute-maxbuffer", "0", "-s", hosts, "ls", "/") == 2


def test_a_request_may_be_as_large_as_the_clients() -> None:
    assert Settings().request_bytes_max == JUTE_MAXBUFFER


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name].room != "pipeline"])
def test_help_is_what_was_written(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that draws it takes some words for pictures or styles."""
    monkeypatch.setenv("COLUMNS", "400")
    called: Any = typer.main.get_command(build(name))
    for words, command in commands(called.commands[name], (name,)):
        assert run(*words, "--help") == 0
        for parameter in command.params:
            assert (getattr(parameter, "help", None) or "") in run.out
