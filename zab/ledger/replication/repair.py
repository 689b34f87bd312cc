"""One ledger that is being repaired, and what is wrong with it.

    lost       a member is not registered: another bookie takes its place. That holds for a member without entries too,
               or the auditor would find the ledger again and again
    damaged    a member is registered and lacks entries: they are copied back to it
    open       the last fragment may get entries yet, and names a bookie that is not registered: its writer is given
               time to replace it; after that the ledger is recovered

Not here: how that is done (`worker`, `copying`), how it is found (`check`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from attrs import define, field, frozen

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.metadata.repair_locks import Record
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.reader.events import DigestError, EntryLost, ReadOutcome, ReadUnavailable
from zab.ledger.replication.check import Missing
from zab.ledger.replication.members import Member, Run, complete_members, share_of


@frozen
class Task:
    """What one member needs. `is_lost`: another bookie gets these entries, and its place."""

    member: Member
    runs: Missing
    is_lost: bool

    def runs_of(self, metadata: LedgerMetadata) -> Iterator[Run]:
        return share_of(metadata, self.member) if self.runs is None else iter(self.runs)


@define(eq=False)
class Repair:
    """The state of one repair, which has its ledger's lock."""

    record: Record
    rounds: int = 0
    """How often the ledger was checked."""
    versioned: VersionedMetadata | None = None
    registered: frozenset[BookieId] = frozenset()
    tasks: list[Task] = field(factory=list)
    """What is to be done yet, the next one last."""
    failed_targets: set[BookieId] = field(factory=set)
    grace_until_ms: int | None = None
    """Until then the writer may replace the bookie of the last fragment."""
    failure: str | None = None
    """Why some task of this round could not be done; the others are done all the same."""
    lost: tuple[int, frozenset[BookieId]] | None = None
    """An entry that no registered bookie has, and the bookies that may have it."""

    @property
    def ledger(self) -> int:
        return self.record.ledger

    @property
    def named(self) -> frozenset[BookieId]:
        """The bookies that the record names: they are asked for lists of their entries."""
        return frozenset(self.record.content.missing)


def tasks_of(metadata: LedgerMetadata, registered: Set[BookieId], missing: Mapping[Member, Missing]) -> list[Task]:
    """What is to be done, lost members first: their copies are gone."""
    members = list(complete_members(metadata))
    lost = [Task(member, None, is_lost=True) for member in members if member.bookie not in registered]
    back = [
        Task(member, missing[member], is_lost=False)
        for member in members
        if member.bookie in registered and member in missing
    ]
    return [*lost, *back]


def is_lost_for_good(metadata: LedgerMetadata, outcome: ReadOutcome, registered: Set[BookieId]) -> bool:
    """Whether no bookie that is registered has this entry: then another attempt is of no use until one comes back."""
    match outcome:
        case EntryLost():
            return True
        case ReadUnavailable(entry, said):
            return all(
                bookie not in registered or (bookie in said and said[bookie].proves_absence)
                for bookie in replicas_of(metadata, entry)
            )
        case DigestError(entry, damaged):
            return all(bookie not in registered or bookie in damaged for bookie in replicas_of(metadata, entry))
    return False


def replicas_of(metadata: LedgerMetadata, entry: int) -> list[BookieId]:
    """The bookies that have to have this entry."""
    ensemble = metadata.fragment_of(entry).ensemble
    return [ensemble[index] for index in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]
