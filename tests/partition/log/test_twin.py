"""Random operations on a log, and on a list of batches beside it."""

from __future__ import annotations

from itertools import count

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.partition.log.derived import check_derived
from tests.partition.log.rig import (
    NOW,
    Stored,
    batch,
    fresh,
    headers,
    marker,
    marks_of,
    produced,
    recovered,
)
from tests.partition.log.twin import Twin
from zab.simulator.world.disk import FaultyDisk

PRODUCERS = st.integers(1, 3)
PART = st.floats(0, 1)


class LogMachine(RuleBasedStateMachine):
    """What a leader and a follower do to one log."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: Stored = fresh()
        self.changes: dict[str, object] = {}
        self.twin = Twin()
        self.epoch = 0
        self.times = count(NOW, 7)

    @initialize(mode=st.sampled_from(["os", "batch"]), index_bytes=st.sampled_from([40, 10 << 20]))
    def begin(self, mode: str, index_bytes: int) -> None:
        self.changes = {"flush_mode": mode, "segment_index_bytes": index_bytes}
        self.stored = fresh(**self.changes)

    @property
    def log(self):  # type: ignore[no-untyped-def]
        return self.stored.log

    def at(self, part: float) -> int:
        """An offset of the log."""
        return self.log.log_start + round(part * (self.log.log_end - self.log.log_start))

    def append(self, *batches: bytearray) -> None:
        data = bytearray().join(batches)
        self.log.append_as_leader(data, headers(data), self.epoch, next(self.times), is_verified=True)
        self.twin.append(data)

    @rule(counts=st.lists(st.integers(1, 6), min_size=1, max_size=4), late=st.integers(0, 40))
    def produce(self, counts: list[int], late: int) -> None:
        self.append(*[batch([b"x" * 20] * each, timestamp=next(self.times) - late) for each in counts])

    @rule(producer_id=PRODUCERS, records=st.integers(1, 3), transactional=st.booleans())
    def produce_idempotently(self, producer_id: int, records: int, transactional: bool) -> None:
        if producer_id in self.twin.open_transactions:
            transactional = True
        sequence = self.twin.last_sequences.get(producer_id, -1) + 1
        if self.log.producers.states.get(producer_id) is None:
            assert producer_id not in self.twin.last_sequences
        self.append(
            produced(producer_id, 0, sequence, records, transactional=transactional, timestamp=next(self.times))
        )

    @rule(producer_id=PRODUCERS, commits=st.booleans())
    def end_transaction(self, producer_id: int, commits: bool) -> None:
        self.append(marker(producer_id, 0, commits=commits, timestamp=next(self.times)))

    @rule(gap=st.integers(0, 3), records=st.integers(1, 5), epochs=st.integers(0, 2))
    def follow(self, gap: int, records: int, epochs: int) -> None:
        """The leader's log was compacted: there are gaps."""
        self.epoch += epochs
        data = batch(
            [b"y" * 10] * records,
            timestamp=next(self.times),
            offset=self.log.log_end + gap,
            partition_leader_epoch=self.epoch,
        )
        self.log.append_as_follower(data, headers(data), next(self.times))
        self.twin.append(data)

    @rule()
    def elect(self) -> None:
        self.epoch += 1
        self.log.begin_epoch(self.epoch)

    @rule()
    def store(self) -> None:
        self.stored.store()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(part=PART)
    def commit(self, part: float) -> None:
        self.log.update_high_watermark(self.at(part))

    @rule(part=PART)
    def truncate(self, part: float) -> None:
        self.epoch += 1
        offset = self.at(part)
        self.log.truncate(offset)
        self.twin.truncate(offset, self.log.segments[0].base_offset)
        assert self.log.log_end == self.twin.end

    @rule(skip=st.integers(0, 20))
    def restart_at(self, skip: int) -> None:
        self.log.truncate_fully_and_start_at(self.log.log_end + skip, NOW)
        self.twin.restart(self.log.log_end)

    @rule(part=PART)
    def advance_start(self, part: float) -> None:
        offset = min(self.at(part), self.log.high_watermark)
        self.log.advance_start(offset)
        self.twin.start = max(self.twin.start, offset)

    @rule(retained=st.integers(0, 3000))
    def retain(self, retained: int) -> None:
        self.log.settings = self.log.settings.with_changes({"retention.bytes": str(retained)})
        self.log.apply_retention(next(self.times))
        self.log.remove_deleted(NOW + 10**9)
        self.twin.start = self.log.log_start

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """The process ends; nothing that was performed is lost."""
        if clean:
            self.log.close()
        self.stored.store()
        self.stored.files.close()
        high_watermark = self.log.high_watermark
        self.stored = recovered(self.stored.disk, marks_of(self.log), clean=clean, **self.changes)
        assert self.stored.notes == [] or not self.twin.content
        # An end without a batch before it is in no file.
        assert self.log.log_end <= self.twin.end
        self.twin.end = self.log.log_end
        assert self.log.high_watermark == min(high_watermark, self.log.log_end)

    @invariant()
    def marks_are_in_order(self) -> None:
        log = self.log
        assert log.log_start <= log.last_stable_offset <= log.high_watermark <= log.log_end
        assert log.synced_end <= log.written_end <= log.log_end
        assert (log.log_start, log.log_end) == (self.twin.start, self.twin.end)

    @invariant()
    def producers_are_those_of_the_batches(self) -> None:
        states = self.log.producers.states
        known = {pid: state.last_sequence for pid, state in states.items() if state.batches}
        assert known == {**known, **self.twin.last_sequences}
        opened = self.twin.open_transactions
        assert {
            pid: state.transaction_first_offset for pid, state in states.items() if state.transaction_first_offset >= 0
        } == opened

    @rule(part=PART, bound=PART, max_bytes=st.integers(1, 600))
    def read(self, part: float, bound: float, max_bytes: int) -> None:
        self.stored.store()
        offset, below = self.at(part), self.at(bound)
        found = self.log.slice(offset, below, max_bytes)
        expected = self.twin.served(offset, below, max_bytes) if offset < below else []
        if found is None:
            assert not expected
            return
        data = self.stored.disk.read(found.path, found.position, found.length)
        whole = b"".join(each.data for each in expected)
        assert data
        assert whole.startswith(data)
        assert found.first_offset == expected[0].base
        assert headers(data)

    @rule(part=PART, back=st.integers(0, 400))
    def read_by_time(self, part: float, back: int) -> None:
        self.stored.store()
        bound, timestamp = self.at(part), next(self.times) - back
        found = self.log.find_by_time(timestamp, bound)
        assert (None if found is None else found.first_offset) == self.twin.find_by_time(timestamp, bound)

    def teardown(self) -> None:
        """Everything that is derived is what a reader of the files would make of them."""
        stored = self.stored
        stored.store()
        assert stored.content() == self.twin.content
        assert stored.content(max_bytes=1) == self.twin.content
        check_derived(stored, self.twin)
        stored.files.close()


LogMachine.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
test_log_is_its_twin = LogMachine.TestCase


def test_twin_itself() -> None:
    twin = Twin()
    twin.append(batch([b"1", b"2"], offset=0))
    twin.append(batch([b"3"], offset=4))
    twin.truncate(5, 0)
    assert twin.end == 5
    twin.truncate(1, 0)
    assert (twin.end, twin.content) == (0, [])
    assert FaultyDisk().directories() == []
