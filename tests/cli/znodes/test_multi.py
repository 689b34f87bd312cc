"""`zab multi`: lines as one transaction, and which of them is wrong."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, run, standard_input, started
from tests.client.running import KINDS_OF_LONGEST, running
from zab.cli.znodes import multi

__all__ = ["run"]


@pytest.fixture(scope="module", params=KINDS_OF_LONGEST)
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, 1, {}) as servers:
        yield servers.hosts


def does(run: Run, hosts: str, text: str, *words: str) -> int:
    with standard_input(text):
        return run("-s", hosts, "multi", *words)


def test_all_of_it_is_done_at_once(hosts: str, run: Run, tmp_path: Path) -> None:
    text = """
    # a comment, and two lines that belong together
    create /all 'one
two'
    check -v 0 /all
    set /all "new data" -v 0
    create -s /all/n- -5
    create -t 600000 /all/ttl
    create -b /all/bytes /w== world:anyone:r
    create /gone
    delete /gone -v 0
    set -- /all/ttl -x
"""
    (tmp_path / "file").write_text(text)
    assert run("-s", hosts, "multi", tmp_path / "file") == 0, run.err
    assert run.out.splitlines() == [
        "Created /all",
        "Created /all/n-0000000000",
        "Created /all/ttl",
        "Created /all/bytes",
        "Created /gone",
    ]
    for path, data in (("/all", "new data"), ("/all/n-0000000000", "-5"), ("/all/ttl", "-x")):
        assert run("-s", hosts, "get", path) == 0
        assert run.out == f"{data}\n"
    assert run("-s", hosts, "getAcl", "/all/bytes") == 0
    assert run.out.endswith(": r\n")
    assert run("-s", hosts, "stat", "/gone") == 1


def test_what_each_line_did_as_json(hosts: str, run: Run) -> None:
    assert does(run, hosts, "\ncreate /json\n\nset /json x\ncheck /json\ndelete /json", "-", "--json") == 0
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert [(line["line"], line["operation"], line["path"]) for line in lines] == [
        (2, "create", "/json"),
        (4, "set", "/json"),
        (5, "check", "/json"),
        (6, "delete", "/json"),
    ]
    assert [line["stat"] and line["stat"]["version"] for line in lines] == [None, 1, None, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("create /r1\n\n# x\nset /r1 y -v 3\n", "line 4: BADVERSION /r1: "),
        ("create /r2 '\n\n'\ndelete /none\n", "line 4: NONODE /none: "),
        ("create /r3\ncheck /r3 -v 1", "line 2: BADVERSION /r3: "),
        ("create /r4\ncreate r5", "line 2: BADARGUMENTS r5: "),
        ("create /r5\ncreate -t 1 -e /r6", "line 2: BADARGUMENTS /r6: "),
        ("create /r6\ncreate /zookeeper", "line 2: NODEEXISTS /zookeeper: "),
    ],
)
def test_a_refusal_names_its_line_and_nothing_is_done(hosts: str, run: Run, text: str, said: str) -> None:
    assert does(run, hosts, text) == 1
    assert run.err.startswith(f"zab: {said}")
    assert run.out == ""
    assert run("-s", hosts, "stat", text.split()[1]) == 1


def said_by(run: Run) -> str:
    """What is in the frame of a wrong usage."""
    return " ".join(run.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no operation in it"),
        ("# nothing\n", "there is no operation in it"),
        ("create /a\nget /a", "line 2: 'get' is none of create, set, delete, check"),
        ("create", "line 1: create: the following arguments are required: path"),
        ("set /a", "line 1: set: the following arguments are required: data"),
        ("delete /a -v x", "line 1: delete: argument -v/--version: invalid int value: 'x'"),
        ("delete /a more", "line 1: delete: unrecognized arguments: more"),
        ("set -b /a %", "line 1: set: its data is no base64"),
        ("create /a x y", "line 1: 'y' is not scheme:id:permissions"),
        ("\ncreate 'a\n\n", "line 2: No closing quotation"),
        ("create a\\", "line 1: No escaped character"),
        ("create --eph /a", "line 1: create: unrecognized arguments: --eph"),
    ],
)
def test_a_line_that_cannot_be_read_is_2(run: Run, text: str, said: str) -> None:
    with standard_input(text):
        assert run("multi") == 2
    assert said in said_by(run)


def test_a_file_that_cannot_be_read_is_2(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("multi", tmp_path / "none") == 2
    monkeypatch.setattr(multi, "INPUT_BYTES_MAX", 10)
    (tmp_path / "file").write_text("create /long")
    monkeypatch.chdir(tmp_path)
    assert run("multi", "file") == 2
    assert "it is larger than 10 bytes" in said_by(run)


def test_the_shell_keeps_its_own_lines(hosts: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("create /shell\ndelete /shell\n")
    with started("-s", hosts, "shell") as process:
        out, err = process.communicate(f"multi {tmp_path / 'file'}\nmulti\nversion\n", timeout=60)
    assert out.startswith("Created /shell\nzab ")
    assert "in the shell, name a FILE" in err
