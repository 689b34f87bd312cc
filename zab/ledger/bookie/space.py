"""When a bookie is read-only: because its disk is full, or because the operator wants it.

The disk is full from a used share on (`read_only_share`), and has room again below a lower one (`writable_share`), or
it would change its mind with every flush. A job that found no room makes it full at once, and is tried again each time
that the space is looked at; the disk is full until it is done, however much seems to be free: a journal file needs more
than is left of a small disk, or there is a quota.

The **reserve** is for what may not be refused while it lasts: recovery, fences, flushes and compaction. Urgent adds are
taken until no more than the reserve is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import (
    CheckpointSaved,
    Job,
    JobAnswer,
    JournalPrepared,
    PrepareJournal,
    RemoveSegments,
    SaveCheckpoint,
    SaveState,
    SegmentsRemoved,
    SegmentWritten,
    Space,
    StateSaved,
    WriteSegment,
)

_DONE: Final[Mapping[type[JobAnswer], type[Job]]] = {
    SegmentWritten: WriteSegment,
    StateSaved: SaveState,
    CheckpointSaved: SaveCheckpoint,
    JournalPrepared: PrepareJournal,
    SegmentsRemoved: RemoveSegments,
}
"""Which job is done, by its answer; there is one of each kind at a time."""


class SpaceRule:
    """What is known of the disk."""

    def __init__(self, config: BookieConfig, now_ms: int) -> None:
        self._config = config
        self.known: Space | None = None
        self._is_full = False
        self._is_ordered = False
        self._without_room: dict[type[Job], Job] = {}
        """Jobs that found no room, and are not done since."""
        self._to_retry: list[Job] = []
        self._ask_at_ms = now_ms

    @property
    def is_read_only(self) -> bool:
        return self.is_full or self._is_ordered

    @property
    def is_full(self) -> bool:
        """Whether the disk is full, whatever the operator wants."""
        return self._is_full or bool(self._without_room)

    @property
    def has_reserve(self) -> bool:
        """Whether more than the reserve is free."""
        return self.known is None or self.known.free > self._config.reserve_bytes

    @property
    def deadline_ms(self) -> int:
        """When to ask for the space."""
        return self._ask_at_ms

    def asks(self, now_ms: int) -> bool:
        """Whether it is time to ask."""
        if now_ms < self._ask_at_ms:
            return False
        self._ask_at_ms = now_ms + self._config.space_check_ms
        return True

    def take(self, space: Space) -> None:
        """The answer."""
        self.known = space
        used = space.total - space.free
        if used >= self._config.read_only_share * space.total:
            self._is_full = True
        elif used < self._config.writable_share * space.total:
            self._is_full = False

    def found_no_room(self, job: Job) -> bool:
        """A job did not fit on the disk, and is tried again. Whether that is new."""
        is_new = type(job) not in self._without_room
        self._without_room[type(job)] = job
        self._to_retry.append(job)
        return is_new

    def lacks_room_for(self, kind: type[Job]) -> bool:
        """Whether a job of this kind found no room, and is not done since."""
        return kind in self._without_room

    def done(self, answer: JobAnswer) -> None:
        """A job is done."""
        self._without_room.pop(_DONE[type(answer)], None)

    def retry(self) -> list[Job]:
        """There may be room now: what is tried again."""
        jobs, self._to_retry = self._to_retry, []
        return jobs

    def order(self, *, read_only: bool) -> None:
        """The operator wants it read-only, or not any more."""
        self._is_ordered = read_only
