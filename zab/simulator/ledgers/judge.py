"""What the users of ledgers sent, were told and read, and whether it is right. The rules have the numbers of the
guarantees of a ledger.

    "G1"        an entry that was acknowledged to the caller of `append` is in the closed ledger
    "G2"        there is one end, and everybody reads the same entries up to it
    "G3"        an entry has the same bytes wherever it is
    "G4"        acknowledgements come in the order of entries, without gaps
    "G5"        what is at or below any LAC that was sent or shown was acknowledged, and stays
    "G6"        each entry of a ledger that is closed has an ack quorum of copies on the bookies that its metadata name
    "repair"    a bookie that takes the place of another has what that one had to have, before the metadata name it
    outcomes    what was said not to be written is never read; what nobody knows about is read once at most

A copy counts from the moment when its bookie says OK. One that is lost with a disk was one: it counts where promises
ask for what bookies had, and `losses` says what may be lost, and what cannot be done afterwards.

Not here: which changes metadata may go through (`metadata_judge`), what a bookie may answer (`bookie_judge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from enum import Enum

import attrs

from zab.ledger.entries.envelope import Digest, header_of
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.managed.sweep import CURSOR_KEY
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.write_sets import write_set
from zab.simulator.world.verdict import SafetyError, demand


class Outcome(Enum):
    """What the caller of an append was told."""

    PENDING = "pending"
    WRITTEN = "written"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


@attrs.define(eq=False)
class Appended:
    """One append: its payload, which no other append has, and what its caller was told."""

    payload: bytes
    entry: int | None = None
    """Which entry it became, if it was told."""
    outcome: Outcome = Outcome.PENDING


@attrs.define(eq=False)
class Ledger:
    """What is known of one ledger."""

    id: int
    metadata: LedgerMetadata
    """What the coordination service has now."""
    envelopes: dict[int, bytes] = attrs.Factory(dict)
    """The bytes of each entry that anybody sent."""
    payloads: dict[int, bytes] = attrs.Factory(dict)
    acknowledged: int = NONE
    """The highest entry that was acknowledged to its caller."""
    shown: int = NONE
    """The highest LAC that was sent, or shown to a reader."""
    is_deleted: bool = False
    copies: dict[int, set[BookieId]] = attrs.Factory(dict)
    """The bookies that have acknowledged each entry."""

    digest: Digest = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.digest = Digest(self.metadata.digest_type, self.metadata.password)

    @property
    def name(self) -> str:
        return f"ledger {self.id}"

    def ensemble_of(self, entry: int) -> list[BookieId]:
        """The bookies that have to have this entry, as the metadata say."""
        metadata = self.metadata
        ensemble = metadata.fragment_of(entry).ensemble
        return [ensemble[index] for index in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]

    def copies_of(self, entry: int) -> int:
        """How many of them have it, or lost it with a disk."""
        return len(self.copies.get(entry, set()).intersection(self.ensemble_of(entry)))


class Judge:
    """See the docstring of the module."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.ledgers: dict[int, Ledger] = {}
        self.appends: dict[bytes, Appended] = {}
        self.lost: set[BookieId] = set()
        """Bookies that have lost their disks, and never come back."""

    def of(self, ledger: int) -> Ledger:
        """What is known of a ledger."""
        found = self.ledgers.get(ledger)
        if found is None:
            raise SafetyError("no strange ledgers", f"ledger {ledger} was never created")
        return found

    @property
    def not_closed(self) -> list[int]:
        """The ledgers that are there and not closed."""
        return [each.id for each in self.ledgers.values() if not each.is_deleted and not each.metadata.is_closed]

    @property
    def not_repaired(self) -> list[int]:
        """The closed ledgers that name a bookie which lost its disk, and have lost no entry."""
        found = (self.ledgers[each] for each in self.closed)
        return [each.id for each in found if each.metadata.bookies & self.lost and lost_entry(each, self.lost) is None]

    @property
    def closed(self) -> list[int]:
        """The ledgers that are there and closed."""
        return [each.id for each in self.ledgers.values() if not each.is_deleted and each.metadata.is_closed]

    # --------------------------------------------------------------------------------------------------------- writing

    def appends_to(self, payload: bytes) -> None:
        """A caller appends this payload."""
        assert payload not in self.appends
        self.appends[payload] = Appended(payload)
        self.counts["appends"] += 1

    def sends(self, ledger: int, envelope: bytes) -> None:
        """Somebody sends an entry to a bookie."""
        known = self.of(ledger)
        entry, lac = header_of(envelope)[1:3]
        self._has_bytes(known, entry, envelope, "is sent")
        if entry not in known.payloads:
            payload = known.digest.open(envelope, ledger, entry).payload
            if payload not in self.appends:
                raise SafetyError("no strange entries", f"entry {entry} of {known.name} was never appended")
            known.payloads[entry] = payload
        self.shows(ledger, lac, f"entry {entry}")
        demand(lac < entry, "G5", f"entry {entry} of {known.name} has the LAC {lac}")

    def has_bytes(self, ledger: int, entry: int, envelope: bytes, where: str) -> None:
        """Somebody has these bytes for an entry."""
        self._has_bytes(self.of(ledger), entry, envelope, where)

    def _has_bytes(self, known: Ledger, entry: int, envelope: bytes, where: str) -> None:
        before = known.envelopes.setdefault(entry, envelope)
        if before != envelope:
            raise SafetyError("G3", f"entry {entry} of {known.name} {where} with other bytes than before")

    def shows(self, ledger: int, lac: int, where: str) -> None:
        """A LAC is sent, or shown to a reader."""
        known = self.of(ledger)
        if lac > known.acknowledged and not (known.metadata.is_closed and lac <= known.metadata.last):
            reason = f"the LAC {lac} of {known.name} is in {where}, acknowledged up to {known.acknowledged}"
            raise SafetyError("G5", reason)
        known.shown = max(known.shown, lac)

    def acknowledged(self, ledger: int, entry: int, payload: bytes) -> None:
        """The caller of `append` is told that its payload is this entry."""
        known, append = self.of(ledger), self.appends[payload]
        self.counts["entries acknowledged"] += 1
        demand(append.outcome is Outcome.PENDING, "outcomes", f"{_short(payload)} has two outcomes")
        append.entry, append.outcome = entry, Outcome.WRITTEN
        if known.payloads.get(entry) != payload:
            reason = f"entry {entry} of {known.name} is acknowledged as {_short(payload)}, which it is not"
            raise SafetyError("G3", reason)
        if entry != known.acknowledged + 1:
            raise SafetyError("G4", f"entry {entry} of {known.name} is acknowledged after {known.acknowledged}")
        known.acknowledged = entry
        metadata = known.metadata
        if metadata.is_closed and entry > metadata.last:
            raise SafetyError("G1", f"entry {entry} of {known.name} is acknowledged, it ends at {metadata.last}")
        if known.copies_of(entry) < metadata.ack_quorum:
            reason = (
                f"entry {entry} of {known.name} is acknowledged with {known.copies_of(entry)} copies on "
                f"{', '.join(known.ensemble_of(entry))}, as the metadata say"
            )
            raise SafetyError("G1", reason)

    def is_told(self, ledger: int, payload: bytes, outcome: Outcome, entry: int | None = None) -> None:
        """The caller is told that its payload was not written, or that nobody knows; or later what became of that."""
        append = self.appends[payload]
        self.counts[f"appends: {outcome.value}"] += 1
        may_be = (Outcome.PENDING, Outcome.UNKNOWN) if outcome is not Outcome.UNKNOWN else (Outcome.PENDING,)
        text = f"{_short(payload)} was {append.outcome.value}, and is {outcome.value}"
        demand(append.outcome in may_be, "outcomes", text)
        append.outcome, append.entry = outcome, entry
        known = self.ledgers.get(ledger)
        if known is not None and known.metadata.is_closed:
            self._judge_outcome(known, append)

    def _judge_outcome(self, known: Ledger, append: Appended) -> None:
        """Against the end of a closed ledger."""
        entry = next((entry for entry, payload in known.payloads.items() if payload == append.payload), None)
        is_in = entry is not None and entry <= known.metadata.last
        said = append.outcome
        if said is Outcome.NOT_WRITTEN and is_in:
            text = f"{_short(append.payload)} was not written, and is entry {entry} of {known.name}"
            raise SafetyError("outcomes", text)
        if said is Outcome.WRITTEN and (not is_in or append.entry not in (None, entry)):
            raise SafetyError("outcomes", f"{_short(append.payload)} was written, and is no entry of {known.name}")

    # --------------------------------------------------------------------------------------------------------- bookies

    def has_copy(self, bookie: BookieId, ledger: int, entry: int) -> None:
        """A bookie says that it has an entry durably."""
        self.of(ledger).copies.setdefault(entry, set()).add(bookie)

    def loses_disk(self, bookie: BookieId) -> None:
        """A bookie has lost everything. It never comes back under its name."""
        self.lost.add(bookie)
        self.counts["lost disks"] += 1

    # -------------------------------------------------------------------------------------------------------- metadata

    def created(self, ledger: int, metadata: LedgerMetadata) -> None:
        """A ledger comes."""
        assert ledger not in self.ledgers
        self.ledgers[ledger] = Ledger(ledger, metadata)
        self.counts["ledgers"] += 1

    def changed(self, ledger: int, metadata: LedgerMetadata) -> None:
        """The metadata of a ledger are these now."""
        known = self.of(ledger)
        self._judge_members(known, metadata)
        is_end = metadata.is_closed and not known.metadata.is_closed
        is_moved = metadata.last_fragment != known.metadata.last_fragment
        known.metadata = metadata
        if is_end:
            self.counts["ledgers closed"] += 1
            self._judge_end(known)
        elif is_moved:
            if metadata.is_open and CURSOR_KEY in metadata.custom:
                self.learns(known, metadata.last_fragment.first - 1)
            self._judge_move(known)

    def deleted(self, ledger: int) -> None:
        """A ledger goes, which is allowed when it is closed."""
        known = self.of(ledger)
        demand(known.metadata.is_closed, "states", f"{known.name} is {known.metadata.state.name}, and is deleted")
        known.is_deleted = True
        self.counts["ledgers deleted"] += 1

    def _judge_members(self, known: Ledger, metadata: LedgerMetadata) -> None:
        """Members of complete fragments are replaced."""
        complete = len(known.metadata.fragments) - (not known.metadata.is_closed)
        if len(metadata.fragments) < len(known.metadata.fragments):
            return
        pairs = zip(known.metadata.fragments[:complete], metadata.fragments, strict=False)
        for before, after in ((before, after) for before, after in pairs if before != after):
            end = known.metadata.end_of(before)
            assert end is not None
            self.counts["members replaced by repair"] += 1
            for entry in range(before.first, end + 1):
                indexes = write_set(entry, metadata.ensemble_size, metadata.write_quorum)
                new = {after.ensemble[index] for index in indexes if after.ensemble[index] != before.ensemble[index]}
                if not new <= known.copies.get(entry, set()):
                    reason = f"{', '.join(sorted(new))} becomes a member of {known.name} without entry {entry}"
                    raise SafetyError("repair", reason)

    def learns(self, known: Ledger, last: int) -> None:
        """The entries of a cursor's ledger are nobody's append: its writer's LACs and fragments show what it takes as
        acknowledged."""
        for entry in range(known.acknowledged + 1, last + 1):
            self.acknowledged(known.id, entry, known.payloads[entry])

    def _judge_move(self, known: Ledger) -> None:
        """The last fragment has other bookies: what was acknowledged stays where it is."""
        first = known.metadata.last_fragment.first
        for entry in range(first, known.acknowledged + 1):
            if known.copies_of(entry) < known.metadata.ack_quorum:
                reason = (
                    f"entry {entry} of {known.name} was acknowledged, and has {known.copies_of(entry)} copies on "
                    f"{', '.join(known.ensemble_of(entry))}, where its fragment is now"
                )
                raise SafetyError("G1", reason)

    def _judge_end(self, known: Ledger) -> None:
        """A ledger has come to its end."""
        last = known.metadata.last
        if known.acknowledged > last:
            reason = f"{known.name} is closed at {last}, entry {known.acknowledged} was acknowledged"
            raise SafetyError("G1", reason)
        if known.shown > last:
            raise SafetyError("G5", f"{known.name} is closed at {last}, after the LAC {known.shown} was shown")
        missing = [entry for entry in range(last + 1) if entry not in known.payloads]
        if missing:
            raise SafetyError("G2", f"{known.name} is closed at {last}, and nobody ever sent entry {missing[0]}")
        length = sum(len(known.payloads[entry]) for entry in range(last + 1))
        if known.metadata.length != length:
            reason = f"{known.name} is closed with {known.metadata.length} bytes, its entries have {length}"
            raise SafetyError("G2", reason)
        for entry in range(last + 1):
            if known.copies_of(entry) < known.metadata.ack_quorum:
                reason = (
                    f"{known.name} is closed at {last}, and entry {entry} has {known.copies_of(entry)} copies on "
                    f"{', '.join(known.ensemble_of(entry))}"
                )
                raise SafetyError("G6", reason)

    # --------------------------------------------------------------------------------------------------------- readers

    def reads(self, ledger: int, entry: int, payload: bytes) -> None:
        """A reader is given an entry."""
        known = self.of(ledger)
        self.counts["entries read"] += 1
        if known.payloads.get(entry) != payload:
            raise SafetyError("G2", f"entry {entry} of {known.name} is read as {_short(payload)}, which it is not")
        if known.metadata.is_closed:
            demand(entry <= known.metadata.last, "G2", f"entry {entry} is read beyond the end of {known.name}")
        elif entry > known.acknowledged:
            raise SafetyError("G5", f"entry {entry} of {known.name} is read, acknowledged up to {known.acknowledged}")
        known.shown = max(known.shown, entry)

    def hears_end(self, ledger: int, last: int) -> None:
        """Somebody is told where a ledger ends."""
        known = self.of(ledger)
        if not known.metadata.is_closed or known.metadata.last != last:
            end = known.metadata.last if known.metadata.is_closed else "open"
            raise SafetyError("G2", f"the end of {known.name} is said to be {last}, and is {end}")

    def cannot_read(self, ledger: int, outcome: object) -> None:
        """A reader is told that an entry is lost or damaged, up to a LAC that was shown."""
        known = self.of(ledger)
        if not known.is_deleted and lost_entry(known, self.lost) is None:
            raise SafetyError("G5", f"{known.name} cannot be read: {outcome}")

    def is_whole(self, ledger: int, entries: Iterable[int]) -> None:
        """At the end of a run, a closed ledger was read from its beginning: these entries, in this order."""
        known = self.of(ledger)
        found = list(entries)
        self.counts["ledgers read whole"] += 1
        if found != list(range(known.metadata.last + 1)):
            raise SafetyError("G2", f"{known.name} ends at {known.metadata.last}, and is read as {_ranges(found)}")

    def finish(self) -> None:
        """All ledgers are closed, unless they can never be: what callers were told is right."""
        where = dict(self._places())
        for append in self.appends.values():
            place = where.get(append.payload)
            if append.outcome is Outcome.NOT_WRITTEN and place is not None:
                text = f"{_short(append.payload)} was not written, and is entry {place[1]} of ledger {place[0]}"
                raise SafetyError("outcomes", text)
            if append.outcome is Outcome.WRITTEN and place is None:
                raise SafetyError("G1", f"{_short(append.payload)} was acknowledged, and is in no ledger")

    def _places(self) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Which entry of which ledger each payload is, that can be read; or could be, until the ledger was deleted, or
        lost too many disks to be closed."""
        found = set[bytes]()
        for known in self.ledgers.values():
            end = known.metadata.last if known.metadata.is_closed else known.acknowledged
            for entry, payload in known.payloads.items():
                if entry > end:
                    continue
                if payload in found:
                    raise SafetyError("outcomes", f"{_short(payload)} is in the ledgers twice")
                found.add(payload)
                yield payload, (known.id, entry)


def lost_entry(known: Ledger, lost: Set[BookieId]) -> int | None:
    """The first entry that readers may ask for, and that no bookie has; None: there is none."""
    end = known.metadata.last if known.metadata.is_closed else max(known.acknowledged, known.shown)
    for entry in range(end + 1):
        if known.copies.get(entry, set()).intersection(known.ensemble_of(entry)) <= lost:
            return entry
    return None


def _short(payload: bytes) -> str:
    """The name of a payload, which is what it begins with."""
    return payload.split(b" ", 1)[0].decode()


def _ranges(entries: list[int]) -> str:
    return f"{entries[:3]}…{entries[-3:]}" if len(entries) > 6 else str(entries)
