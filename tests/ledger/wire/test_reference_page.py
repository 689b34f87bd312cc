"""The tables of docs/reference/bookkeeper-wire.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from zab.ledger.wire import v2, v3_schema
from zab.ledger.wire.frames import FRAME_BYTES_MAX
from zab.ledger.wire.status import Status

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "bookkeeper-wire.md").read_text(encoding="utf-8")


def test_the_codes_of_every_status() -> None:
    found = re.findall(r"^\| E(\w+) \| (\d+) \| (\d+) \| (yes)? ?\|$", PAGE, re.M)
    expected = {
        (status.name.replace("_", ""), v2.CODE_OF[status], v3_schema.CODE_OF[status], status.proves_absence)
        for status in Status
        if status.is_of_a_wire
    }
    names = {"UA": "UNAUTHORIZED", "BADREQ": "BADREQUEST", "IO": "IOERROR"}
    assert {(names.get(name, name), int(two), int(three), bool(yes)) for name, two, three, yes in found} == expected


def test_the_numbers_of_every_operation() -> None:
    rows = PAGE.split("## Operations")[1].split("\n##")[0].splitlines()
    cells = [row.split("|")[2:4] for row in rows if row.startswith("| ")][1:]
    twos, threes = (
        {int(number) for each in column for number in re.findall(r"\d+", each)} for column in zip(*cells, strict=True)
    )
    assert twos == {v2.ADD, v2.READ, v2.BATCH_READ, v2.AUTH}
    assert threes == set(v3_schema.REQUEST_FIELD)


def test_the_limit_for_a_frame() -> None:
    assert f"at most {FRAME_BYTES_MAX:,} bytes" in PAGE
