"""What docs/how-to/follow-changes.md shows is what happens: its commands and programs are run, in order, against one
ensemble with bookies."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from datatree.opcodes import OpCode
from datatree.txn_changes import ACL_CHANGED, CREATED, DATA_CHANGED, DELETED, WHOLE
from zab.jute.change_pages import PageStatus
from zab.jute.framing import CHANGES_XID_MAX
from zab.testing import Bookies

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "follow-changes.md").read_text(encoding="utf-8")
HOSTS = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with Bookies(3, members=3) as bookies:
        yield bookies.ensemble.hosts


def blocks() -> list[tuple[str, str]]:
    """(language, text) of all blocks."""
    return re.findall(r"```(console|python)\n(.*?)```", PAGE, re.S)


def run(command: list[str] | str, hosts: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ZAB_HOSTS": hosts, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_commands_and_programs_do_what_the_page_says(hosts: str) -> None:
    printed = []
    for language, text in blocks():
        if language == "python":
            assert HOSTS in text
            printed.append(run([sys.executable, "-c", text.replace(HOSTS, hosts)], hosts))
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", text, re.M):
            pattern = ".*".join(map(re.escape, expected.split("…")))
            assert re.fullmatch(pattern, run(command, hosts)), command
    assert printed == [
        "CREATED /app b'hello'\nDATA_CHANGED /app b'world'\n",
        "{'/app': b'world', '/app/a': b'2'}\n",
        "CREATED /app b'hello'\nDATA_CHANGED /app b'world'\nCREATED /app/a b'1'\nDATA_CHANGED /app/a b'2'\n",
    ]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"opcode 4 ({int(OpCode.GET_CHANGES)})" in PAGE
    assert f"{-CHANGES_XID_MAX} or below" in PAGE
    assert WHOLE == 2**31 - 1
    kinds = f"{CREATED} CREATED, {DELETED} DELETED, {DATA_CHANGED} DATA_CHANGED, {ACL_CHANGED} ACL_CHANGED"
    assert kinds in PAGE
    assert [int(status) for status in PageStatus] == [0, 1, 2, 3]
