"""How far long commands say that they have come."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.commands import Run, run
from tests.rigs.in_process import members_here
from zab.cli import progress as module
from zab.cli.progress import Told, progress
from zab.cli.znodes.batches import Batches
from zab.client.core.transaction import Transaction

__all__ = ["run"]


class Screen(io.StringIO):
    """A terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=screen, stdout=io.StringIO(), exc_info=sys.exc_info))
    monkeypatch.setattr(module, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(module, "_LINE_SECONDS", 0.0)
    return screen


def test_a_line_counts_on_a_terminal(screen: Screen) -> None:
    with progress("copied") as told:
        told.add()
        told.reach(70)
    assert "1 znode copied" in screen.getvalue()
    assert "70 znodes copied" in screen.getvalue()


def test_batches_count_when_they_are_done() -> None:
    with progress("read") as told:
        batches = told.over([[1, 2], [3]])
        assert (next(batches), told.count) == ([1, 2], 0)
        assert (next(batches), told.count, list(batches), told.count) == ([3], 2, [], 3)
        assert (list(told.over([[1]])), told.count) == ([[1]], 1)


def test_what_is_done_in_a_moment_shows_none(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET_SECONDS", 3600.0)
    with progress("copied") as told:
        told.add(5)
    assert screen.getvalue() == ""


def test_lines_of_the_command_on_a_terminal_are_enough(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "stdout", Screen())
    with progress("counted", prints_lines=True) as told:
        told.add(5)
    assert screen.getvalue() == ""


def test_elsewhere_only_an_early_end_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("copied") as told:
        told.add(5)
    assert capsys.readouterr().err == ""
    for error in (KeyboardInterrupt(), ValueError()):
        with pytest.raises(type(error)):
            stop_at(5, error)
        assert capsys.readouterr().err == "zab: not finished: 5 znodes copied\n"
    with pytest.raises(ValueError, match="none"):
        stop_at(0, ValueError("none"))
    with pytest.raises(KeyboardInterrupt):
        stop_at(5, KeyboardInterrupt(), tells_end=False)
    with pytest.raises(ValueError, match="none"):
        stop_at(5, ValueError("none"), tells_errors=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt):
        stop_at(5, KeyboardInterrupt(), tells_errors=False)
    assert capsys.readouterr().err == "zab: not finished: 5 znodes copied\n"


def stop_at(count: int, error: BaseException, *, tells_end: bool = True, tells_errors: bool = True) -> None:
    with progress("copied", tells_end=tells_end, tells_errors=tells_errors) as told:
        told.reach(count)
        raise error


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with members_here(1) as servers:
        yield servers.hosts


def make(run: Run, hosts: str, root: str, count: int) -> None:
    assert run("-s", hosts, "create", root) == 0
    for number in range(count):
        assert run("-s", hosts, "create", f"{root}/{number}") == 0


def test_an_interrupted_deletion_says_how_many_are_gone(hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make(run, hosts, "/interrupted", 5)
    commit, left = Transaction.commit, iter([True, True])

    async def interrupted(transaction: Transaction) -> None:
        if not next(left, False):
            raise KeyboardInterrupt
        await commit(transaction)

    monkeypatch.setattr(Transaction, "commit", interrupted)
    assert run("-s", hosts, "delete", "-R", "--batch", 2, "/interrupted") == 130
    assert run.err == "zab: not finished: 4 znodes deleted\n"
    assert run("-s", hosts, "count", "/interrupted") == 0
    assert run.out == "1\n"


def test_each_long_command_counts(hosts: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make(run, hosts, "/long", 3)
    told: list[str] = []
    monkeypatch.setattr(Told, "end", lambda each: told.append(str(each)))
    monkeypatch.setattr("zab.cli.znodes.copying.ATOMIC_PARTS_MAX", 2)
    monkeypatch.setattr(Batches.__init__, "__defaults__", (2,))
    file = tmp_path / "exported"
    assert run("-s", hosts, "export", "/long", "--dir", file) == 0
    assert run("-s", hosts, "du", "/long") == 0
    assert run("-s", hosts, "cp", "/long", "/copied") == 0
    assert run("-s", hosts, "import", file, "/imported") == 0
    assert run("-s", hosts, "delete", "-R", "/imported") == 0
    # A copied znode counts once its transaction is committed; the last one is committed at the end.
    assert told == [
        "4 znodes written",
        "4 znodes counted",
        "3 znodes copied",
        "4 znodes read",
        "4 znodes deleted",
    ]
