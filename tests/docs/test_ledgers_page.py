"""docs/how-to/use-ledgers.md: each command and each program is run, in order, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_steps import steps
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.testing.bookies import Bookies

pytestmark = [pytest.mark.process, pytest.mark.long]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "use-ledgers.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python program\n(.*?)^```\n```\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(3) as running:
        yield running


def test_the_commands(bookies: Bookies) -> None:
    commands = steps(PAGE)
    assert len(commands) > 8
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ZAB_HOSTS": bookies.ensemble.hosts,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    for command, said in commands:
        done = subprocess.run(
            ["bash", "-c", command.replace("zab ", f"{sys.executable} -m zab.cli.main ")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (command, done.stdout, done.returncode) == (command, said, 0), done.stderr


@pytest.mark.parametrize(("code", "said"), PROGRAMS)
def test_a_program(bookies: Bookies, code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace("127.0.0.1:2181", bookies.ensemble.hosts), {})
    assert printed.getvalue() == said
