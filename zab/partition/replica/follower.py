"""A follower: how one replica copies the log of its leader, and where it cuts its own when the two differ.

    asks                what it fetches next: from its end on, with the epoch of its last batch
    take(…)             an answer of the leader
    take_offsets(…)     where the leader's log begins and ends, after OFFSET_OUT_OF_RANGE

An answer counts only if this broker still follows in the leader epoch that it named, and its log still ends where it
asked from (KAFKA-13207, KAFKA-8012): a late one may be of a log that was cut since.

A log is cut only where the leader's history parts from it (KIP-101, KIP-279; said in the answer to a fetch, KIP-595),
never to the high watermark, which lags. The leader answers with its largest epoch that is not above the follower's
last, and where that ends. The follower cuts to there, or to the end of its own largest epoch below, and asks again;
each round ends in an earlier epoch.

The high watermark is that of the leader, as far as the log goes; it may fall right after an election. It is not taken
from an answer that says that the histories part (KAFKA-14704).

Not here: when to fetch, and what else is fetched with it (`fetcher`).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartitionData
from zab.partition.image.partition_state import NO_EPOCH
from zab.partition.log.errors import LogError, LogFailedError
from zab.partition.log.log import Log
from zab.partition.records.batch import BatchError, walk
from zab.partition.replica.replica import Replica


class Next(Enum):
    """When it fetches again."""

    AT_ONCE = "at once"
    LATER = "after a pause"
    ON_NEW_STATE = "when the controller has said something newer"
    AFTER_OFFSETS = "when it knows where the leader's log begins and ends"


@attrs.frozen
class Question:
    """What a fetch of one partition names."""

    offset: int
    last_epoch: int
    log_start: int


_BY_ERROR: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Next.AFTER_OFFSETS,
    ErrorCode.FENCED_LEADER_EPOCH: Next.ON_NEW_STATE,
}
"""All others are over some time."""


@attrs.define(eq=False)
class Follower:
    """One replica, in one leader epoch."""

    replica: Replica
    epoch: int
    notes: list[str]
    """Sentences for the journal are added here."""

    @property
    def asks(self) -> Question:
        """What it fetches next."""
        log = self.replica.log
        return Question(log.log_end, log.latest_epoch, log.log_start)

    @property
    def is_stored(self) -> bool:
        """Whether its end counts: to fetch from an offset is to say that everything below is stored."""
        return self.replica.stored_end >= self.replica.log.log_end

    @property
    def is_current(self) -> bool:
        """Whether the replica still follows in this epoch."""
        state = self.replica.state
        return self.replica.source is not None and state is not None and state.leader_epoch == self.epoch

    # -------------------------------------------------------------------------------------------------------- answers

    def take(self, asked: Question, data: FetchPartitionData, wall_ms: int) -> Next:
        """Take the answer to `asked`."""
        log = self.replica.log
        if not self.is_current or log.log_end != asked.offset or log.latest_epoch != asked.last_epoch:
            return Next.AT_ONCE
        try:
            if data.error_code:
                return _BY_ERROR.get(ErrorCode(data.error_code), Next.LATER)
            if data.diverging_epoch.epoch != NO_EPOCH:
                self._cut(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                self._copy(log, data, wall_ms)
        except LogFailedError:
            return Next.ON_NEW_STATE
        except (BatchError, LogError, OSError, ValueError) as error:
            self.notes.append(f"{self._name}: an answer of the leader cannot be taken: {error}")
            return Next.LATER
        return Next.AT_ONCE

    @property
    def _name(self) -> str:
        return f"{self.replica.topic}-{self.replica.index}"

    def _copy(self, log: Log, data: FetchPartitionData, wall_ms: int) -> None:
        if data.records:
            records = memoryview(data.records)
            log.append_as_follower(records, [header for _, header in walk(records)], wall_ms)
        mark = log.update_high_watermark(data.high_watermark)
        log.advance_start(min(data.log_start_offset, mark))

    def _cut(self, epoch: int, end_offset: int) -> None:
        log = self.replica.log
        own_epoch, own_end = log.end_offset_for(epoch)
        if own_epoch == NO_EPOCH:
            cut = end_offset
        elif own_epoch != epoch:
            cut = own_end
        else:
            cut = min(own_end, end_offset)
        self._truncate(min(cut, log.log_end), f"the leader's epoch {epoch} ends at {end_offset}")

    def _truncate(self, offset: int, reason: str) -> None:
        log = self.replica.log
        before, mark = log.log_end, log.high_watermark
        log.truncate(max(0, offset))
        lost = "" if log.log_end >= mark else f", below the high watermark {mark}: what was committed is lost here"
        self.notes.append(f"{self._name} is cut from {before} to {log.log_end}: {reason}{lost}")

    # -------------------------------------------------------------------------------------------------- out of range

    def take_offsets(self, latest: int, earliest: int, wall_ms: int) -> Next:
        """The leader's log begins and ends there."""
        log = self.replica.log
        if not self.is_current:
            return Next.AT_ONCE
        try:
            if latest < log.log_end:
                self._truncate(latest, "the leader's log ends there")
            elif earliest > log.log_end:
                self.notes.append(f"{self._name} begins again at {earliest}: the leader has nothing older")
                log.truncate_fully_and_start_at(earliest, wall_ms)
            else:
                # In range by now.
                return Next.LATER
        except LogFailedError:
            return Next.ON_NEW_STATE
        except OSError as error:
            self.notes.append(f"{self._name} cannot be cut: {error}")
            return Next.LATER
        return Next.AT_ONCE
