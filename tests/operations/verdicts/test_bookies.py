"""What an operator is told of bookies."""

from __future__ import annotations

import pytest

from zab.operations.verdicts.bookies import Bookies, BookieStatus, bookie_alarms


@pytest.mark.parametrize(
    ("states", "alarms"),
    [
        ((), []),
        (("writable", "writable"), []),
        (("writable", "gone"), ["bookie_gone"]),
        (("writable", "read-only"), ["bookie_read_only"]),
        (("gone", "read-only"), ["no_writable_bookie", "bookie_gone", "bookie_read_only"]),
    ],
)
def test_what_has_to_be_looked_at(states: tuple[str, ...], alarms: list[str]) -> None:
    found = Bookies(tuple(BookieStatus(f"b{number}", state) for number, state in enumerate(states)))
    assert [alarm.name for alarm in bookie_alarms(found)] == alarms
