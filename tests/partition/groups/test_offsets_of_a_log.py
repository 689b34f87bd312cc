"""What a log says about offsets: as it is read now, by a dumb reading of it, and after compaction."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.groups.bench import GROUP, WALL, Bench, offsets_to_commit, snapshot
from zab.kafka.coordinator_records import OffsetKey, OffsetValue
from zab.partition.coordinator.effects import NO_PRODUCER
from zab.partition.groups.loading import LoadingPartition
from zab.partition.groups.records import Loaded, LoadedMarker, LoadedRecord
from zab.partition.groups.requests import OffsetDelete, TxnOffsetCommit

TOPICS = "tu"


def random_log(random: Random, count: int) -> list[Loaded]:
    """Commits, tombstones, transactions of three producers, and their ends."""
    log: list[Loaded] = []
    for position in range(count):
        key = OffsetKey(group=GROUP, topic=random.choice(TOPICS), partition=0)
        value = OffsetValue(offset=position, metadata="", commit_timestamp=WALL)
        action = random.randrange(10)
        if action < 3:
            log.append(LoadedRecord(position=position, key=key, value=value))
        elif action < 4:
            log.append(LoadedRecord(position=position, key=key, value=None))
        elif action < 7:
            log.append(LoadedRecord(position=position, key=key, value=value, producer_id=random.randrange(3)))
        else:
            log.append(LoadedMarker(position=position, producer_id=random.randrange(3), commits=random.random() < 0.6))
    return log


def outcome_of(log: list[Loaded], at: int) -> str:
    """Whether the record at this index counts ("yes"), never will ("no"), or is undecided ("open")."""
    record = log[at]
    assert isinstance(record, LoadedRecord)
    if record.producer_id == NO_PRODUCER:
        return "yes"
    ends = [each for each in log[at:] if isinstance(each, LoadedMarker) and each.producer_id == record.producer_id]
    return "open" if not ends else ("yes" if ends[0].commits else "no")


def visible(log: list[Loaded]) -> dict[str, int]:
    """For each topic, look through the whole log for the last record that counts."""
    found = {}
    for topic in TOPICS:
        for at in range(len(log) - 1, -1, -1):
            record = log[at]
            key = OffsetKey(group=GROUP, topic=topic, partition=0)
            if isinstance(record, LoadedRecord) and record.key == key and outcome_of(log, at) == "yes":
                if isinstance(record.value, OffsetValue):
                    found[topic] = record.value.offset
                break
    return found


def compacted(log: list[Loaded]) -> list[Loaded]:
    """What the cleaner leaves: no aborted records, and the last record of each key; it stops before the first record
    of a transaction that is open."""
    records = [at for at, each in enumerate(log) if isinstance(each, LoadedRecord)]
    end = min((at for at in records if outcome_of(log, at) == "open"), default=len(log))
    last = {}
    for at in records:
        record = log[at]
        if at < end and outcome_of(log, at) == "yes" and isinstance(record, LoadedRecord):
            last[record.key] = at
    kept = set(last.values())
    return [each for at, each in enumerate(log) if at >= end or at in kept or isinstance(each, LoadedMarker)]


def read(log: list[Loaded]) -> LoadingPartition:
    loading = LoadingPartition(0, 1)
    for entry in log:
        loading.apply(entry)
    return loading


@pytest.mark.parametrize("seed", range(100))
def test_the_last_record_that_counts_wins_and_compaction_changes_nothing(seed: int) -> None:
    random = Random(seed)
    log = random_log(random, random.randrange(1, 40))
    offsets = read(log).offsets.get(GROUP)
    found = {} if offsets is None else {topic: each.value.offset for (topic, _), each in offsets.committed.items()}
    assert found == visible(log)
    after = read(compacted(log)).offsets.get(GROUP)
    assert (after.committed if after else {}) == (offsets.committed if offsets else {})
    for topic in TOPICS:
        assert (after is not None and after.is_unstable((topic, 0))) == (
            offsets is not None and offsets.is_unstable((topic, 0))
        )


@pytest.mark.parametrize("seed", range(20))
def test_a_coordinator_that_lives_through_it_has_the_same_state(seed: int) -> None:
    random = Random(seed)
    bench = Bench(holds=True)
    for offset in range(40):
        topic, producer_id, action = random.choice(TOPICS), random.randrange(3), random.randrange(10)
        if action < 3:
            bench.commit(offsets=offsets_to_commit(offset, topic))
        elif action < 6:
            bench.ask(
                TxnOffsetCommit(
                    group_id=GROUP,
                    producer_id=producer_id,
                    producer_epoch=0,
                    offsets=offsets_to_commit(offset, topic),
                )
            )
        elif action < 7:
            bench.ask(OffsetDelete(group_id=GROUP, partitions=((topic, 0),)))
        elif action < 9:
            bench.settle(count=random.randrange(4))
        else:
            bench.settle()
            bench.mark(producer_id, commits=random.random() < 0.6)
        if not bench.appends:
            assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)
