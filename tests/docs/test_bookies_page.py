"""docs/how-to/run-bookies.md: each command is run, in order, and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_reader import BLOCK, PAGES, Reader
from tests.docs.page_steps import steps
from zab.cli.servers.local_ensemble import HTTP_OFFSET
from zab.testing.kit.ports import free_ports, free_ports_in_a_row

pytestmark = [pytest.mark.process, pytest.mark.long]

BOOKIES = 3
FOURTH = "/tmp/zab-fourth-bookie"


class BookieReader(Reader):
    """The bookies of the page have ports that are free here, and the fourth one a directory of the test."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        first = free_ports_in_a_row(BOOKIES, (0, HTTP_OFFSET))
        [fourth] = free_ports(1)
        self._bookie_ports = {
            **{str(3181 + at): str(first + at) for at in range(BOOKIES)},
            "3184": str(fourth),
            "4181": str(first + HTTP_OFFSET),
        }

    def here(self, text: str) -> str:
        text = text.replace(FOURTH, str(self.directory / "fourth"))
        return re.sub(r"\b(318[1-4]|4181)\b", lambda found: self._bookie_ports[found[1]], super().here(text))

    def others(self, command: str) -> str:
        return "--bookie-port 3181" if "--bookies" in command else ""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[BookieReader]:
    one = BookieReader(tmp_path)
    yield one
    one.end()


def test_the_commands_print_what_the_page_says(reader: BookieReader) -> None:
    done = []
    for kind, text, _ in BLOCK.findall((PAGES / "how-to" / "run-bookies.md").read_text(encoding="utf-8")):
        done.append(kind)
        if kind == "properties":
            (reader.directory / "bk_server.conf").write_text(reader.here(text))
            continue
        for command, shown in steps(f"```console\n{text}```"):
            printed = reader.do(command)
            pattern = ".*".join(map(re.escape, reader.here(shown).split("…")))
            assert re.fullmatch(pattern, printed, re.S), (command, printed)
    assert (done.count("console"), done.count("properties")) == (3, 2)
