"""Which ledgers may go."""

import pytest

from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position
from zab.ledger.managed.trimming import trimmable

INFO = LogInfo(
    ledgers=(
        *(LedgerInfo(id=each, entries=10, length=100, closed_ms=each * 1000) for each in (1, 2, 3)),
        LedgerInfo(id=4),
    )
)


@pytest.mark.parametrize(
    ("marks", "wall_ms", "retention_ms", "retention_bytes", "count"),
    [
        ([], 10_000, None, None, 0),
        ([], 10_000, 0, None, 3),
        ([], 5_000, 3_000, None, 2),
        ([], 10_000, None, 300, 0),
        ([], 10_000, None, 299, 1),
        ([], 10_000, None, 0, 3),
        ([Position(1, 8)], 10_000, 0, None, 0),
        ([Position(1, 9)], 10_000, 0, None, 1),
        ([Position(3, 9), Position(2, 9)], 10_000, 0, None, 2),
        ([Position(4, 2)], 2_000, 1_000, None, 1),
        ([Position(4, 2)], 2_000, 5_000, 250, 1),
    ],
)
def test_what_may_go(marks, wall_ms, retention_ms, retention_bytes, count):
    assert trimmable(INFO, marks, wall_ms, retention_ms, retention_bytes) == count


def test_the_last_ledger_stays_even_if_it_is_closed():
    info = LogInfo(ledgers=INFO.ledgers[:2])
    assert trimmable(info, [Position(9, 9)], 10_000, 0, 0) == 1
