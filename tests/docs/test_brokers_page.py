"""The pages about brokers: each command and each program is run, in order, and prints what its page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_reader import BLOCK, PAGES, Reader
from tests.docs.page_steps import steps

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path)
    yield one
    one.end()


@pytest.mark.parametrize(
    ("page", "counts"),
    [
        pytest.param("how-to/run-brokers.md", (7, 5, 2), marks=pytest.mark.longest),
        ("how-to/secure-brokers.md", (5, 3, 1)),
        ("reference/broker-metrics.md", (1, 0, 0)),
    ],
)
def test_the_commands_and_programs_print_what_the_page_says(reader: Reader, page: str, counts: tuple[int, ...]) -> None:
    done = []
    for kind, text, expected in BLOCK.findall((PAGES / page).read_text(encoding="utf-8")):
        done.append(kind)
        if kind == "properties":
            (reader.directory / "server.properties").write_text(reader.here(text))
        elif kind == "python":
            assert reader.run(text) == expected
        else:
            for command, shown in steps(f"```console\n{text}```"):
                printed = reader.do(command)
                pattern = ".*".join(map(re.escape, reader.here(shown).split("…")))
                assert re.fullmatch(pattern, printed, re.S), (command, printed)
    assert (done.count("console"), done.count("python"), done.count("properties")) == counts
