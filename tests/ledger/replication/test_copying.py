"""Copies of entries to one bookie: their bytes, their limits, what ends them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledger.memory import LEDGER, ROOT, Rig, envelope, ledger
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.reader.events import EntryLost
from zab.ledger.replication.copying import Copied, Copying, SourceFailed, TargetFailed
from zab.ledger.replication.events import WorkerSettings
from zab.ledger.replication.rate import Rate
from zab.ledger.wire.messages import AddEntry
from zab.ledger.wire.status import Status

CLOSED: dict[str, Any] = {"state": 3, "last": 9, "length": 100}
FAST = 1 << 40


def copying(runs: Any, *, bytes_per_s: int = FAST, metadata: Any = None, **settings: Any) -> tuple[Rig, Copying]:
    metadata = metadata or ledger((0, "b1 b2 b3"), **CLOSED)
    limits = WorkerSettings(**settings)
    core = Copying(ROOT, VersionedMetadata(LEDGER, metadata, 0), "b4", runs, Rate(bytes_per_s), limits)  # type: ignore[arg-type]
    rig = Rig(core, metadata, spare="b4")
    for entry in range(10):
        for name in ("b1", "b2", "b3"):
            rig.bookies[name].entries[entry] = envelope(metadata, entry, lac=entry - 2)
    return rig, core


def adds(rig: Rig) -> list[int]:
    return [request.entry for _, request in rig.sent if isinstance(request, AddEntry)]


def test_copies_have_the_bytes_of_the_writer() -> None:
    rig, core = copying([(0, 9)])
    rig.run()
    assert core.outcome == Copied(10, sum(len(envelope(rig.metadata, entry)) for entry in range(10)))
    assert rig.bookies["b4"].entries == rig.bookies["b1"].entries


def test_only_the_runs_are_copied() -> None:
    rig, core = copying([(1, 2), (7, 7)])
    rig.run()
    assert sorted(rig.bookies["b4"].entries) == [1, 2, 7]
    assert isinstance(core.outcome, Copied)


def test_nothing_to_copy_is_done_at_once() -> None:
    _, core = copying([])
    assert core.outcome == Copied(0, 0)


def test_a_fenced_bookie_takes_the_copies() -> None:
    """S19."""
    rig, core = copying([(0, 9)])
    rig.bookies["b4"].fenced = True
    rig.run()
    assert isinstance(core.outcome, Copied)


def test_it_is_done_when_everything_is_acknowledged() -> None:
    rig, core = copying([(0, 0)])
    rig.run(without=("b4",))
    assert adds(rig) == [0]
    assert core.outcome is None
    rig.run()
    assert core.outcome is not None


@pytest.mark.parametrize("run_entries", [1, 3, 256])
def test_only_a_window_is_read_ahead_of_what_is_acknowledged(run_entries: int) -> None:
    rig, core = copying([(0, 9)], window_bytes=1, run_entries=run_entries, runs_max=2)
    for _ in range(10):
        rig.run(without=("b4",))
        rig.pass_ms(1)
    assert len(adds(rig)) <= 2
    while core.outcome is None and rig.now < 1_000:
        rig.run()
        rig.pass_ms(1)
    assert isinstance(core.outcome, Copied)


def test_the_rate_in_bytes_a_second_is_kept() -> None:
    """Entries of 46 bytes, and 46 bytes a second."""
    rig, core = copying([(0, 9)], bytes_per_s=46, run_entries=1, runs_max=1)
    done_ms = []
    for _ in range(1_000):
        rig.run()
        done_ms.append((rig.now, len(rig.bookies["b4"].entries)))
        if core.outcome is not None:
            break
        assert core.deadline_ms is not None
        rig.pass_ms(max(1, core.deadline_ms - rig.now))
    assert isinstance(core.outcome, Copied)
    for now_ms, count in done_ms:
        assert (count - 1) * 46 <= 46 * now_ms / 1000 + 46


def test_a_bookie_that_refuses_ends_it() -> None:
    rig, core = copying([(0, 0)])
    rig.bookies["b4"].status = Status.READ_ONLY
    rig.run()
    assert core.outcome == TargetFailed("b4", Status.READ_ONLY)  # type: ignore[arg-type]


def test_a_bookie_that_is_silent_ends_it() -> None:
    rig, core = copying([(0, 0)], request_timeout_ms=100)
    rig.run(without=("b4",))
    rig.pass_ms(100)
    assert core.outcome == TargetFailed("b4", Status.TIMED_OUT)  # type: ignore[arg-type]


def test_a_busy_bookie_gets_the_entry_again_but_not_for_ever() -> None:
    rig, core = copying([(0, 0)], busy_max=2, busy_ms=50)
    rig.run(without=("b4",))
    for _ in range(2):
        rig.answer("b4", Status.TOO_MANY_REQUESTS, of=AddEntry)
        assert adds(rig) == []
        rig.pass_ms(50)
    assert adds(rig) == [0]
    assert core.outcome is None
    rig.answer("b4", Status.TOO_MANY_REQUESTS, of=AddEntry)
    assert core.outcome == TargetFailed("b4", Status.TOO_MANY_REQUESTS)  # type: ignore[arg-type]


def test_an_entry_that_nobody_has_ends_it() -> None:
    rig, core = copying([(0, 9)])
    for name in ("b1", "b2", "b3"):
        del rig.bookies[name].entries[4]
    rig.run()
    assert core.outcome == SourceFailed(4, EntryLost(4))


def test_a_damaged_copy_is_not_copied() -> None:
    rig, core = copying([(0, 9)])
    for name in ("b1", "b2"):
        rig.bookies[name].entries[4] = rig.bookies[name].entries[4][:-1] + b"x"
    rig.run()
    assert isinstance(core.outcome, Copied)
    assert rig.bookies["b4"].entries[4] == rig.bookies["b3"].entries[4]


def test_s24_the_last_entry_of_a_complete_fragment_is_confirmed() -> None:
    """The ledger is open, and the LAC that its records tell of is one less."""
    metadata = ledger((0, "b1 b2 b3"), (10, "b1 b2 b5"))
    rig, core = copying([(0, 9)], metadata=metadata)
    rig.run()
    assert isinstance(core.outcome, Copied)
    assert 9 in rig.bookies["b4"].entries
