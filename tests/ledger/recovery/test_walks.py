"""Random walks of the real writer against real recoverers."""

import pytest
from attrs import evolve

from tests.ledger.recovery.walk import Walk
from zab.ledger.recovery.reading import EntryRead
from zab.ledger.recovery.write_back import WriteBack
from zab.ledger.wire.status import Status


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_no_walk_breaks_a_promise(block):
    """G1 to G4, G6, G9, G10."""
    for seed in range(20 * block, 20 * block + 20):
        Walk(seed).run()


@pytest.mark.longest
def test_no_walk_of_many_breaks_a_promise():
    for seed in range(1_000, 4_000):
        Walk(seed).run()


def first_broken(seeds):
    """The first walk that breaks a promise, and which."""
    for seed in seeds:
        try:
            Walk(seed).run()
        except AssertionError as broken:
            return str(broken)
    return ""


@pytest.mark.slow
def test_walks_notice_entries_that_are_not_written_back(monkeypatch):
    """S20."""

    def confirm(self):
        confirmed = [adding.entry for adding in self._pending]
        self._pending.clear()
        return confirmed

    monkeypatch.setattr(WriteBack, "confirm", confirm)
    assert first_broken(range(200)).startswith("G6:")


@pytest.mark.slow
def test_walks_notice_errors_that_count_as_negatives(monkeypatch):
    """S4."""
    right = EntryRead.on_answer

    def on_answer(self, bookie, answer, now_ms):
        if answer.status != Status.OK:
            answer = evolve(answer, status=Status.NO_ENTRY)
        right(self, bookie, answer, now_ms)

    monkeypatch.setattr(EntryRead, "on_answer", on_answer)
    assert first_broken(range(400)).startswith("G1:")
