"""What znode commands write to a terminal, to a pipe, and to what takes no more."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, at_terminal, run, standard_input
from tests.client.running import running
from zab.cli.main import main
from zab.cli.terminal import is_text

__all__ = ["run"]

ZAB = [sys.executable, "-m", "zab.cli.main"]
BINARY = bytes(range(256))
HOSTILE = b"\x1b]0;owned\x07\xc2\x9b1m\r\x7f \xc3\xa9\ttab\nline"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with running("zab", 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def znode(hosts: str, run: Run, tmp_path: Path, data: bytes) -> str:
    """The path of a znode with this data."""
    path = f"/{tmp_path.name}"
    (tmp_path / "data").write_bytes(data)
    assert run("-s", hosts, "create", path, "--file", tmp_path / "data") == 0
    return path


def piped(hosts: str, *words: str, lines: str = "") -> bytes:
    command = [*ZAB, "-s", hosts, *words]
    return subprocess.run(command, input=lines.encode(), capture_output=True, check=True).stdout


@pytest.mark.parametrize("data", [BINARY])
def test_a_pipe_gets_the_bytes(hosts: str, znode: str, data: bytes) -> None:
    assert piped(hosts, "get", znode) == data
    assert piped(hosts, "get", "--raw", znode) == data
    assert piped(hosts, "get", "-s", znode).startswith(data + b"\ncZxid = ")
    assert piped(hosts, "shell", lines=f"get {znode}\n") == data


def written(path: Path, hosts: str, *words: str, lines: str = "") -> bytes:
    """What this process writes to a file that is its standard output."""
    with path.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file), standard_input(lines):
        with pytest.raises(SystemExit) as ending:
            main(["-s", hosts, *words])
        assert not ending.value.code
    return path.read_bytes()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BINARY, BINARY),
        (b"\0\0\0\5", b"\0\0\0\5"),
        (b"\xff", b"\xff"),
        (b"text", b"text\n"),
        ("é\n".encode(), "é\n\n".encode()),
    ],
)
def test_a_file_gets_the_bytes(hosts: str, znode: str, tmp_path: Path, data: bytes, expected: bytes) -> None:
    path = tmp_path / "written"
    assert written(path, hosts, "get", znode) == expected
    assert written(path, hosts, "get", "--raw", znode) == data
    assert written(path, hosts, "get", "-s", znode).startswith(data + b"\ncZxid = ")
    assert written(path, hosts, "shell", lines=f"get {znode}\n") == expected


@pytest.mark.parametrize("data", [HOSTILE])
def test_a_terminal_gets_no_control_characters(hosts: str, znode: str, data: bytes) -> None:
    code, screen = at_terminal("-s", hosts, "get", znode)
    assert code == 0
    assert screen == b"\\x1b]0;owned\\x07\\x9b1m\\r\\x7f \xc3\xa9\ttab\r\nline\r\n"
    for words in (["get", "--json"], ["changes", "--since", "0", "-n", "1", "--prefix"]):
        code, screen = at_terminal("-s", hosts, *words, znode)
        assert code == 0
        assert not set(screen.decode()) & set(map(chr, (*range(0x0A), *range(0x0E, 0x20), *range(0x7F, 0xA0))))


def test_a_path_that_is_refused_does_not_command_the_terminal(hosts: str) -> None:
    code, screen = at_terminal("-s", hosts, "get", "/\x1b[2J")
    assert code == 1
    assert screen.startswith(b"zab: BADARGUMENTS /\\x1b[2J: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "words",
    [["--help"], ["ls", "/"], ["get", "--raw", "/large"], ["get", "/large"], ["shell"], ["changes", "--since", "0"]],
)
def test_an_output_that_takes_no_more_ends_in_a_sentence(
    hosts: str, run: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "data").write_bytes(bytes(100_000))
    if run("-s", hosts, "stat", "/large"):
        assert run("-s", hosts, "create", "/large", "--file", tmp_path / "data") == 0
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*ZAB, "-s", hosts, *words], input=b"ls /\n", stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr.splitlines()[-1] == b"zab: the output cannot be written: No space left on device"
    assert b"Traceback" not in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", True), (b"a\tb\n", True), ("é".encode(), True), (b"\0", False), (b"\x1b", False), (b"\xff", False)],
)
def test_what_is_text(data: bytes, expected: bool) -> None:
    assert is_text(data) is expected
