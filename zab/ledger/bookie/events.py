"""What a bookie's step is told, and what it asks for.

What its host keeps:

    Effects.journal   goes to the log thread, in order (`journal_files.py`); each append is answered by a JournalDurable
                      that may stand for several
    Effects.reads     are done in any order, by several threads; each is answered by ReadDone
    Effects.jobs      are done one after the other, in order (`entry_files.py`); each is answered by what its class says
    Effects.answers   go to their connections
    Effects.failure   ends the bookie

`Effects.takes_adds` says whether adds are to be read: a connection whose next request is an add has to wait while it is
False; fences and reads are read always, or no recovery could end against a full bookie.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import attrs

from zab.coordination.driver import FromCoordination, Submit
from zab.ledger.bookie.segment import Segment
from zab.ledger.wire.messages import Answer, Request

Mark: TypeAlias = tuple[int, int]
"""A position in the journal: the sequence of a file, and an offset in it."""
Connection: TypeAlias = Hashable
"""What the host knows a connection by."""
Number: TypeAlias = Any
"""What the host knows a request by: nothing is done with it but to give it back."""

# --------------------------------------------------------------------------------------------------------------- inputs


@attrs.define
class Asked:
    """A request. Its answer carries the same connection and number. Not frozen, since there is one for each entry."""

    connection: Connection
    number: Number
    request: Request


@attrs.frozen
class ConnectionClosed:
    """No request of this connection is answered any more."""

    connection: Connection


@attrs.frozen
class JournalDurable:
    """Every append up to this number is durable; `mark` is where the journal ends."""

    number: int
    mark: Mark


@attrs.frozen
class JournalFailed:
    """Nothing more can be journaled: final."""

    reason: str


@attrs.frozen
class ReadDone:
    """The bytes that were asked for, fewer at the end of a file; None: they could not be read."""

    token: int
    data: bytes | None


@attrs.frozen
class SegmentWritten:
    """A segment is durable."""

    segment: Segment


@attrs.frozen
class StateSaved:
    number: int


@attrs.frozen
class CheckpointSaved:
    mark: Mark


@attrs.frozen
class JournalPrepared:
    """There is an empty journal file for the next roll."""


@attrs.frozen
class Compacted:
    """A segment with the live records of others is durable; None: they had none. The old files are still there."""

    segment: Segment | None
    replaced: tuple[int, ...]


@attrs.frozen
class CompactedPart:
    """So many bytes of the new segment were written."""

    number: int
    size: int


@attrs.frozen
class SegmentsRemoved:
    numbers: tuple[int, ...]


@attrs.frozen
class JobFailed:
    """A job could not be done. `is_full`: for lack of room alone, and nothing has changed."""

    job: Job
    reason: str
    is_full: bool


@attrs.frozen
class Space:
    """The bytes that are free on the disk, and all."""

    free: int
    total: int


@attrs.frozen
class Ordered:
    """The operator wants it read-only, or does not insist any more."""

    read_only: bool


@attrs.frozen
class Collect:
    """The operator wants a round of collection now; `force`: also if it would delete many ledgers."""

    force: bool = False


@attrs.frozen
class LostEntries:
    """Entries of these ledgers may be lost: they are fenced, and that one of them is not here proves nothing."""

    keys: Mapping[int, bytes]
    """The master key of each."""


JobAnswer: TypeAlias = (
    SegmentWritten
    | StateSaved
    | CheckpointSaved
    | JournalPrepared
    | CompactedPart
    | Compacted
    | SegmentsRemoved
    | JobFailed
)
Input: TypeAlias = (
    Asked
    | ConnectionClosed
    | JournalDurable
    | JournalFailed
    | ReadDone
    | JobAnswer
    | Space
    | Ordered
    | Collect
    | LostEntries
    | FromCoordination
)

# -------------------------------------------------------------------------------------------------------------- effects


@attrs.define
class AppendJournal:
    """Append records (`records.py`); numbers rise."""

    number: int
    parts: list[bytes]
    """To be joined."""


@attrs.frozen
class ReadSegment:
    """Read bytes of a segment."""

    token: int
    number: int
    offset: int
    size: int


@attrs.frozen
class WriteSegment:
    """Write a generation of the write cache, by ledger and entry; SegmentWritten."""

    number: int
    entries: Mapping[int, Mapping[int, bytes]]
    """Nobody changes it again."""
    mark: Mark


@attrs.frozen
class SaveState:
    """Write the state of all ledgers (`state.py`); StateSaved."""

    number: int
    ledgers: tuple[bytes, ...]
    """Packed ledgers; each part has several."""
    count: int
    """How many ledgers there are in all parts."""
    tombstones: bytes
    """Packed runs."""


@attrs.frozen
class SaveCheckpoint:
    """Everything before `mark` is in segments and in the state of this number; then remove older journals and states.
    CheckpointSaved."""

    mark: Mark
    state: int


@attrs.frozen
class PrepareJournal:
    """Make a file for the next roll, unless there is one; JournalPrepared."""


@attrs.frozen
class Compact:
    """Begin to write what live ledgers have in these segments, which follow each other in age, into a new one;
    CompactedPart or Compacted."""

    number: int
    segments: tuple[Segment, ...]
    live: frozenset[int]


@attrs.frozen
class ContinueCompact:
    """Write the next piece of the segment of this number, whose compaction is under way; CompactedPart or Compacted."""

    number: int


@attrs.frozen
class RemoveSegments:
    """Remove the files of segments; SegmentsRemoved."""

    numbers: tuple[int, ...]


Job: TypeAlias = WriteSegment | SaveState | SaveCheckpoint | PrepareJournal | Compact | ContinueCompact | RemoveSegments


@attrs.define
class Effects:
    """What a step asks for."""

    journal: list[AppendJournal] = attrs.Factory(list)
    answers: list[tuple[Connection, Number, Answer]] = attrs.Factory(list)
    """The connection, the number of the request, the answer."""
    reads: list[ReadSegment] = attrs.Factory(list)
    jobs: list[Job] = attrs.Factory(list)
    submits: list[Submit] = attrs.Factory(list)
    """Operations for the coordination service."""
    asks_space: bool = False
    """Answer with `Space`, when it is convenient."""
    takes_adds: bool = True
    deleted: list[int] = attrs.Factory(list)
    """Ledgers that were deleted in this step, since they are gone from the metadata."""
    notes: list[str] = attrs.Factory(list)
    """Sentences for the journal of the process: what happens."""
    reports: list[str] = attrs.Factory(list)
    """Sentences that need the operator's attention."""
    failure: str | None = None
    """Why the bookie must end."""
