"""The judge of cursors and of those who read a log: each rule is seen to be broken, and what may be is not taken for
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zab.coordination.operations import Create
from zab.ledger.managed.cursor_state import CursorState, StoredCursor, encode_cursor
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Position
from zab.simulator.coordination.znode_tree import ZnodeTree
from zab.simulator.ledgers.judge import Judge
from zab.simulator.ledgers.logs.cursor_judge import CursorJudge, Stream
from zab.simulator.world.verdict import SafetyError

LOG = "/logs/orders"
CURSOR = f"{LOG}/cursors/c"
BEGIN = Position(1, -1)
INFO = LogInfo(
    ledgers=(LedgerInfo(id=1, entries=3, length=30, closed_ms=1_000), LedgerInfo(id=2, entries=2, closed_ms=2_000))
)


def stored(mark: Position, *ranges: tuple[int, int, int], epoch: int = 1) -> StoredCursor:
    return StoredCursor(0, epoch, -1, CursorState.of(mark, ranges, {}))


@pytest.fixture
def judge() -> CursorJudge:
    """A log with two ledgers, and a cursor before its first entry."""
    tree = ZnodeTree()
    for path in ("/logs", LOG, f"{LOG}/cursors"):
        assert tree.apply(tree.begin_session(), Create(path)).ok
    judge = CursorJudge("/logs", Judge(), tree)
    judge.lists(LOG, INFO)
    judge.begins(CURSOR, stored(BEGIN))
    return judge


@contextmanager
def breaks(rule: str) -> Iterator[None]:
    with pytest.raises(SafetyError) as found:
        yield
    assert found.value.rule == rule


def test_a_reader_gets_everything_once_and_in_order(judge: CursorJudge) -> None:
    stream = Stream(LOG, BEGIN)
    for position in (Position(1, 0), Position(1, 1), Position(1, 2), Position(2, 0)):
        judge.delivers(stream, position)
    with breaks("order"):
        judge.delivers(stream, Position(2, 0))
    with breaks("order"):
        judge.delivers(stream, Position(1, 2))


def test_a_reader_leaves_nothing_out_but_what_was_trimmed(judge: CursorJudge) -> None:
    with breaks("order"):
        judge.delivers(Stream(LOG, Position(1, 0)), Position(2, 0))
    judge.limits(0, None)
    judge.consumes(CURSOR, [Position(1, entry) for entry in range(3)])
    judge.trims(LOG, INFO, [INFO.ledgers[0]], 5_000)
    judge.delivers(Stream(LOG, Position(1, 0)), Position(2, 0))


def test_a_consumer_leaves_out_what_was_consumed_at_its_cursor(judge: CursorJudge) -> None:
    judge.consumes(CURSOR, [Position(1, 1)])
    judge.delivers(Stream(LOG, Position(1, 0), CURSOR), Position(1, 2))
    with breaks("order"):
        judge.delivers(Stream(LOG, Position(1, -1), CURSOR), Position(1, 2))


def test_what_is_stored_was_consumed(judge: CursorJudge) -> None:
    judge.consumes(CURSOR, [Position(1, 0), Position(1, 2)])
    judge.stores(CURSOR, stored(Position(1, 0), (1, 2, 2)))
    with breaks("cursors"):
        judge.stores(CURSOR, stored(Position(1, 0), (1, 1, 2)))
    with breaks("cursors"):
        judge.stores(CURSOR, stored(Position(1, 2)))


def test_a_mark_never_falls_while_its_owner_is_the_same(judge: CursorJudge) -> None:
    assert judge.marks(LOG, CURSOR, Position(1, 1)) == [Position(1, 0), Position(1, 1)]
    judge.stores(CURSOR, stored(Position(1, 1)))
    judge.stores(CURSOR, stored(Position(1, 0), epoch=2))
    with breaks("cursors"):
        judge.stores(CURSOR, stored(Position(1, 0)))


def test_what_was_stored_for_certain_is_known_to_the_next_owner(judge: CursorJudge) -> None:
    consumed = frozenset([Position(1, 0)])
    judge.consumes(CURSOR, consumed)
    judge.flushed(LOG, CURSOR, 1, consumed)
    stream = judge.opens(LOG, CURSOR, 2, CursorState(Position(1, 0)))
    with breaks("cursors"):
        judge.delivers(Stream(LOG, BEGIN, CURSOR, stream.stored), Position(1, 0))
    with breaks("cursors"):
        judge.opens(LOG, CURSOR, 3, CursorState(BEGIN))


def test_an_owner_that_has_lost_the_log_stores_nothing(judge: CursorJudge) -> None:
    judge.opens(LOG, CURSOR, 2, CursorState(BEGIN))
    judge.flushed(LOG, CURSOR, 1, frozenset())
    assert judge.opens(LOG, CURSOR, 1, CursorState(BEGIN)).stored == frozenset()
    with breaks("cursors"):
        judge.flushed(LOG, CURSOR, 1, frozenset([Position(1, 0)]))


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "is_right"), [(4_000, None, True), (4_001, None, False), (None, 29, True)]
)
def test_a_ledger_is_trimmed_at_its_time(
    judge: CursorJudge, retention_ms: int | None, retention_bytes: int | None, is_right: bool
) -> None:
    judge.limits(retention_ms, retention_bytes)
    if is_right:
        judge.trims(LOG, INFO, [INFO.ledgers[0]], 5_000)
    else:
        with breaks("trim"):
            judge.trims(LOG, INFO, [INFO.ledgers[0]], 5_000)


def test_a_ledger_is_trimmed_when_every_cursor_is_stored_beyond_it(judge: CursorJudge) -> None:
    judge.limits(0, None)
    tree = judge._tree
    assert tree.apply(tree.begin_session(), Create(CURSOR, encode_cursor(stored(Position(1, 1)), 10))).ok
    with breaks("trim"):
        judge.trims(LOG, INFO, [INFO.ledgers[0]], 5_000)


def test_nothing_that_was_acknowledged_is_never_read(judge: CursorJudge) -> None:
    for entry in range(3):
        judge.delivers(Stream(LOG, Position(1, entry - 1), CURSOR), Position(1, entry))
    judge.finish("orders", [Position(1, entry) for entry in range(3)])
    with breaks("order"):
        judge.finish("orders", [Position(2, 0)])
