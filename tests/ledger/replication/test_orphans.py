"""What the auditor remembers of orphans, and how many of them."""

from collections import Counter
from random import Random

import pytest

from tests.ledger.managed.lists import LOGS, NAME, ROOT, ledger, metadata
from tests.ledger.store.handlers import Coordination
from zab.coordination.driver import Connected
from zab.coordination.operations import Create
from zab.ledger.managed.sweep import FENCED_MS, ORPHAN_MS, whose
from zab.ledger.placement.placement import Placement
from zab.ledger.replication import orphans as module
from zab.ledger.replication.orphans import Orphans
from zab.ledger.replication.passes import each_page, read_metadata

WALL_MS = 10 * FENCED_MS
CLOSED = "orphans: closed ledgers that are kept for a day"


class Check:
    """An ensemble with orphans, and who looks at them."""

    def __init__(self) -> None:
        self.of = Coordination()
        for path in (ROOT, LOGS):
            self.of.apply(Create(path))
        self.done: Counter[str] = Counter()
        self.orphans = Orphans(ROOT, Placement(Random(1)), self.done)

    def add(self, *numbers: int, closed: bool) -> None:
        found = metadata(ctime_ms=WALL_MS - ORPHAN_MS, custom=whose(ROOT, LOGS, NAME))
        for number in numbers:
            ledger(self.of, number, found.closed_at(-1, 0) if closed else found)

    def run(self, now_ms: int) -> Counter[str]:
        counts: Counter[str] = Counter()

        def steps():
            pages = each_page(1_000)
            self.orphans.begin_check()
            while (ids := (yield from pages.next(ROOT))) is not None:
                found, _ = yield from read_metadata(ROOT, ids)
                yield from self.orphans.look(found, now_ms, WALL_MS, counts)

        self.of.run(steps())
        return counts


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "ORPHANS_MAX", 3)
    return 3


def test_a_closed_orphan_is_deleted_by_the_first_check_after_a_day() -> None:
    check = Check()
    check.add(7, closed=True)
    assert check.run(0) == {CLOSED: 1}
    assert check.run(FENCED_MS - 1) == {CLOSED: 1}
    assert check.run(FENCED_MS) == {"orphans: ledgers deleted": 1}
    assert check.run(FENCED_MS + 1) == {}
    assert check.done == {"orphans deleted": 1}


def test_a_new_auditor_begins_to_count_again() -> None:
    check = Check()
    check.add(7, closed=True)
    check.run(0)
    check.orphans.clear()
    assert check.run(FENCED_MS) == {CLOSED: 1}


def test_what_is_gone_makes_room_for_others(few: int) -> None:
    check = Check()
    check.add(*range(few), closed=True)
    check.run(0)
    check.run(FENCED_MS)
    check.add(*range(10, 10 + few), closed=True)
    check.run(FENCED_MS)
    assert check.run(2 * FENCED_MS) == {"orphans: ledgers deleted": few}


def test_only_so_many_are_remembered(few: int) -> None:
    check = Check()
    check.add(*range(few + 2), closed=True)
    assert check.run(0) == {CLOSED: few + 2}
    assert check.run(FENCED_MS) == {"orphans: ledgers deleted": few, CLOSED: 2}


def test_only_so_many_wait_to_be_recovered(few: int) -> None:
    check = Check()
    check.add(*range(few + 2), closed=False)
    for _ in range(2):
        assert check.run(0) == {"orphans: ledgers to be closed": few + 2}
    check.orphans.take(Connected(1))
    begun = 0
    while check.orphans.deadline_ms == 0:
        assert check.orphans.step(0)
        check.orphans._recovery = None
        begun += 1
    assert begun == few
