"""`zab edit`: what the editor is given, what is set, and that no text is lost."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, run, started
from tests.client.running import KINDS_OF_LONGEST, running
from tests.rigs.waiting import PATIENCE_SECONDS

__all__ = ["run"]


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


@pytest.fixture
def path(hosts: str, run: Run, tmp_path: Path) -> str:
    path = f"/{tmp_path.name}"
    assert run("-s", hosts, "create", path, "before") == 0
    return path


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The editor is a program of these lines, which has the file as `file`; it keeps what it saw in `seen`."""
    (tmp_path / "texts").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "texts"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("VISUAL", raising=False)

    def use(lines: str) -> None:
        program = tmp_path / "an editor"
        seen = tmp_path / "seen"
        program.write_text(
            f"#!{sys.executable}\nimport sys, os, pathlib\nfile = pathlib.Path(sys.argv[-1])\n"
            f"pathlib.Path({str(seen)!r}).write_bytes(file.read_bytes())\n{lines}\n"
        )
        program.chmod(0o700)
        monkeypatch.setenv("EDITOR", f"'{program}' --option")

    return use


def texts(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "texts").iterdir())


def data(run: Run, hosts: str, path: str) -> str:
    assert run("-s", hosts, "get", "--raw", path) == 0
    return run.out


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        ("before", "after", "after"),
        ("before", "after\\n", "after"),
        ("before", "after\\n\\n", "after\n"),
        ("before\n", "after\\n", "after\n"),
        ("before\n", "after", "after"),
        ("", "café\\n", "café"),
        ("before", "", ""),
    ],
)
def test_the_data_is_set(
    hosts: str,
    run: Run,
    path: str,
    editor: Callable[[str], None],
    tmp_path: Path,
    before: str,
    written: str,
    after: str,
) -> None:
    assert run("-s", hosts, "set", path, before) == 0
    editor(f'file.write_text("{written}")')
    assert run("-s", hosts, "edit", path) == 0
    assert (tmp_path / "seen").read_text() == before
    assert data(run, hosts, path) == after
    assert texts(tmp_path) == []


@pytest.mark.parametrize("lines", ["", 'file.write_text(file.read_text() + "\\n")'])
def test_what_is_not_changed_is_not_set(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], tmp_path: Path, lines: str
) -> None:
    editor(lines)
    assert run("-s", hosts, "edit", path) == 0
    assert run.err == "zab: nothing is changed\n"
    assert run("-s", hosts, "stat", path) == 0
    assert "dataVersion = 0\n" in run.out
    assert texts(tmp_path) == []


@pytest.mark.parametrize(("name", "suffix"), [("app.json", ".json"), ("app", ".txt"), ("app.a b", ".txt")])
def test_the_file_ends_as_the_name_does(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], name: str, suffix: str
) -> None:
    editor("file.write_text(file.suffix)")
    assert run("-s", hosts, "create", f"{path}/{name}", "before") == 0
    assert run("-s", hosts, "edit", f"{path}/{name}") == 0
    assert data(run, hosts, f"{path}/{name}") == suffix


def test_an_editor_may_put_another_file_in_the_place(
    hosts: str, run: Run, path: str, editor: Callable[[str], None]
) -> None:
    editor('file.with_suffix(".new").write_text("after"); os.replace(file.with_suffix(".new"), file)')
    assert run("-s", hosts, "edit", path) == 0
    assert data(run, hosts, path) == "after"


def test_somebody_elses_change_is_kept_and_so_is_the_text(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], tmp_path: Path
) -> None:
    zab = [sys.executable, "-m", "zab.cli.main", "-s", hosts, "set", path, "by another"]
    editor(f'file.write_text("mine")\nimport subprocess\nsubprocess.run({zab!r}, check=True)')
    assert run("-s", hosts, "edit", path) == 1
    [kept] = texts(tmp_path)
    assert run.err == (f"zab: BADVERSION {path}: somebody else has changed it meanwhile\nzab: your text is in {kept}\n")
    assert kept.read_text() == "mine"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert data(run, hosts, path) == "by another"


@pytest.mark.parametrize(
    ("lines", "said", "is_kept"),
    [
        ("sys.exit(3)", "ended with 3: nothing is set", False),
        ('file.write_text("mine"); sys.exit(3)', "ended with 3: nothing is set", True),
        ('file.write_bytes(b"x" * 3000)', "BADARGUMENTS", True),
        ('file.write_bytes(b"x" * 5000)', "it is larger than any request; nothing is set", True),
        ("file.unlink()", "it cannot be read: No such file or directory; nothing is set", False),
    ],
)
def test_what_goes_wrong_sets_nothing(
    hosts: str,
    run: Run,
    path: str,
    editor: Callable[[str], None],
    tmp_path: Path,
    lines: str,
    said: str,
    is_kept: bool,
) -> None:
    editor(lines)
    assert run("--jute-maxbuffer", "1000", "-s", hosts, "edit", path) == 1
    assert said in run.err
    assert (f"zab: your text is in {tmp_path}" in run.err) == is_kept == bool(texts(tmp_path))
    assert data(run, hosts, path) == "before"


def test_an_editor_that_is_none(hosts: str, run: Run, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/none/editor")
    assert run("-s", hosts, "edit", path) == 1
    assert run.err == "zab: the editor /none/editor cannot be run: No such file or directory; $EDITOR names another\n"
    monkeypatch.setenv("VISUAL", "'")
    assert run("-s", hosts, "edit", path) == 2


def test_line_ends_of_windows_are_text(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], tmp_path: Path
) -> None:
    assert run("-s", hosts, "set", "-b", path, "YQ0KYg0K") == 0
    editor('file.write_bytes(file.read_bytes() + b"c\\r\\n")')
    assert run("-s", hosts, "edit", path) == 0
    assert (tmp_path / "seen").read_bytes() == b"a\r\nb\r\n"
    assert run("-s", hosts, "get", "--json", path) == 0
    assert json.loads(run.out)["data"] == "a\r\nb\r\nc\r\n"


def test_bytes_are_edited_as_digits(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], tmp_path: Path
) -> None:
    assert run("-s", hosts, "set", "-b", path, "AP8=") == 0
    editor('file.write_text(file.read_text() + "0a0B\\n")')
    assert run("-s", hosts, "edit", path) == 1
    assert run.err == f"zab: {path}: its data is no text; --hex edits it as hexadecimal digits\n"
    assert run("-s", hosts, "edit", "--hex", path) == 0
    assert (tmp_path / "seen").read_text() == "00 ff\n"
    assert run("-s", hosts, "get", "-x", path) == 0
    assert run.out == "00 ff 0a 0b\n"
    editor('file.write_text("0x")')
    assert run("-s", hosts, "edit", "--hex", path) == 1
    assert "these are no hexadecimal digits" in run.err
    assert [text.read_text() for text in texts(tmp_path)] == ["0x"]


def test_what_is_not_there_is_refused(hosts: str, run: Run, editor: Callable[[str], None], tmp_path: Path) -> None:
    editor("")
    assert run("-s", hosts, "edit", "/none") == 1
    assert not (tmp_path / "seen").exists()


def test_an_interrupt_is_for_the_editor(
    hosts: str, run: Run, path: str, editor: Callable[[str], None], tmp_path: Path
) -> None:
    """Which may do with it what it wants: here it ends by it, as it would have without us."""
    editor('file.write_text("mine")\nprint("ready", flush=True)\nsys.stdin.readline()\nos.kill(os.getpid(), 2)')
    with started("-s", hosts, "edit", path) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate("\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    [kept] = texts(tmp_path)
    assert err.splitlines()[-2].endswith("ended with -2: nothing is set") or "ended with 1" in err
    assert err.endswith(f"zab: your text is in {kept}\n")
    assert data(run, hosts, path) == "before"


def test_in_the_shell(hosts: str, path: str, editor: Callable[[str], None]) -> None:
    editor('file.write_text("after")')
    done = subprocess.run(
        [sys.executable, "-m", "zab.cli.main", "-s", hosts, "shell"],
        input=f"edit {path}\nget {path}\nedit /none\n",
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert (done.stdout, done.returncode) == ("after\n", 1)


def test_without_a_terminal_and_an_editor_vi_is_not_started(
    hosts: str, run: Run, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    assert run("-s", hosts, "edit", path) == 2
    assert "vi needs a terminal: set $EDITOR to an editor" in run.err
    assert data(run, hosts, path) == "before"
