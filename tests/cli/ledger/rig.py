"""`zab` commands for ledgers: on bookies in memory, or on any others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Result, call
from tests.cli.json_page import check
from tests.ledgers.memory_bookies import memory_bookies_beside
from tests.rigs.in_process import members_here


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    """With a chroot, and bookies."""
    with members_here(1) as members, memory_bookies_beside(members.hosts, 3) as found:
        yield found


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


class Zab:
    """`zab APP WORDS`, which has to end with this code. app: a command that has others, with its options."""

    def __init__(self, capture: pytest.CaptureFixture[str], hosts: str, *app: str) -> None:
        self._capture = capture
        self.hosts = hosts
        self._app = app

    def below(self, root: str) -> Zab:
        """With another root."""
        return Zab(self._capture, self.hosts, *self._app, "--root", root)

    def __call__(self, *words: object, code: int = 0) -> Result:
        result = call(self._capture, "-s", self.hosts, *self._app, *words)
        assert result.code == code, result.err
        return result

    def json(self, *words: object, code: int = 0) -> list[dict[str, Any]]:
        """Its lines, with the fields that the page says."""
        command, name = (*self._app[:1], *words)[:2]
        lines = [json.loads(line) for line in self(*words, "--json", code=code).out.splitlines()]
        for line in lines:
            check(f"{command} {name}", line)
        return lines
