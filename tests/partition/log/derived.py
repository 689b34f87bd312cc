"""Whether what a log derived from its batches is what a reader of the files would derive."""

from __future__ import annotations

from tests.partition.log.rig import NOW, Stored, headers
from tests.partition.log.twin import Twin
from zab.partition.log.producers import Producers, ProducerState
from zab.partition.log.replay import replay
from zab.partition.log.segment import Segment


def check_derived(stored: Stored, twin: Twin) -> None:
    """Everything is stored. The twin has every batch since the beginning."""
    check_indexes(stored)
    log = stored.log
    for batch in twin.batches:
        if batch.last >= log.log_start:
            assert log.epochs.epoch_of(batch.base) in (-1, batch.header.partition_leader_epoch)
            assert log.epochs.epoch_of(batch.last) == batch.header.partition_leader_epoch
    aborted = [(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted_transactions(0, 1 << 60)]
    kept = [each for each in twin.aborted if each[2] >= log.segments[0].base_offset]
    assert aborted == kept
    producers = Producers()
    replay(stored.disk, log.segments, producers, 0, log.log_end)
    for pid, state in producers.states.items():
        known = log.producers.states[pid]
        # A snapshot has only the last batch; retention takes the batches, not the producer.
        common = min(len(known.batches), len(state.batches))
        assert _sequences(known)[len(known.batches) - common :] == _sequences(state)[len(state.batches) - common :]
        assert bool(known.batches) >= bool(state.batches)
        assert known.epoch == state.epoch
        assert (known.transaction_first_offset >= 0) == (state.transaction_first_offset >= 0)


def check_indexes(stored: Stored) -> None:
    """They are those of the batches, and so are the files of closed segments."""
    log = stored.log
    for segment in log.segments:
        data = stored.disk.read(segment.path)
        assert segment.size == len(data)
        again = Segment(segment.directory, segment.base_offset, NOW, segment.base_offset)
        for header in headers(data):
            size = header.size_bytes
            interval_bytes = log.settings.index_interval_bytes
            again.add(header.base_offset, header.last_offset, size, header.max_timestamp, interval_bytes)
        if segment is not log.segments[-1]:
            again.add_time_entry()
        if segment.size:
            assert segment.max_timestamp == again.max_timestamp
            assert segment.max_timestamp_offset == again.max_timestamp_offset
            assert log._segments.offsets_of(segment).entries == again.offsets.entries
            # One may be left from the end of an earlier segment, or from a clean stop.
            assert set(again.times.entries) <= set(log._segments.times_of(segment).entries)


def _sequences(state: ProducerState) -> list[tuple[int, int]]:
    """A snapshot has one timestamp, which may be that of a marker."""
    return [(batch.last_sequence, batch.last_offset) for batch in state.batches]
