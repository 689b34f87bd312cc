"""`--timeout`: a command that takes longer ends, with an exit code of its own, whatever it waits for."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
import typer

from tests.cli.commands import Run, at_terminal, leaves, run, started
from tests.client.running import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.commands import COMMANDS
from zab.cli.exits import TIMED_OUT
from zab.cli.time_limit import timed

__all__ = ["run"]

SHORT = ("--timeout", "0.2")
SAID = "zab: no answer within 0.2 s (--timeout)\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def stuck() -> Iterator[str]:
    """A server that takes sessions, and answers no request."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        welcoming = pool.submit(welcome, listening)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        welcoming.result(PATIENCE_SECONDS)


def welcome(listening: socket.socket) -> None:
    """Until it is shut down."""
    with contextlib.ExitStack() as connections, contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            connections.enter_context(connection)
            assert connection.recv(1024)
            connection.sendall(struct.pack(">iiiqi16s?", 37, 0, 9000, 1, 16, b"password", False))


@pytest.mark.parametrize("words", [["watch", "/"], ["get", "-w", "/"], ["changes"]])
def test_it_waits_so_long_for_a_change(hosts: str, run: Run, words: list[str]) -> None:
    assert run("-s", hosts, *words, *SHORT) == TIMED_OUT
    assert SAID.rstrip() in run.err
    assert "write" not in run.err


def test_it_looks_so_long_for_a_server(silent: str, run: Run) -> None:
    for server in (silent, "127.0.0.1:1"):
        assert run("--wait", PATIENCE_SECONDS, "-s", server, "get", "/", *SHORT) == TIMED_OUT
        assert run.out == ""
        assert run.err.startswith(f"{SAID.rstrip()}; no server at {server} took the session")


def test_only_after_a_write_it_is_unknown_whether_it_was_done(stuck: str, run: Run) -> None:
    for words, more in ((["get", "/"], ""), (["set", "/", "x"], "; whether a write was done is unknown")):
        seconds, run.err = 0.2, "no server at"
        while "no server at" in run.err:
            seconds *= 2
            assert run("-s", stuck, *words, "--timeout", seconds) == TIMED_OUT
        assert (run.out, run.err) == ("", f"zab: no answer within {seconds:g} s (--timeout){more}\n")


def test_a_terminal_is_told_where_a_server_is_looked_for() -> None:
    """Not at once, so that a search that ends soon is silent."""
    server = "127.0.0.1:1"
    for words in (["get", "/"], ["shell"], ["ledger", "list"]):
        code, written = at_terminal("--wait", "3", "-s", server, *words)
        assert code == 3
        search, *error = written.decode().splitlines()
        # The shell has set the terminal up before.
        assert f"zab: looking for a server at {server} ({server}: " in search
        assert search.endswith(" Connection refused)")
        assert server in error[0]
    code, written = at_terminal("--wait", "0.2", "-s", server, "get", "/")
    assert b"looking" not in written


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
