"""Logs that are compacted: batches with keys, a round over one log, and what such a log has to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tests.partition.log.rig import DIRECTORY, NOW, Stored, settings
from zab.partition.log.cleanable import cleanable
from zab.partition.log.cleaned_batches import NO_DATA, CleanRules
from zab.partition.log.cleaner import Cleaner, CleanerLimits, CleanStep, Source
from zab.partition.records.batch import walk
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record, decode_records

COMPACTED: dict[str, Any] = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}
Pairs = Sequence[tuple[bytes | None, bytes | None]]


def keyed(pairs: Pairs, *, timestamp: int = NOW, **fields: Any) -> bytearray:
    """A batch of keys and values, as a client sends it."""
    records = [Record(at, timestamp + at, key, value, ()) for at, (key, value) in enumerate(pairs)]
    return bytearray(encode_batch(records, **fields))


def cleaner_of(stored: Stored, now: int, *, map_bytes: int = 1 << 20, piece_bytes: int = 300) -> Cleaner | None:
    """A round over what may be compacted."""
    log = stored.log
    found = cleanable(log, now)
    if found is None:
        return None
    producers = {
        pid: (state.batches[-1].last_offset if state.batches else NO_DATA, state.epoch)
        for pid, state in log.producers.states.items()
    }
    rules = CleanRules(
        now_ms=now,
        delete_retention_ms=log.settings.delete_retention_ms,
        output_bytes_max=1 << 20,
        producers=producers,
    )
    limits = CleanerLimits(
        segment_bytes=log.settings.segment_bytes,
        index_interval_bytes=log.settings.index_interval_bytes,
        map_bytes=map_bytes,
        map_load_factor=1.0,
        piece_bytes=piece_bytes,
    )
    later = log.segments[len(found.segments) :]
    sources = tuple(map(Source.of, found.segments))
    return Cleaner(sources, tuple(map(Source.of, later)), found.first_dirty, rules, limits)


def steps_of(cleaner: Cleaner, stored: Stored) -> Iterator[CleanStep]:
    while True:
        step = cleaner.step(stored.disk)
        yield step
        if step.is_last:
            return


def compact(stored: Stored, now: int = NOW, **limits: int) -> bool:
    """A whole round, stored step by step; False: there is nothing to compact."""
    cleaner = cleaner_of(stored, now, **limits)
    if cleaner is None:
        return False
    for step in steps_of(cleaner, stored):
        if step.data:
            stored.log.compaction.write(step)
        if step.segment is not None:
            stored.log.compaction.replace(step.replaces, step.segment)
        stored.store()
    stored.log.cleaned_end = cleaner.cleaned_end
    return True


def roll(stored: Stored, now: int = NOW) -> None:
    """Begin a new segment with the next batch."""
    before = stored.log.settings
    stored.log.settings = attrs.evolve(before, segment_bytes=1000)
    stored.add(keyed([(b"", bytes(800))], timestamp=now))
    stored.log.settings = before


def records_of_log(stored: Stored) -> list[Record]:
    """Every record of data in the files, control batches left out."""
    found: list[Record] = []
    for segment in stored.log.segments:
        data = stored.disk.read(segment.path)
        for position, header in walk(data):
            if not header.is_control:
                found += decode_records(data, position)
    return found


def batches_of_log(stored: Stored) -> list[tuple[int, int, int]]:
    """(base offset, last offset, count of records) of each batch."""
    found = []
    for segment in stored.log.segments:
        for _, header in walk(stored.disk.read(segment.path)):
            found.append((header.base_offset, header.last_offset, header.record_count))
    return found


def newest(records: Sequence[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """The plain model: a dict by key."""
    return {record.key: (record.offset, record.value) for record in records if record.key is not None}


def files(stored: Stored) -> list[str]:
    return stored.disk.list(DIRECTORY)


def compacted_settings(**changes: Any) -> Any:
    return settings(**{**COMPACTED, **changes})
