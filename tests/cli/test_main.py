"""The table of commands, and what is checked before any of them runs."""

import subprocess
import sys
from pathlib import Path

import pytest

import zab
from zab.cli.commands import ALIASES, COMMANDS, TAKES_DATA
from zab.cli.main import main
from zab.cli.rendering import event_block, stat_text
from zab.client import EventType, Stat, State, WatchEvent
from zab.native import loaded
from zab.service.version import VERSION


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_begins_with_its_one_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    summary = COMMANDS[name].summary
    assert text.count(summary) == 1
    usage, first = [line.strip() for line in text.splitlines() if line.strip()][:2]
    assert usage.startswith(f"Usage: zab {name} ")
    assert first.startswith(summary)


def test_aliases_and_what_takes_data_name_commands() -> None:
    assert {words[0] for words in ALIASES.values()} <= COMMANDS.keys()
    assert COMMANDS.keys() | ALIASES.keys() >= TAKES_DATA


LIGHT = {
    *("zab", "zab.cli", "zab.cli.main", "zab.cli.arguments", "zab.cli.commands", "zab.cli.exits"),
    *("zab.cli.connection_options", "zab.cli.flags", "zab.cli.plain_values"),
    *("zab.cli.data_command", "zab.cli.time_limit", "zab.cli.terminal", "zab.host"),
    *("zab.host.process", "zab.host.process.refusal"),
    *("zab.wire", "zab.wire.visible"),
}
"""What `zab --help` loads of this project."""


def test_help_loads_neither_trio_nor_servers_nor_spark() -> None:
    code = (
        "import sys\nfrom zab.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit as ending: assert not ending.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert {name for name in loaded if name.partition(".")[0] in ("zab", "datatree", "session")} == LIGHT
    assert not loaded & {"trio", "prompt_toolkit", "pyspark", "pyarrow", "numpy"}
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("words", [["nonsense"], ["get"], ["get", "/a", "/b"], ["get", "--nonsense", "/a"]])
def test_wrong_usage_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(words)
    assert ending.value.code == 2
    assert capsys.readouterr().out == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])
    assert not ending.value.code
    assert capsys.readouterr().out == f"zab {VERSION}, native: {loaded()}\n"


def test_as_a_module_it_is_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "zab", "--version"], capture_output=True, text=True, check=False)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert (done.returncode, done.stdout, done.stderr) == (0, capsys.readouterr().out, "")
    wrong = subprocess.run([sys.executable, "-m", "zab", "nonsense"], capture_output=True, check=False)
    assert wrong.returncode == 2


def foreign(directory: Path, name: str, text: str) -> subprocess.CompletedProcess[str]:
    """Runs zab where somebody else's package comes first on the path."""
    (directory / name).mkdir()
    (directory / name / "__init__.py").write_text(text)
    code = f"import sys\nsys.path[:0] = [{str(directory)!r}]\nfrom zab.cli.main import main\nmain(['ls', '/'])"
    home = Path(zab.__file__).parent.parent
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=home)


@pytest.mark.parametrize("name", ["datatree", "session"])
def test_another_projects_package_is_named(tmp_path: Path, name: str) -> None:
    done = foreign(tmp_path, name, '"""Somebody else\'s."""\nraise ImportError("must not be imported")\n')
    assert done.returncode == 1
    assert f"{tmp_path / name} is not the package {name!r} of zab" in done.stderr
    assert "Traceback" not in done.stderr


def test_stat_has_the_lines_of_zookeepers_shell() -> None:
    stat = Stat(10, 11, 0, 0, 1, 2, 3, -1, 5, 6, 12)
    assert [line.partition(" = ")[0] for line in stat_text(stat).splitlines()] == [
        "cZxid",
        "ctime",
        "mZxid",
        "mtime",
        "pZxid",
        "cversion",
        "dataVersion",
        "aclVersion",
        "ephemeralOwner",
        "dataLength",
        "numChildren",
    ]
    assert "ephemeralOwner = 0xffffffffffffffff" in stat_text(stat)
    assert "pZxid = 0xc" in stat_text(stat)


def test_event_has_the_form_of_zookeepers_shell() -> None:
    event = WatchEvent(EventType.DATA_CHANGED, "/a", State.CONNECTED, 7)
    assert event_block(event) == (
        "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a zxid: 0x7"
    )
    assert event_block(event._replace(zxid=-1)).endswith(" zxid: -1")


@pytest.mark.parametrize("words", [("get",), ("ls",), ("topic", "list"), ("backup", "list")])
def test_flags_have_no_type_in_the_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    lines = [line for line in capsys.readouterr().out.splitlines() if " --json " in line]
    assert lines
    assert not [line for line in lines if "bool" in line.lower()]
