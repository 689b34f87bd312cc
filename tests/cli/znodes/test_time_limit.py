"""`--timeout`: a command that takes longer ends, with an exit code of its own, whatever it waits for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import typer

from tests.cli.commands import Run, leaves, run, started
from tests.client.running import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.commands import COMMANDS
from zab.cli.exits import TIMED_OUT
from zab.cli.time_limit import timed

__all__ = ["run"]

SHORT = ("--timeout", "0.2")
SAID = "zab: no answer within 0.2 s (--timeout); whether a write was done is unknown\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("words", [["watch", "/"], ["get", "-w", "/"], ["changes"]])
def test_it_waits_so_long_for_a_change(hosts: str, run: Run, words: list[str]) -> None:
    assert run("-s", hosts, *words, *SHORT) == TIMED_OUT
    assert run.err.endswith(SAID)


def test_it_looks_so_long_for_a_server(silent: str, run: Run) -> None:
    for server in (silent, "127.0.0.1:1"):
        assert run("--wait", PATIENCE_SECONDS, "-s", server, "get", "/", *SHORT) == TIMED_OUT
        assert (run.out, run.err) == ("", SAID)


def test_a_limit_that_is_not_reached_changes_nothing(hosts: str, run: Run) -> None:
    assert run("-s", hosts, "ls", "/", "--timeout", PATIENCE_SECONDS) == 0
    assert (run.out, run.err) == ("[zookeeper]\n", "")
    assert run("-s", hosts, "get", "/none", "--timeout", PATIENCE_SECONDS) == 1


def test_a_line_of_the_shell_has_its_own(hosts: str) -> None:
    with started("-s", hosts, "shell") as process:
        out, err = process.communicate("watch / --timeout 0.2\nls /\n", timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (TIMED_OUT, "[zookeeper]\n"), "the session goes on"
    assert err == f"watching /\n{SAID}"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_what_is_no_time_is_wrong_usage(run: Run, seconds: str) -> None:
    assert run("get", "/", f"--timeout={seconds}") == 2
    assert "--timeout" in run.err


def test_it_is_no_option_of_all_commands(run: Run) -> None:
    """Once it was, and meant the session's."""
    assert run("--timeout", "30", "get", "/") == 2
    assert "--session-timeout" in run.err


ROOMS = ("znodes", "brokers", "ledger")
"""The rooms whose commands ask servers."""


def commands(name: str) -> list[Any]:
    app = typer.Typer()
    COMMANDS[name].add_to(app, name)
    app.command("another")(lambda: None)
    found: Any = typer.main.get_command(app)
    return [command for _, command in leaves(name, found.commands[name])]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_talk_to_servers_have_it_once(name: str) -> None:
    for command in [*commands(name), *commands(name)]:
        if name == "bookie":
            is_asking = command.name in ("list", "show", "decommission")
        else:
            # A broker runs until it is told to end.
            is_asking = COMMANDS[name].room in ROOMS and (name, command.name) not in (
                ("shell", "shell"),
                ("broker", "run"),
            )
        assert [option for each in command.params for option in each.opts].count("--timeout") == is_asking


def test_a_command_that_has_one_of_its_own_keeps_it() -> None:
    def own(timeout: Annotated[float, typer.Option("--timeout")] = 1) -> None:
        assert timeout

    assert timed(own) is own
