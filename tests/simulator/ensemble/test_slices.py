"""Whole runs in which everything that can be cut into slices is cut as small as can be."""

from collections import Counter

import pytest

from zab.cli.servers.simulate import attempt
from zab.member.requests.intake import Intake
from zab.member.requests.processor import Processor

SEEDS, SEEDS_OF_TURNS = 60, 20


@pytest.mark.longest
def test_runs_are_good_whatever_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one part, one watcher: so members are between two states all the time."""
    for place in ("datatree.slices", "datatree.prepare", "zab.member.requests.write_replies"):
        monkeypatch.setattr(f"{place}.PARTS", 1)
    monkeypatch.setattr("zab.member.requests.processor.RECORD_BYTES", 0)
    for place in (
        "datatree.watches.SLICE",
        "zab.member.requests.watch_events.TOLD",
        "zab.member.requests.event_sending.SENT",
    ):
        monkeypatch.setattr(place, 1)
    for place in ("requests.processor.DELIVERED", "requests.limits.ENDED", "clients.connection.ENDED"):
        monkeypatch.setattr(f"zab.member.{place}", 1)
    monkeypatch.setattr("session.tracker.EXPIRED_COUNT_MAX", 1)
    for name in ("reads.NAMES", "child_lists.NAMES", "multi_reads.PATHS"):
        monkeypatch.setattr(f"zab.member.requests.{name}", 1)
    counts: Counter[str] = Counter()
    deliver = Processor.deliver

    def counting(processor: Processor, batch: object) -> object:
        for _ in deliver(processor, batch):  # type: ignore[arg-type]
            counts["slices"] += 1
            yield

    monkeypatch.setattr(Processor, "deliver", counting)
    failed = {seed: failure for seed in range(SEEDS) if (failure := attempt(seed).failure) is not None}
    assert not failed
    assert counts["slices"] > 50 * SEEDS


@pytest.mark.longest
def test_runs_are_good_whatever_the_turns_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn takes two writes, so that some are left again and again, and sessions take turns."""
    monkeypatch.setattr("zab.member.requests.proposing.PREPARED_WORK_MAX", 2)
    counts: Counter[str] = Counter()
    take = Intake.take

    def counting(intake: Intake, work: int = 0) -> object:
        counts["in turn"] += bool(intake.turns)
        return take(intake, work)

    monkeypatch.setattr(Intake, "take", counting)
    failed = {seed: failure for seed in range(SEEDS_OF_TURNS) if (failure := attempt(seed).failure) is not None}
    assert not failed
    assert counts["in turn"] > 2 * SEEDS_OF_TURNS
