"""After a restart each of the last five batches of a producer is recognized, though the snapshot has the last one."""

from __future__ import annotations

import pytest

from tests.partition.log.rig import Stored, batch, fresh, headers, marks_of, produced, recovered
from zab.partition.log import former_batches
from zab.partition.log.errors import OutOfOrderSequenceError
from zab.partition.log.producers import BATCHES_MAX

ONE = len(batch())


def written(count: int, **settings: object) -> Stored:
    """Batches of producer 1, with those of another one and of nobody between them."""
    stored = fresh(**{"index_interval_bytes": 0, **settings})
    for number in range(count):
        stored.add(produced(1, 0, number))
        stored.add(produced(2, 0, number))
        stored.add(batch())
    return stored


def restarted(stored: Stored, *, is_clean: bool = True) -> Stored:
    stored.log.close()
    stored.store()
    return recovered(stored.disk, marks_of(stored.log), clean=is_clean)


def recognized(stored: Stored, count: int, producer: int = 1) -> list[int]:
    """The sequences whose batches are duplicates."""
    found = []
    for number in range(count):
        [header] = headers(produced(producer, 0, number))
        try:
            duplicate = stored.log.producers.check(header, is_verified=False)
        except OutOfOrderSequenceError:
            continue
        assert duplicate is not None
        assert duplicate.first_sequence == number
        found.append(number)
    return found


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 4 * ONE])
def test_the_last_five_batches_are_recognized_after_a_restart(segment_bytes: int, is_clean: bool) -> None:
    stored = written(9, segment_bytes=segment_bytes)
    before = {producer: state.batches for producer, state in stored.log.producers.states.items()}
    again = restarted(stored, is_clean=is_clean)
    assert recognized(again, 9) == recognized(again, 9, producer=2) == [4, 5, 6, 7, 8]
    assert {producer: state.batches for producer, state in again.log.producers.states.items()} == before
    assert all(len(each) == BATCHES_MAX for each in before.values())


def test_batches_of_an_earlier_epoch_are_not_among_them() -> None:
    stored = fresh()
    stored.add(produced(1, 0, 0))
    stored.add(produced(1, 0, 1))
    stored.add(produced(1, 1, 0))
    stored.add(produced(1, 1, 1))
    again = restarted(stored)
    assert [each.first_sequence for each in again.log.producers.states[1].batches] == [0, 1]


def test_what_a_start_reads_for_them_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_batches, "FORMER_BYTES", 7 * ONE)
    again = restarted(written(9, segment_bytes=1 << 20))
    assert 1 <= len(recognized(again, 9)) < BATCHES_MAX
    assert recognized(again, 9)[-1] == 8
