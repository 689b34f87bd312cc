"""Compares the copies of the entries of one ledger, on its bookies and in an object store, with what the metadata say.

    compare(work) -> Compared        the findings in a range of entries of one ledger

Of a **closed** ledger, each entry up to the last one is on at least Qa bookies of its write set, with the same payload
and length, and a digest that is right. A bookie of the write set that lacks it, where Qa others have it, is only
stated: re-replication brings it back. Of a ledger that is **not closed**, a writer or a recovery may still be under
way: only what is there is compared.

Of a ledger with a **copy in an object store**, no entry that the copy has is missing: readers find it there. If bookies
no longer need to have the ledger, the copy has to have all of it, and what bookies still have is only compared.

Copies are compared by payload and length, not by their bytes: a recovery makes an envelope again, with another last
confirmed entry. Where they differ, most copies are taken to be right; that in the object store counts as one.

Bookies whose directories were not given may have an entry: what depends on them is stated as `partial`.

Invariants: nothing is written, bookies may be running. Memory: a fingerprint for each copy of the range. Limits:
FINDINGS_MAX of a range; a gap in all copies is one finding, however long it is. Not here: which directories there are
(`bookies`), Spark (`zab.pipeline.jobs.verify_ledgers`).
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from attrs import define, evolve, frozen

from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.write_sets import write_set
from zab.pipeline.ledgers.bookies import Fault
from zab.pipeline.ledgers.rows import Piece, copies

__all__ = ["DEVIATIONS", "FINDINGS_MAX", "STATED", "Compared", "LedgerFinding", "Work", "compare"]

FINDINGS_MAX: Final = 100
"""So many findings are told of a range; one more says that there are more."""
_DIGEST_BYTES: Final = 16
_NOT_COPIED: Final = "bookies no longer need to have the ledger, and its copy does not have this"

DEVIATIONS: Final = {
    "missing": "neither the ack quorum of the write set nor a copy in an object store has the entry of a closed ledger",
    "differs": "a payload or length that differs from most copies of the entry",
    "damaged": "bytes that differ from what was written, or a file that may contain entries and cannot be read",
    "length": "the length in the last entry of a closed ledger, or the end of its copy, differs from the metadata",
    "more": "more findings than are reported",
}
STATED: Final = {
    "fewer": "the ack quorum has the entry, and this bookie of the write set lacks it",
    "copied": "fewer bookies than the ack quorum have the entry, and the copy in the object store has it",
    "partial": "bookies were not given, so it is not known whether the ack quorum has the entry",
    "stray": "an entry on a bookie that is not in its write set",
    "beyond": "an entry after the last one of a closed ledger, which was never confirmed",
    "open": "the ledger is not closed: only the copies that are there were compared",
    "unknown": "a bookie has entries of a ledger that the metadata do not have",
}


@frozen
class LedgerFinding:
    """One row. Entries `entry` to `last`, inclusive. `position` is the byte in the file. A file without a bookie is an
    object in a store."""

    ledger: int | None
    entry: int | None
    last: int | None
    bookie: str | None
    file: str | None
    position: int | None
    kind: str
    deviation: bool
    sentence: str


@frozen(eq=False)
class Work:
    """Entries [start, until) of one ledger: what each bookie that was given, and the copy in an object store, has of
    them."""

    ledger: int
    metadata: LedgerMetadata | None
    start: int
    until: int
    pieces: tuple[Piece, ...]
    given: frozenset[str]
    """All bookies that were given."""
    is_on_bookies: bool = True
    """Whether bookies have to have the entries."""

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)


@frozen
class Compared:
    """What was found in a range. The counts are those of copies."""

    findings: tuple[LedgerFinding, ...]
    copy_count: int
    byte_count: int


@frozen
class _Seen:
    """A copy of an entry. `bookie` None: in an object store."""

    bookie: str | None
    fingerprint: bytes
    length: int
    is_right: bool
    file: str
    position: int


@define
class _Findings:
    """Collects findings; those of consecutive entries that say the same are one."""

    ledger: int
    kept: list[LedgerFinding]
    is_cut: bool = False

    def add(
        self, kind: str, sentence: str, entry: int | None, bookie: str | None, where: tuple[str, int] | None = None
    ) -> None:
        file, position = where or (None, None)
        found = LedgerFinding(self.ledger, entry, entry, bookie, file, position, kind, kind in DEVIATIONS, sentence)
        for at in range(len(self.kept) - 1, max(len(self.kept) - 8, -1), -1):
            before = self.kept[at]
            same = (before.kind, before.bookie, before.sentence) == (kind, bookie, sentence)
            if same and before.last is not None and entry == before.last + 1 and before.file == file:
                self.kept[at] = evolve(before, last=entry)
                return
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(found)
        elif not self.is_cut:
            self.is_cut = True
            sentence = f"more than {FINDINGS_MAX} findings in a part of this ledger; no more are told"
            self.kept.append(evolve(found, kind="more", deviation=True, sentence=sentence, bookie=None, file=None))

    def add_run(self, kind: str, sentence: str, entry: int, last: int) -> None:
        """One finding for all these entries, about no bookie in particular."""
        self.add(kind, sentence, entry, None)
        if self.kept[-1].entry == entry and not self.is_cut:
            self.kept[-1] = evolve(self.kept[-1], last=last)


def compare(work: Work) -> Compared:
    """The findings of a range. Raises PipelineError if a file was removed meanwhile."""
    findings = _Findings(work.ledger, [])
    seen: dict[int, list[_Seen]] = {}
    count = size = 0
    for piece in work.pieces:
        faults: list[Fault] = []
        for copy in copies(piece, faults):
            count, size = count + 1, size + len(copy.envelope)
            payload = copy.envelope if copy.payload is None else copy.payload
            fingerprint = blake2b(payload, digest_size=_DIGEST_BYTES).digest()
            is_right = copy.is_right is not False
            found = _Seen(piece.bookie, fingerprint, copy.length, is_right, str(copy.part.file), copy.offset)
            seen.setdefault(copy.entry, []).append(found)
        for fault in faults:
            findings.add("damaged", fault.reason, None, piece.bookie, (fault.file, fault.offset))
    metadata = work.metadata
    end = metadata.last + 1 if metadata is not None and metadata.is_closed else 0
    expected = work.start
    for entry, kept in sorted(seen.items()):
        _judge_gap(work, expected, min(entry, end), findings)
        expected = max(expected, entry + 1)
        _judge(work, entry, kept, findings)
    _judge_gap(work, expected, min(work.until, end), findings)
    return Compared(tuple(findings.kept), count, size)


def _judge_gap(work: Work, start: int, until: int, findings: _Findings) -> None:
    """Entries [start, until) of a closed ledger, of which no copy is here. There may be very many."""
    metadata = work.metadata
    if start < until and not work.is_on_bookies:
        findings.add_run("missing", _NOT_COPIED, start, until - 1)
        return
    while metadata is not None and start < until:
        fragment = metadata.fragment_of(start)
        last = metadata.end_of(fragment)
        end = until if last is None else min(until, last + 1)
        # The write sets of a fragment repeat.
        few = range(start, min(end, start + metadata.ensemble_size))
        most = min((_not_given(work, metadata, entry) for entry in few), key=len)
        kind = "partial" if len(most) >= metadata.ack_quorum else "missing"
        bookies = ", ".join(sorted(fragment.ensemble))
        findings.add_run(kind, f"no copy is here; the fragment from {fragment.first} is on {bookies}", start, end - 1)
        start = end


def _not_given(work: Work, metadata: LedgerMetadata, entry: int) -> list[str]:
    return [bookie for bookie in _write_set(metadata, entry) if bookie not in work.given]


def _write_set(metadata: LedgerMetadata, entry: int) -> list[str]:
    """The bookies that the entry should be on."""
    ensemble = metadata.fragment_of(entry).ensemble
    return [str(ensemble[index]) for index in write_set(entry, metadata.ensemble_size, metadata.write_quorum)]


def _judge(work: Work, entry: int, kept: list[_Seen], findings: _Findings) -> None:
    metadata = work.metadata
    for each in kept:
        if not each.is_right:
            where = (each.file, each.position)
            findings.add(
                "damaged", "the digest is wrong: these are not the bytes of a writer", entry, each.bookie, where
            )
    right = [each for each in kept if each.is_right]
    good = right
    counted = Counter((each.fingerprint, each.length) for each in right).most_common()
    if len(counted) > 1:
        first, most = counted[0]
        is_decided = most > counted[1][1]
        good = [each for each in right if (each.fingerprint, each.length) == first] if is_decided else []
        for each in right:
            if each not in good:
                others = "most copies have others" if is_decided else "no payload is in more copies than another"
                whose = "in the object store, " if each.bookie is None else ""
                sentence = f"{whose}another payload or length: {others}"
                findings.add("differs", sentence, entry, each.bookie, (each.file, each.position))
    if metadata is None or not metadata.is_closed:
        return
    if entry > metadata.last:
        for each in kept:
            sentence = f"an entry after the last one, {metadata.last}, which was never confirmed"
            findings.add("beyond", sentence, entry, each.bookie, (each.file, each.position))
        return
    _judge_quorum(work, metadata, entry, good, kept, findings)
    if entry == metadata.last and good and good[0].length != metadata.length:
        sentence = f"the last entry says {good[0].length} bytes, the metadata {metadata.length}"
        findings.add("length", sentence, entry, None)


def _judge_quorum(
    work: Work, metadata: LedgerMetadata, entry: int, good: Sequence[_Seen], kept: Sequence[_Seen], findings: _Findings
) -> None:
    having = {each.bookie for each in good}
    is_copied = None in having
    if not work.is_on_bookies:
        if not is_copied:
            findings.add("missing", _NOT_COPIED, entry, None)
        return
    wanted = _write_set(metadata, entry)
    there = {each.bookie for each in kept}
    for each in kept:
        if each.bookie is not None and each.bookie not in wanted:
            sentence = "the write set of the entry does not have this bookie"
            findings.add("stray", sentence, entry, each.bookie, (each.file, each.position))
    count = sum(bookie in having for bookie in wanted)
    lacking = [bookie for bookie in wanted if bookie in work.given and bookie not in having]
    others = _not_given(work, metadata, entry)
    if count >= metadata.ack_quorum:
        for bookie in lacking:
            if bookie not in there:
                findings.add("fewer", "the ack quorum has the entry, and this bookie lacks it", entry, bookie)
    elif is_copied:
        sentence = f"{count} of {metadata.ack_quorum} copies are on the bookies; the object store has the entry"
        findings.add("copied", sentence, entry, None)
    elif count + len(others) >= metadata.ack_quorum:
        names = ", ".join(sorted(others))
        findings.add("partial", f"{count} of {metadata.ack_quorum} copies are here; not given: {names}", entry, None)
    else:
        names = ", ".join(sorted(lacking))
        sentence = f"{count} whole copies, and the ack quorum is {metadata.ack_quorum}; it should be on {names}"
        findings.add("missing", sentence, entry, None)
