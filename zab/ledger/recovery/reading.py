"""What the bookies of the last fragment have: the LAC phase, and the verdict on each entry after it.

    LacPhase     a fencing read of the last entry, to the whole ensemble. Over when it is covered
                 (`zab.ledger.quorums.coverage`). Its result is the first entry of the fragment - 1, or a higher LAC
                 that a record proves; a LAC without a record's digest is not looked at
    EntryRead    a fencing read of one entry, to its whole write set. **Present** by one valid record. **Absent** as
                 soon as Qw - Qa + 1 members said that they do not have it. What is neither proves nothing

Which of the two comes first decides; what comes later is ignored. Every read fences: a bookie that the LAC phase did
not reach may otherwise say no, and then give an entry its last acknowledgement.

The ensemble is that of the metadata as the recovery found it, whatever happens to the members that entries are written
back to. A damaged record is no answer at all.
"""

from __future__ import annotations

import enum

from attrs import define, field

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, DigestMismatchError, Entry, MalformedEntryError, header_of
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.coverage import absent_needed, is_covered
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.recovery.asking import Asking
from zab.ledger.recovery.events import RecoverySettings
from zab.ledger.wire.messages import EntryRead as EntryReadAnswer
from zab.ledger.wire.messages import ReadEntry
from zab.ledger.wire.status import Status


@enum.unique
class Verdict(enum.Enum):
    PRESENT = "present"
    ABSENT = "absent"


def opened(digest: Digest, ledger: int, entry: int, envelope: bytes) -> Entry | None:
    """The entry in this envelope, None if it is damaged or another one. `entry` -1: any entry. A LAC that is not before
    its entry is damage where no digest covers it; else the entry is a copy that BookKeeper's repair made."""
    try:
        found = digest.open(envelope, ledger, header_of(envelope)[1] if entry == NONE else entry)
    except (DigestMismatchError, MalformedEntryError):
        return None
    is_sound = digest.type is not DigestType.DUMMY or NONE <= found.last_confirmed < found.entry
    return found if is_sound else None


@define
class LacPhase:
    """The fencing reads of the last entry."""

    _metadata: LedgerMetadata
    _ledger: int
    _digest: Digest
    asking: Asking
    start: int
    """After this entry the recovery reads: everything up to it was acknowledged, or belongs to an older fragment."""
    newest: Entry | None = None
    """The highest entry that was seen."""

    @classmethod
    def of(cls, ledger: int, metadata: LedgerMetadata, digest: Digest, settings: RecoverySettings) -> LacPhase:
        request = ReadEntry(ledger, NONE, digest.master_key, is_fencing=True, is_urgent=True)
        last = metadata.last_fragment
        asking = Asking.of(request, last.ensemble, settings)
        return cls(metadata, ledger, digest, asking, last.first - 1)

    @property
    def is_over(self) -> bool:
        metadata = self._metadata
        ensemble = metadata.last_fragment.ensemble
        silent = {index for index, bookie in enumerate(ensemble) if bookie not in self.asking.answered}
        return is_covered(silent, metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)

    def on_answer(self, bookie: BookieId, answer: EntryReadAnswer, now_ms: int) -> None:
        if answer.status.proves_absence:
            self.asking.on_proof(bookie)
        elif answer.status != Status.OK:
            self.asking.on_nothing(bookie, answer.status, now_ms)
        elif (entry := opened(self._digest, self._ledger, NONE, answer.envelope)) is None:
            self.asking.on_nothing(bookie, Status.IO_ERROR, now_ms)
        else:
            self.asking.on_proof(bookie)
            self.start = max(self.start, entry.proved_lac)
            if self.newest is None or entry.entry > self.newest.entry:
                self.newest = entry


@define
class EntryRead:
    """The reads of one entry."""

    entry: int
    _ledger: int
    _digest: Digest
    _absent_needed: int
    asking: Asking
    _absent: set[BookieId] = field(factory=set)
    verdict: Verdict | None = None
    envelope: bytes = b""
    """The valid record, as its writer made it."""
    length: int = 0
    """The payload bytes of the ledger up to this entry."""

    @classmethod
    def of(
        cls, ledger: int, entry: int, metadata: LedgerMetadata, digest: Digest, settings: RecoverySettings, fences: bool
    ) -> EntryRead:
        """`fences`: not for an entry that is known to be acknowledged, whose length alone is missing; it is absent only
        if all members say so, and then it is lost."""
        key = digest.master_key if fences else b""
        request = ReadEntry(ledger, entry, key, is_fencing=fences, is_urgent=True)
        ensemble = metadata.fragment_of(entry).ensemble
        members = [ensemble[index] for index in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]
        needed = absent_needed(metadata.write_quorum, metadata.ack_quorum) if fences else metadata.write_quorum
        return cls(entry, ledger, digest, needed, Asking.of(request, members, settings))

    def on_answer(self, bookie: BookieId, answer: EntryReadAnswer, now_ms: int) -> None:
        if not self.asking.is_open(bookie):
            return
        if answer.status.proves_absence:
            self.asking.on_proof(bookie)
            self._absent.add(bookie)
            if self.verdict is None and len(self._absent) >= self._absent_needed:
                self.verdict = Verdict.ABSENT
        elif answer.status != Status.OK:
            self.asking.on_nothing(bookie, answer.status, now_ms)
        elif (found := opened(self._digest, self._ledger, self.entry, answer.envelope)) is None:
            self.asking.on_nothing(bookie, Status.IO_ERROR, now_ms)
        else:
            self.asking.on_proof(bookie)
            if self.verdict is None:
                self.verdict = Verdict.PRESENT
                self.envelope, self.length = answer.envelope, found.length
