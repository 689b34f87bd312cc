"""The shell: from a pipe, at a terminal, and what it completes."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.cli.commands import Result, call, standard_input, started
from tests.client.running import KINDS_OF_LONGEST, running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.unfinished_line import IN_SHLEX, split_line
from zab.cli.znodes import completion
from zab.cli.znodes.completion import ShellCompleter
from zab.cli.znodes.discreet_history import is_secret, without_secrets
from zab.cli.znodes.options import resolved
from zab.cli.znodes.shell import report_events
from zab.cli.znodes.shell_commands import SESSION_COMMANDS, ZNODE_COMMANDS
from zab.cli.znodes.shell_session import Shell
from zab.client import AuthFailedError, SessionExpiredError, WatchEvent, WatchOverflowError, ZabError

ZAB = [sys.executable, "-m", "zab.cli.main"]


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """What a shell in this process makes of the lines of a pipe."""

    def typed(hosts: str, *lines: str, last: str = "") -> Result:
        with standard_input("".join(f"{line}\n" for line in lines) + last):
            return call(capsys, "-s", hosts, "shell")

    return typed


def piped(hosts: str, *lines: str) -> subprocess.CompletedProcess[str]:
    """The output of a shell in a process of its own."""
    script = "".join(f"{line}\n" for line in lines)
    return subprocess.run([*ZAB, "-s", hosts, "shell"], input=script, capture_output=True, text=True, check=False)


def test_commands_from_a_pipe_share_one_session(hosts: str) -> None:
    done = piped(
        hosts,
        "# an ephemeral lives as long as the shell",
        "create -e /pipe 'two words'",
        "",
        "getEphemerals",
        "get /pipe",
        "addauth digest bob:pw",
        "whoami",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Created /pipe\n[/pipe]\ntwo words\nAuth scheme: User\ndigest: bob\nip: 127.0.0.1\n"
    assert piped(hosts, "get /pipe").returncode == 1


def test_a_last_line_without_its_end_runs_too(hosts: str, typed: Callable[..., Result]) -> None:
    assert typed(hosts, "version", last="version").out.count("zab ") == 2


def test_a_failure_does_not_end_the_shell_and_decides_its_code(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "get /none", "nonsense", "ls /zookeeper", "get", "get unescaped\\")
    assert done.code == 2
    assert done.out == "[config, quota]\n"
    assert "zab: NONODE /none" in done.err
    assert "zab: nonsense is no command of the shell; help lists them" in done.err
    assert "zab: No escaped character" in done.err
    assert typed(hosts, "get /none", "ls /").code == 1


def test_an_interrupt_ends_a_shell_without_a_terminal_and_closes_its_session(
    hosts: str, typed: Callable[..., Result]
) -> None:
    with started("-s", hosts, "shell") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("create -e /interrupted\n")
        process.stdin.flush()
        assert process.stdout.readline() == "Created /interrupted\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        assert "Traceback" not in process.stderr.read()
    assert "NONODE" in typed(hosts, "get /interrupted").err


def test_quit_ends_the_shell(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "quit", "ls /")
    assert (done.code, done.out) == (0, "")


def test_history_and_redo(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "ls /zookeeper", "redo 0", "redo 7", "history")
    assert done.out.startswith("[config, quota]\n[config, quota]\n0 - ls /zookeeper\n1 - redo 0\n")
    assert "there is no command 7" in done.err
    assert "there is no command 0" in typed(hosts, "redo 0").err


def test_watches_print_their_events(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(
        hosts,
        "create -e /watched 1",
        "get -w /watched",
        "set /watched 2",
        "set /watched 3",
        "addWatch -m PERSISTENT /watched",
        "printwatches",
        "set /watched 4",
        "set /watched 5",
        "removewatches /watched",
        "set /watched 6",
        "addWatch -m NONSENSE /watched",
        "printwatches off",
        "addWatch /watched",
        "set /watched 7",
    )
    events = re.findall(r"type:(\w+) path:(\S+)", done.out)
    assert events == [("NodeDataChanged", "/watched")] * 3 + [("PersistentWatchRemoved", "/watched")]
    assert "printwatches is on" in done.out
    assert "NONSENSE is neither" in done.err


def test_a_command_goes_on_in_the_next_line_while_a_quote_is_open(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "create -e /lines 'one", "# two", "'", "get /lines", "history")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Created /lines\none\n# two\n\n0 - create -e /lines 'one\n")
    done = typed(hosts, "version", "set /lines 'never", "closed")
    assert done.code == 2
    assert done.err == "zab: No closing quotation: set /lines 'never\n"


@pytest.mark.parametrize(
    ("words", "usage", "option"),
    [
        ("get", "get [OPTIONS]", "--base64"),
        ("getAcl", "acl get [OPTIONS]", "--stat"),
        ("acl set", "acl set [OPTIONS]", "--recursive"),
        ("deleteall", "delete [OPTIONS]", "--recursive"),
        ("removewatches", "removewatches [OPTIONS]", "-l"),
    ],
)
def test_help_of_one_command(hosts: str, typed: Callable[..., Result], words: str, usage: str, option: str) -> None:
    done = typed(hosts, f"help {words}")
    assert (done.code, done.err) == (0, "")
    assert usage in done.out
    assert option in done.out


def test_help_of_what_is_no_command_is_2(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "help nonsense", "version")
    assert done.code == 2
    assert "zab: nonsense is no command of the shell; help lists them" in done.err
    assert done.out.startswith("zab ")


def test_help_names_every_command(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "help")
    assert all(re.search(rf"\b{name}\b", done.out) for name in {**ZNODE_COMMANDS, **SESSION_COMMANDS})


def test_no_server_is_3() -> None:
    done = subprocess.run(
        [*ZAB, "--wait", "0.2", "-s", "127.0.0.1:1", "shell"], input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 3


# Completion.

TREE = {"/": ["app", "apple", "zookeeper", "two words"], "/app": ["one", "two"], "/two words": ["it's", 'a"b\\c']}


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("", ["get", "getAcl", "ls"]),
        ("ge", ["get", "getAcl"]),
        ("get /a", ["/app", "/apple"]),
        ("get -s /app/", ["/app/one", "/app/two"]),
        ("get /app/t", ["/app/two"]),
        ("get /none/", []),
        ("set /app da", []),
        ("get /tw", ["'/two words'"]),
        ("get '/two w", ["'/two words'"]),
        ("get '/two words'/it", ["'/two words/it'\"'\"'s'"]),
        ("get /two\\ words/a", ["'/two words/a\"b\\c'"]),
        ('get "/two words/a\\"b', ["'/two words/a\"b\\c'"]),
        ("get '/two words' ", []),
    ],
)
def test_completion(text: str, completions: list[str]) -> None:
    completer = ShellCompleter(["get", "getAcl", "ls"], lambda path: TREE.get(path, []))
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    assert [completion.text.rstrip() for completion in found] == completions


@pytest.mark.parametrize("name", ["plain", "two words", "it's", 'a"b', "back\\slash", "$x", "#", "tab\there", " ", "é"])
@pytest.mark.parametrize("typed", ["get /", "get '/", 'get "/', "set -v 1 '/'"])
def test_a_completed_path_is_read_as_it_is(name: str, typed: str) -> None:
    [completion] = ShellCompleter([], lambda _path: [name]).get_completions(Document(typed), CompleteEvent())
    line = typed[: len(typed) + completion.start_position] + completion.text
    assert shlex.split(line)[-1] == f"/{name}"
    # And so are the ones below it.
    assert split_line(line + "/bel", IN_SHLEX)[1:] == (completion.text + "/bel", f"/{name}/bel")


def test_completion_of_a_huge_directory_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "COMPLETIONS_COUNT_MAX", 3)
    completer = ShellCompleter([], lambda _path: [str(number) for number in range(10)])
    assert len(list(completer.get_completions(Document("ls /"), CompleteEvent()))) == 3


# At a terminal.


WHERE = b"\x1b[6n"
"""Where is the cursor?"""


class Terminal:
    """A shell at a pseudo-terminal, which answers the one question that prompt_toolkit asks it."""

    def __init__(self, hosts: str, state: Path, command: Sequence[str] = ZAB) -> None:
        self.screen = b""
        self._heard = b""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update(ZAB_HOSTS=hosts, TERM="xterm", XDG_STATE_HOME=str(state))
            os.execv(sys.executable, [*command, "shell"])

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def read_until(self, text: bytes, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """What is on the screen up to `text` is taken off it."""
        deadline = time.monotonic() + patience_seconds
        while text not in self.screen:
            assert time.monotonic() < deadline, (text, self.screen)
            if select.select([self._descriptor], [], [], 0.1)[0]:
                data = os.read(self._descriptor, 65536)
                # A question may come in two pieces, and two of them in one.
                *questions, self._heard = (self._heard + data).split(WHERE)
                self.type(b"\x1b[1;1R" * len(questions))
                self.screen += data
        self.screen = self.screen.partition(text)[2]

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if select.select([self._descriptor], [], [], 0.1)[0]:
                try:
                    os.read(self._descriptor, 65536)
                except OSError:
                    break
        _, status = os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.slow
def test_a_session_at_a_terminal(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(hosts, tmp_path)
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"create /terminal here\r")
    terminal.read_until(b"Created /terminal")
    terminal.read_until(b"zab:/ 1>")
    terminal.type(b"get /term\t")
    terminal.read_until(b"/terminal")
    terminal.type(b"\r")
    terminal.read_until(b"here\r\n")
    # Ctrl-C ends the command that runs, and drops a line that is being typed.
    terminal.read_until(b"zab:/ 2>")
    terminal.type(b"watch /terminal\r")
    terminal.read_until(b"watching /terminal")
    terminal.type(b"\x03")
    terminal.read_until(b"zab: interrupted")
    terminal.read_until(b"zab:/ 3>")
    terminal.type(b"delete /terminal\x03")
    terminal.type(b"ls /zookeeper\r")
    terminal.read_until(b"[config, quota]")
    terminal.read_until(b"zab:/ 4>")
    terminal.type(b"\x04")
    assert terminal.end() == 0
    history = (tmp_path / "zab" / "history").read_text()
    assert "+create /terminal here" in history
    assert "delete" not in history
    assert piped(hosts, "get /terminal").stdout == "here\n"


@pytest.mark.slow
def test_a_command_in_two_lines_at_a_terminal(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(f"{hosts}/zookeeper", tmp_path)
    terminal.read_until(b"zab/zookeeper:/ 0>")
    terminal.type(b"\x04")
    assert terminal.end() == 0
    terminal = Terminal(hosts, tmp_path)
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"create -e '/two words' 'a\r")
    terminal.read_until(b"\x1b[0m>")
    terminal.type(b"b'\r")
    terminal.read_until(b"Created /two words")
    terminal.read_until(b"zab:/ 1>")
    terminal.type(b"get /two\t")
    terminal.read_until(b"'/two words'")
    terminal.type(b"\r")
    terminal.read_until(b"a\r\nb\r\n")
    terminal.read_until(b"zab:/ 2>")
    # Ctrl-C drops what was begun.
    terminal.type(b"ls 'begun\r")
    terminal.read_until(b"\x1b[0m>")
    terminal.type(b"\x03")
    terminal.read_until(b"zab:/ 2>")
    terminal.type(b"\x04")
    assert terminal.end() == 0


SLOW_OUTPUT = """
import time
from prompt_toolkit.patch_stdout import StdoutProxy
from zab.cli.main import main

def slowly(self, loop, text, write=StdoutProxy._write_and_flush):
    time.sleep(0.5)
    write(self, loop, text)

StdoutProxy._write_and_flush = slowly
main()
"""
"""The shell where a thread that prints for others is late, as it may be on a machine with much to do."""


@pytest.mark.slow
def test_no_output_comes_behind_the_next_prompt(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(hosts, tmp_path, [sys.executable, "-c", SLOW_OUTPUT])
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"get /none\r")
    terminal.read_until(b"zab: NONODE")
    terminal.read_until(b"zab:/ 1>")
    terminal.type(b"\x04")
    assert terminal.end() == 0


@pytest.mark.slow
def test_an_event_is_printed_above_the_prompt(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(hosts, tmp_path)
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"addWatch /above\r")
    terminal.read_until(b"zab:/ 1>")
    terminal.type(b"half a li")
    terminal.read_until(b"half a li")
    assert piped(hosts, "create /above").returncode == 0
    terminal.read_until(b"path:/above")
    # The line that was begun is there again.
    terminal.read_until(b"zab:/ 1> half a li")
    terminal.type(b"\x03\x04")
    assert terminal.end() == 0


# Where one is, and with whom.


def test_relative_paths_in_all_commands(hosts: str, typed: Callable[..., Result], tmp_path: Path) -> None:
    root = f"/{tmp_path.name}"
    done = typed(
        hosts,
        f"create -p {root}/a/b",
        f"cd {root}",
        "pwd",
        "create c data",
        "get ./c",
        "set a/b more",
        "cd a",
        "get b",
        "ls",
        "ls ..",
        "get ../../" + tmp_path.name + "/c",
        "create -s -e n-",
        "ls -R",
        "cp b ../copy",
        "tree ..",
        "setAcl b world:anyone:cdrwa",
        "stat b/../nothing",
        "cd ../none",
        "pwd",
        "cd ../..",
        "pwd",
        "cd ..",
        "pwd",
        f"cd {root}/a/",
        "cd",
        "pwd",
    )
    first, second = done.err.splitlines()
    assert first.startswith(f"zab: NONODE {root}/a/nothing: ")
    assert second.startswith(f"zab: NONODE {root}/none: ")
    assert done.out.startswith(
        f"Created {root}/a/b\n"
        f"{root}\n"
        f"Created {root}/c\n"
        "data\n"
        "more\n"
        "[b]\n"
        "[a, c]\n"
        "data\n"
        f"Created {root}/a/n-0000000001\n"
        f"{root}/a\n{root}/a/b\n{root}/a/n-0000000001\n"
        f"1 znode at {root}/copy\n"
        f"{root}\n├── a\n│   ├── b\n│   └── n-0000000001  ephemeral of 0x"
    )
    assert done.out.endswith(f"{root}/a\n/\n/\n/\n")


@pytest.mark.parametrize(
    ("place", "path", "found"),
    [
        ("/", "a", "/a"),
        ("/a", "b", "/a/b"),
        ("/a", "/b", "/b"),
        ("/a", ".", "/a"),
        ("/a", "..", "/"),
        ("/a", "../../..", "/"),
        ("/a/b", "../c/./d", "/a/c/d"),
        ("/a", "b/", "/a/b/"),
        ("/a", "../", "/"),
        ("/a", "", "/a"),
        ("/a", "/b/../c", "/b/../c"),
    ],
)
def test_relative_paths(place: str, path: str, found: str) -> None:
    assert resolved(place, path) == found


def test_another_session_and_none(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(
        hosts,
        "create -e /first",
        "cd /zookeeper",
        "addauth digest bob:pw",
        f"connect {hosts}/zookeeper",
        "pwd",
        "ls",
        "whoami",
        "close",
        "ls",
        "addWatch /x",
        "pwd",
        "close",
        f"connect {hosts}",
        "ls /zookeeper",
        "get /first",
        "connect 127.0.0.1:1",
        "ls",
        "connect host:nonsense",
        f"connect {hosts}",
        "connect",
        "ls /zookeeper",
        "addWatch /second",
        "create -e /second",
    )
    assert done.code == 3
    assert done.out.startswith(
        "Created /first\n/\n[config, quota]\nAuth scheme: User\nip: 127.0.0.1\n/\n[config, quota]\n[config, quota]\n"
    )
    assert "type:NodeCreated path:/second" in done.out
    said = done.err.splitlines()
    none = "zab: CONNECTIONLOSS: there is no session; connect begins one"
    assert said[:2] == [none, none]
    assert said[2].startswith("zab: NONODE /first")
    assert said[3].startswith("zab: CONNECTIONLOSS: ")
    assert "127.0.0.1:1" in said[3]
    assert said[4] == none
    assert said[5].startswith("zab: ")
    assert len(said) == 6


def test_a_session_that_is_left_is_closed(hosts: str, tmp_path: Path) -> None:
    """Its ephemerals go with it, at once."""
    path = f"/{tmp_path.name}"
    with started("-s", hosts, "shell") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"create -e {path}\nclose\nversion\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"Created {path}\n"
        assert process.stdout.readline().startswith("zab ")
        assert piped(hosts, f"get {path}").returncode == 1
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("get a", ["app", "apple"]),
        ("get ", ["app", "apple", "zookeeper", "'two words'"]),
        ("ls -s app/", ["app/one", "app/two"]),
        ("get ./app/t", ["./app/two"]),
        ("get ../ap", ["../app", "../apple"]),
        ("get 'two words'/it", ["'two words/it'\"'\"'s'"]),
        ("set app t", []),
        ("cp app/one app/", ["app/one", "app/two"]),
        ("get -a", []),
    ],
)
def test_completion_of_relative_paths(text: str, completions: list[str]) -> None:
    completer = ShellCompleter(["get"], lambda path: TREE.get(path, []), lambda: "/")
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    assert [completion.text for completion in found] == completions


def test_completion_goes_from_where_one_is() -> None:
    completer = ShellCompleter(["get"], lambda path: TREE.get(path, []), lambda: "/app")
    assert [each.text for each in completer.get_completions(Document("get o"), CompleteEvent())] == ["one"]
    assert [each.text for each in completer.get_completions(Document("get /app/o"), CompleteEvent())] == ["/app/one"]


def test_cd_has_a_time_of_its_own(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "cd --timeout 30 /zookeeper", "pwd")
    assert (done.code, done.out) == (0, "/zookeeper\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (WatchOverflowError("too many"), "zab: no more events are printed: too many; connect begins another session"),
        (AuthFailedError(), None),
        (SessionExpiredError(), None),
    ],
)
async def test_the_shell_outlives_what_ends_its_watcher(error: ZabError, said: str | None) -> None:
    async def events() -> AsyncIterator[WatchEvent]:
        raise error
        yield

    heard: list[str] = []
    shell = cast("Shell", SimpleNamespace(events=events(), prints_events=True))
    await report_events(shell, lambda text, _file: heard.append(text))
    assert heard == ([] if said is None else [said])


# The history.


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        ("ls /", True),
        ("get /author", True),
        ("addauth digest bob:pw", False),
        ("'addauth' digest bob:pw", False),
        (" set /a x", False),
        ("zab --auth digest:bob:pw ls", False),
        ("set /db/password x", False),
        ("create /a '{\"Secret\": 1}'", False),
        ("add'auth' digest bob:pw", False),
        ("a\\ddauth digest bob:pw", False),
        ('pass"word"', False),
        ("-- addauth digest bob:pw", False),
        ("ls /\naddauth digest bob:pw", False),
        ("ls /\n set /a x", False),
        ("ls /\nls /a\n", True),
    ],
)
def test_what_the_history_keeps(line: str, is_kept: bool) -> None:
    assert is_secret(line) != is_kept


def test_the_history_that_is_printed_has_no_credentials(hosts: str, typed: Callable[..., Result]) -> None:
    done = typed(hosts, "addauth digest bob:pw", "redo 0", "whoami", "history")
    assert "digest: bob" in done.out
    assert "0 - addauth digest …\n" in done.out
    assert "bob:pw" not in done.out


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("addauth digest bob:pw", "addauth digest …"),
        ("-- add'auth' \"digest\" 'bob:pw'", "addauth digest …"),
        ("addauth bob:pw", "addauth …"),
        ("get /addauth 'x'", "get /addauth 'x'"),
    ],
)
def test_what_is_printed_of_the_history(command: str, printed: str) -> None:
    assert without_secrets(command) == printed


@pytest.mark.slow
def test_what_is_pasted_is_run_line_by_line(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(hosts, tmp_path)
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"\x1b[200~cd /zookeeper\nls '/zookeeper\n'\naddauth digest bob:opensesame\x1b[201~\r")
    terminal.read_until(b"zab: BADARGUMENTS")
    terminal.read_until(b"zab:/zookeeper 3>")
    terminal.type(b"quit\r")
    assert terminal.end() == 0
    assert "sesame" not in (tmp_path / "zab" / "history").read_text()


@pytest.mark.slow
def test_secrets_are_in_no_file(hosts: str, tmp_path: Path) -> None:
    terminal = Terminal(hosts, tmp_path)
    terminal.read_until(b"zab:/ 0>")
    terminal.type(b"addauth digest bob:opensesame\r")
    terminal.read_until(b"zab:/ 1>")
    terminal.type(b"addauth digest 'eve:open\r")
    terminal.read_until(b"\x1b[0m>")
    terminal.type(b"sesame'\r")
    terminal.read_until(b"zab:/ 2>")
    terminal.type(b"cd /zookeeper\r")
    terminal.read_until(b"zab:/zookeeper 3>")
    terminal.type(b"get co\t")
    terminal.read_until(b"config")
    terminal.type(b"\r")
    terminal.read_until(b"zab:/zookeeper 4>")
    terminal.type(b"close\r")
    terminal.read_until(b"zab(closed):/zookeeper 5>")
    terminal.type(b"\x04")
    assert terminal.end() == 0
    history = (tmp_path / "zab" / "history").read_text()
    assert "+cd /zookeeper" in history
    assert "sesame" not in history
    assert (tmp_path / "zab" / "history").stat().st_mode & 0o077 == 0
