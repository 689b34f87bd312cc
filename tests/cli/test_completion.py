"""`zab completion`: what shells are told, and that nobody's name of a znode is ever run by one of them."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.cli.commands import Run, run, standard_input
from tests.client.running import running
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.commands import COMMANDS
from zab.cli.completion import LINE_VARIABLE, SHELL_VARIABLE, candidates
from zab.cli.main import main
from zab.cli.unfinished_line import IN_SHELLS, split_line
from zab.client import connect

__all__ = ["run"]

NAMES = [
    "$(touch run)",
    "`touch run`",
    "a b",
    "back\\slash",
    "colon:=x",
    'double"',
    "exclamation!",
    "it's",
    "pla*n",
    "é;&|",
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    async def fill(hosts: str) -> None:
        async with connect(hosts) as zk:
            for path in ("/app", "/app/one", "/app/two", "/odd"):
                await zk.create(path)
            for name in NAMES:
                await zk.create(f"/odd/{name}")

    with running("zab", 1, {}) as servers:
        trio.run(fill, servers.hosts)
        yield servers.hosts


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {**kept, "PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


Asked = Callable[..., list[str]]


@pytest.fixture
def asked(environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    """The candidates for a line, from `zab` in this process. Nothing is said beside them."""

    def ask(line: str, shell: str = "zsh", said: str = "", **more: str) -> list[str]:
        with pytest.MonkeyPatch.context() as patch, standard_input(said):
            patch.chdir(tmp_path)
            for name in os.environ.keys() | {"COMP_WORDS", "COMP_CWORD"}:
                patch.setenv(name, "")
                patch.delenv(name)
            for name, value in {**environment, SHELL_VARIABLE: shell, LINE_VARIABLE: line, **more}.items():
                patch.setenv(name, value)
            main()
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out.splitlines()

    return ask


def test_commands_and_options(asked: Asked) -> None:
    assert set(asked("zab ")) == COMMANDS.keys()
    assert asked("zab ge") == ["get"]
    assert asked("zab acl ") == ["get", "set"]
    assert asked("zab get --j") == ["--json"]
    assert asked("zab --prof") == ["--profile"]
    assert asked("zab completion ") == ["bash", "zsh", "fish"]
    assert set(asked("zab --version ")) == COMMANDS.keys(), "it is not said here"
    assert asked("zab restore ") == [], "names of files, which the shell completes"


@pytest.mark.parametrize(
    "line",
    ["zab get /app/", "zab acl get --json /app/", "zab getAcl /app/", "zab --wait 1 ls -R '/app/", "zab stat /app/"],
)
def test_paths_of_the_live_tree(asked: Asked, hosts: str, line: str) -> None:
    assert asked(line, ZAB_HOSTS=hosts) == ["/app/one", "/app/two"]
    assert asked(line + "t", ZAB_HOSTS=hosts) == ["/app/two"]


def test_the_servers_are_those_that_the_line_names(asked: Asked, hosts: str, tmp_path: Path) -> None:
    assert asked(f"zab get -s {hosts} /ap") == ["/app"]
    assert asked(f"zab -s {hosts}/app get /") == ["/one", "/two"]
    file = tmp_path / "config.toml"
    file.write_text(f'[profiles.here]\nhosts = "{hosts}"\n')
    assert asked(f"zab --config {file} --profile here get /ap") == ["/app"]


def test_it_is_silent_where_there_is_nothing(asked: Asked, hosts: str, tmp_path: Path) -> None:
    """The word itself is all there is then: a file of this machine is never meant."""
    assert asked("zab -s 127.0.0.1:1 get /a") == ["/a"]
    assert asked(f"zab -s {hosts} get /none/a") == ["/none/a"]
    assert asked("zab -s nonsense: get /a") == ["/a"]
    assert asked(f"zab -s {hosts} --sasl-user alice get /a", said="password\n") == ["/a"]
    assert asked(f"zab -s {hosts} --auth - get /ap", said="nonsense\n") == ["/app"], "nothing is read"
    (tmp_path / "config.toml").write_text("nonsense")
    # Something may listen at the default port, but has no znode of this name.
    assert asked(f"zab --config {tmp_path / 'config.toml'} get /{tmp_path.name}") in ([], [f"/{tmp_path.name}"])


def test_a_server_that_says_nothing_is_not_waited_for(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert asked(f"zab -s 127.0.0.1:{listening.getsockname()[1]} get /a") == ["/a"]


def test_a_name_for_bash_is_one_word_and_runs_nothing(
    asked: Asked, hosts: str, environment: dict[str, str], tmp_path: Path
) -> None:
    found = asked("zab get /odd/", "bash", ZAB_HOSTS=hosts)
    assert len(found) == len(NAMES)
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {' '.join(found)}"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == sorted(f"/odd/{name}" for name in NAMES)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("'/odd/a", ["/odd/a b"]),
        ('"/odd/$', []),
        ("'/odd/$", ["/odd/$(touch run)"]),
        ("'/odd/it", []),
        ("/odd/colon:", ["=x"]),
        ("/odd/colon:=", ["x"]),
        ("/odd/a\\ ", ["/odd/a\\ b"]),
    ],
)
def test_a_word_that_was_begun_goes_on_as_it_is_quoted(
    asked: Asked, hosts: str, typed: str, expected: list[str]
) -> None:
    assert asked(f"zab get {typed}", "bash", ZAB_HOSTS=hosts) == expected


@pytest.mark.parametrize(
    ("line", "words", "typed", "word"),
    [
        ("zab get /a", ["zab", "get"], "/a", "/a"),
        ("zab  get ", ["zab", "get"], "", ""),
        ("zab get '/a b", ["zab", "get"], "'/a b", "/a b"),
        ('zab get "/a\\"b\\c', ["zab", "get"], '"/a\\"b\\c', '/a"b\\c'),
        ("zab get /a\\ b", ["zab", "get"], "/a\\ b", "/a b"),
        ("zab '' x", ["zab", ""], "x", "x"),
        ("zab 'a'\"b\"c d", ["zab", "abc"], "d", "d"),
        ("", [], "", ""),
    ],
)
def test_a_line_is_split_as_shells_do(line: str, words: list[str], typed: str, word: str) -> None:
    assert split_line(line, IN_SHELLS) == (words, typed, word)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_would_command_the_terminal_is_not_completed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["/\x1b[2J", "/\u202eevil", "/tab\tdescription", "/good"]
    monkeypatch.setattr("zab.cli.completion._ask_typer", lambda *_: names)
    assert candidates(shell, "zab get /", lambda _: None) == ["/good"]


# --------------------------------------------------------------------------------------------------------- real shells


def spoken(program: str, script: str, environment: dict[str, str], *words: str) -> list[str]:
    """What a script prints in a real shell, with zab's completion before it."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    done = subprocess.run(
        [program, *words, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=environment["HOME"],
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert not Path(environment["HOME"], "run").exists()
    return done.stdout.splitlines()


def in_bash(line: str) -> str:
    return f"""
source <(zab completion bash)
compopt() {{ :; }}
complete -p zab | grep -q -- '-F _zab_completion' || exit 1
COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
_zab_completion zab
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def in_zsh(line: str) -> str:
    return f"""
compdef() {{ : }}
compadd() {{ while [[ $1 != -- ]]; do shift; done; shift; print -rl -- "$@" }}
_files() {{ print FILES }}
source <(zab completion zsh)
words=({" ".join(map(shlex.quote, line.split(" ")))})
CURRENT=$#words
_zab_completion
"""


def in_fish(line: str) -> str:
    quoted = line.replace("\\", "\\\\").replace("'", "\\'")
    return f"zab completion fish | source\ncomplete --do-complete '{quoted}'"


SHELLS = [
    pytest.param("bash", ("--norc", "--noprofile"), in_bash, id="bash"),
    pytest.param("zsh", ("-f",), in_zsh, id="zsh"),
    pytest.param("fish", ("--no-config",), in_fish, id="fish"),
]


@pytest.mark.parametrize(("program", "words", "script"), SHELLS)
def test_a_real_shell_completes(
    hosts: str, environment: dict[str, str], program: str, words: tuple[str, ...], script: Callable[[str], str]
) -> None:
    environment["ZAB_HOSTS"] = hosts
    assert spoken(program, script("zab ge"), environment, *words) == ["get"]
    assert spoken(program, script("zab get --js"), environment, *words)[0].split("\t")[0] == "--json"
    assert spoken(program, script("zab get /app/"), environment, *words) == ["/app/one", "/app/two"]
    assert len(spoken(program, script("zab get /odd/"), environment, *words)) == len(NAMES)
    assert spoken(program, script("zab get /odd/a\\ "), environment, *words)[0].replace("\\", "") == "/odd/a b"


@pytest.mark.parametrize(("program", "words", "script"), SHELLS)
def test_a_real_shell_is_left_its_files(
    environment: dict[str, str], program: str, words: tuple[str, ...], script: Callable[[str], str]
) -> None:
    Path(environment["HOME"], "afile").touch()
    found = spoken(program, script("zab snapshot afi"), environment, *words)
    assert found == {"bash": [""], "zsh": ["FILES"], "fish": ["afile"]}[program]


def test_a_shell_that_is_not_known_is_refused(run: Run) -> None:
    assert run("completion", "csh") == 2
    assert run("completion") == 2
