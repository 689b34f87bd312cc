"""Learning the last confirmed entry, and only with its proof.

A LAC counts if it comes from the header of a record whose digest was checked, or from the packet of an explicit
LAC. A last fragment that begins at F proves F - 1. What a bookie says without a digest (`max_lac`) decides whom to
ask, never what may be read. A bookie that does not know the ledger gives no information: it may have lost it.

The answer is known when the proofs cover the ensemble (`zab.ledger.quorums.coverage`): then no acknowledged entry can
be on silent bookies alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from attrs import define, field

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, DigestMismatchError, MalformedEntryError, header_of
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.coverage import is_covered
from zab.ledger.reader.events import LacLearnt, LacUnknown
from zab.ledger.wire.messages import LacRead
from zab.ledger.wire.status import Status


def proved_lac(digest: Digest, ledger: int, answer: LacRead) -> int | None:
    """The highest LAC that this answer proves; -1: that of a bookie that has heard of none; None: it proves nothing. A
    LAC that is not before its entry is damage where no digest covers it, and is not counted in any case."""
    proved: list[int] = []
    if answer.packet:
        with suppress(DigestMismatchError):
            proved.append(digest.open_lac(answer.packet, ledger))
    if answer.envelope:
        with suppress(DigestMismatchError, MalformedEntryError):
            entry = digest.open(answer.envelope, ledger, header_of(answer.envelope)[1])
            if digest.type is not DigestType.DUMMY or entry.last_confirmed < entry.entry:
                proved.append(entry.proved_lac)
    return max(proved, default=None)


@define(eq=False)
class LacQuestion:
    """One question, to all members of the last fragment; each is asked once."""

    token: Hashable
    deadline_ms: int
    _metadata: LedgerMetadata
    lac: int = NONE
    _answered: set[BookieId] = field(factory=set)
    _unknown: dict[BookieId, Status | None] = field(factory=dict)

    @classmethod
    def of(cls, token: Hashable, metadata: LedgerMetadata, known: int, deadline_ms: int) -> LacQuestion:
        ensemble = metadata.last_fragment.ensemble
        return cls(token, deadline_ms, metadata, known, set(), dict.fromkeys(ensemble))

    def on_answer(self, bookie: BookieId, status: Status, proved: int | None) -> None:
        """`proved`: what the answer proves, None: nothing."""
        if bookie not in self._unknown:
            return
        if status == Status.OK and proved is not None:
            del self._unknown[bookie]
            self._answered.add(bookie)
            self.lac = max(self.lac, proved)
        else:
            self._unknown[bookie] = Status.IO_ERROR if status == Status.OK else status

    def outcome(self, now_ms: int) -> LacLearnt | LacUnknown | None:
        """None: not yet."""
        metadata = self._metadata
        silent = {at for at, each in enumerate(metadata.last_fragment.ensemble) if each in self._unknown}
        if is_covered(silent, metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum):
            return LacLearnt(self.lac)
        if now_ms >= self.deadline_ms or None not in self._unknown.values():
            return LacUnknown(self.lac, frozenset(self._answered), dict(self._unknown))
        return None
