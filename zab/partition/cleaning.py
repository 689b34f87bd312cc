"""Compaction on this broker: which log is next, and the round that is under way.

    keep_up(…)      begins a round when it is time
    done(result)    a job has taken a step of the cleaner: what that gave goes to the log
    settle(…)       goes on with what waits for the storage, or for a job that reads the files

One log at a time: the one with the largest dirty part, of those for which it is worth it (`log.cleanable`). Each step
is a job of some milliseconds (`log.cleaner`); between two steps anything may happen. If the log has lost one of the
segments of a group meanwhile, by retention, a truncation or its deletion, the round ends. A log with a damaged segment
is reported, and not compacted again while the process runs.

Not here: when records may go (`log.cleaned_batches`), the order of the changes of files (`log.segment_effects`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from datatree.log.disk import Disk
from zab.partition.log.cleanable import Cleanable, cleanable
from zab.partition.log.cleaned_batches import NO_DATA, CleanRules
from zab.partition.log.cleaner import Cleaner, CleanerLimits, CleanStep, Source
from zab.partition.records.batch import BatchError
from zab.partition.records.codecs import output_limit
from zab.partition.replica.replica import Replica
from zab.partition.requests.replicas import Replicas
from zab.partition.settings.broker_settings import CleanerSettings

NEVER: Final = 1 << 62
AT_ONCE: Final = 0
SECOND_MS: Final = 1000


@attrs.frozen(eq=False)
class CleanJob:
    """A step of a cleaner, for a job."""

    cleaner: Cleaner


@attrs.frozen(eq=False)
class Cleaned:
    """What the step came to; `error` if a file cannot be read."""

    job: CleanJob
    step: CleanStep | None = None
    error: str = ""


def clean(job: CleanJob, disk: Disk) -> Cleaned:
    """Take the step. For a job."""
    try:
        return Cleaned(job, job.cleaner.step(disk))
    except (OSError, BatchError) as error:
        return Cleaned(job, error=str(error))


@attrs.define(eq=False)
class _Round:
    replica: Replica
    cleaner: Cleaner
    job: CleanJob | None = None
    """The step that is under way."""
    writes_at: int = -1
    """The base offset of the new segment, once a part of it is written."""
    finished: CleanStep | None = None
    """A group that is to be replaced."""
    next_at: int = 0
    """When the next step may begin."""
    is_over: bool = False
    """Every group is replaced, as soon as the storage confirms it."""

    @property
    def is_idle(self) -> bool:
        """Whether the next step may be taken."""
        return self.job is None and self.finished is None and not self.is_over


class Cleaning:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        settings: CleanerSettings,
        replicas: Replicas,
        touched: Callable[[Replica], None],
        is_read: Callable[[str, int], bool],
        free_bytes: Callable[[], int],
        now: int,
    ) -> None:
        """`is_read`: whether a job reads files of this partition, which must not be replaced then."""
        self.jobs: list[CleanJob] = []
        """Steps to be taken; the broker empties it."""
        self.notes: list[str] = []
        """Sentences for the journal; the broker empties it."""
        self.gone: list[str] = []
        """Files whose names mean others now; the broker empties it."""
        self.has_cleaned = False
        """Whether marks have risen; the broker takes it back."""
        self._settings = settings
        self._replicas = replicas
        self._touched = touched
        self._is_read = is_read
        self._free_bytes = free_bytes
        self._round: _Round | None = None
        self._check_at = now + settings.backoff_ms if settings.is_enabled else NEVER
        self._given_up: set[Replica] = set()
        self.rounds_count = 0
        """Logs that were compacted."""

    @property
    def given_up_count(self) -> int:
        """Logs here that are not compacted any longer, since something is wrong with them."""
        return sum(map(self._is_of_here, self._given_up))

    def next_deadline(self) -> int:
        """When `settle` or `keep_up` has something to do."""
        running = self._round
        if running is None:
            return self._check_at
        if not self._is_here(running.replica):
            return AT_ONCE
        if running.finished is not None:
            return NEVER if self._is_read(*running.replica.key) else AT_ONCE
        if running.is_over:
            return NEVER if running.replica.log.awaits_files else AT_ONCE
        return running.next_at if running.job is None else NEVER

    def keep_up(self, now: int, wall: int) -> None:
        """Do what is due."""
        if self._round is None and now >= self._check_at:
            self._check_at = now + self._settings.backoff_ms
            self._begin(now, wall)
        elif (running := self._round) is not None and running.is_idle and running.next_at <= now:
            self._ask(running)

    # ------------------------------------------------------------------------------------------------------- beginning

    def _begin(self, now: int, wall: int) -> None:
        """Begin a round over the log with the largest dirty part."""
        found = [(each, replica) for replica in self._replicas if (each := self._cleanable(replica, wall)) is not None]
        if not found:
            return
        chosen, replica = max(found, key=lambda pair: pair[0].ratio)
        settings = replica.log.settings
        needed_bytes = min(settings.segment_bytes, sum(segment.size for segment in chosen.segments))
        if self._free_bytes() < needed_bytes:
            name = replica.log.directory
            self.notes.append(f"{name} is not compacted: the disk has no room for {needed_bytes} bytes more")
            return
        self._round = _Round(replica, self._cleaner(replica, chosen, wall), next_at=now)
        self._ask(self._round)

    def _cleanable(self, replica: Replica, wall: int) -> Cleanable | None:
        log = replica.log
        if not log.settings.is_compacted or log.failure is not None or replica in self._given_up:
            return None
        try:
            return cleanable(log, wall)
        except (OSError, BatchError) as error:
            self._give_up(replica, str(error))
            return None

    def _cleaner(self, replica: Replica, chosen: Cleanable, wall: int) -> Cleaner:
        log, own = replica.log, self._settings
        producers = {
            producer_id: (state.batches[-1].last_offset if state.batches else NO_DATA, state.epoch)
            for producer_id, state in log.producers.states.items()
        }
        rules = CleanRules(
            now_ms=wall,
            delete_retention_ms=log.settings.delete_retention_ms,
            output_bytes_max=output_limit(log.settings.max_message_bytes),
            producers=producers,
        )
        limits = CleanerLimits(
            segment_bytes=log.settings.segment_bytes,
            index_interval_bytes=log.settings.index_interval_bytes,
            map_bytes=own.map_bytes,
            map_load_factor=own.map_load_factor,
            piece_bytes=own.piece_bytes,
        )
        later = log.segments[len(chosen.segments) :]
        return Cleaner(
            tuple(map(Source.of, chosen.segments)), tuple(map(Source.of, later)), chosen.first_dirty, rules, limits
        )

    # ---------------------------------------------------------------------------------------------------------- steps

    def _ask(self, running: _Round) -> None:
        running.job = CleanJob(running.cleaner)
        self.jobs.append(running.job)

    def done(self, result: Cleaned, now: int) -> None:
        """A step was taken."""
        running = self._round
        if running is None or running.job is not result.job:
            return
        running.job = None
        step = result.step
        if step is None:
            if self._is_here(running.replica):
                self._give_up(running.replica, result.error)
            self._end(running)
            return
        if not self._is_here(running.replica):
            self._end(running)
            return
        if step.data:
            running.replica.log.compaction.write(step)
            running.writes_at = step.base_offset
            self._touched(running.replica)
        both_bytes = step.read_bytes + len(step.data)
        running.next_at = now + both_bytes * SECOND_MS // self._settings.bytes_a_second_max
        if step.segment is not None:
            running.finished = step
        elif running.next_at <= now:
            self._ask(running)

    def settle(self, now: int) -> None:
        """Replace a group that is finished, and end a round whose last group is replaced.

        Called at the beginning of a turn: what earlier turns have answered out of the files has left by then."""
        running = self._round
        if running is None:
            return
        log = running.replica.log
        if not self._is_here(running.replica):
            self._end(running)
        elif running.finished is not None and not self._is_read(*running.replica.key):
            self._replace(running, running.finished)
        elif running.is_over and not log.awaits_files:
            log.cleaned_end = max(log.cleaned_end, min(running.cleaner.cleaned_end, log.log_end))
            self.has_cleaned = True
            self.rounds_count += 1
            self._round = None
            # Another one may be due, or a part for which the map had no room.
            self._check_at = now

    def _replace(self, running: _Round, step: CleanStep) -> None:
        log = running.replica.log
        running.finished = None
        assert step.segment is not None
        if not log.compaction.has(step.replaces):
            self._end(running)
            return
        self.gone += log.compaction.replace(step.replaces, step.segment)
        self._touched(running.replica)
        running.writes_at = -1
        running.is_over = step.is_last
        if not step.is_last:
            self._ask(running)

    def _is_here(self, replica: Replica) -> bool:
        return self._is_of_here(replica) and replica.log.failure is None

    def _is_of_here(self, replica: Replica) -> bool:
        return self._replicas.get(*replica.key) is replica

    def _end(self, running: _Round) -> None:
        """Leave the round without its result."""
        if running.writes_at >= 0 and self._is_here(running.replica):
            running.replica.log.compaction.drop(running.writes_at)
            self._touched(running.replica)
        self._round = None

    def _give_up(self, replica: Replica, reason: str) -> None:
        self._given_up.add(replica)
        self.notes.append(f"{replica.log.directory} is not compacted any longer: {reason}")
