"""The metadata of one ledger: a frozen value with its invariants.

    metadata.fragment_of(entry)                         the fragment that an entry is in
    metadata.with_ensemble(first, ensemble)             the writer's change: a new last fragment, or another ensemble
    metadata.with_member(first, index, bookie)          re-replication's change: one member of one fragment
    metadata.recovering()                               a recoverer begins
    metadata.closed_at(last, length)                    the end

A change makes a new value; nobody changes one in place. The bytes of a znode are the business of `serialized`, who may
make which change that of `changes`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final

from attrs import evolve, field, frozen

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import ID_MAX, BookieId
from zab.ledger.quorums.write_sets import ENSEMBLE_SIZE_MAX

NONE: Final = -1
"""In place of the last entry of a ledger that is empty or not closed."""
FORMAT_VERSION: Final = 3
"""The newest form of a znode's bytes."""


class InvalidMetadataError(ValueError):
    """A value that breaks an invariant of ledger metadata."""


class LedgerState(IntEnum):
    """With the numbers of BookKeeper's metadata."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@frozen
class Fragment:
    """Entries from `first` on, up to the next fragment: an ordered ensemble of distinct bookies."""

    first: int
    ensemble: tuple[BookieId, ...]


@frozen(kw_only=True)
class LedgerMetadata:
    """Constructing one that breaks an invariant raises InvalidMetadataError."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    state: LedgerState = LedgerState.OPEN
    fragments: tuple[Fragment, ...]
    """In order of their first entries."""
    last: int = NONE
    """The last entry of a closed ledger, -1 if it is empty; -1 if it is not closed."""
    length: int = 0
    """Bytes of payload of a closed ledger; 0 if it is not closed."""
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    ctime_ms: int | None = None
    """Milliseconds since 1970; None: the znode's own time counts."""
    custom: Mapping[str, bytes] = field(factory=dict, hash=False)
    token: int | None = None
    """Random, of the creator: decides whether a create whose answer was lost was its own."""
    format_version: int = FORMAT_VERSION
    """The form of the znode's bytes, which every rewrite keeps."""
    has_password: bool = True
    """Whether the bytes have digest type and password; those of BookKeeper 4.1 and before do not."""
    undeclared: bytes = field(default=b"", repr=False)
    """Fields of the bytes that this version does not know, which every rewrite keeps."""

    def __attrs_post_init__(self) -> None:
        if (broken := next(_broken(self), None)) is not None:
            raise InvalidMetadataError(broken)

    @property
    def last_fragment(self) -> Fragment:
        return self.fragments[-1]

    @property
    def is_open(self) -> bool:
        return self.state == LedgerState.OPEN

    @property
    def is_closed(self) -> bool:
        return self.state == LedgerState.CLOSED

    @property
    def bookies(self) -> frozenset[BookieId]:
        """The members of all fragments."""
        return frozenset(bookie for fragment in self.fragments for bookie in fragment.ensemble)

    def fragment_of(self, entry: int) -> Fragment:
        """The fragment that this entry (from 0) is in, or would be in."""
        assert entry >= 0, entry
        return self.fragments[bisect_right(self.fragments, entry, key=_first) - 1]

    def end_of(self, fragment: Fragment) -> int | None:
        """The last entry of this fragment; None: of the last fragment of a ledger that is not closed."""
        at = bisect_right(self.fragments, fragment.first, key=_first)
        if at < len(self.fragments):
            return self.fragments[at].first - 1
        return self.last if self.is_closed else None

    # --------------------------------------------------------------------------------------------------- other values

    def with_ensemble(self, first: int, ensemble: Sequence[BookieId]) -> LedgerMetadata:
        """From this entry on, another ensemble: the last fragment is replaced if it begins there, else one follows."""
        fragments = self.fragments
        if first == fragments[-1].first:
            fragments = fragments[:-1]
        return evolve(self, fragments=(*fragments, Fragment(first, tuple(ensemble))))

    def with_member(self, first: int, index: int, bookie: BookieId) -> LedgerMetadata:
        """Another bookie at this index of the fragment that begins there. Raises InvalidMetadataError."""
        fragments = tuple(
            Fragment(first, (*each.ensemble[:index], bookie, *each.ensemble[index + 1 :]))
            if each.first == first
            else each
            for each in self.fragments
        )
        if fragments == self.fragments or not 0 <= index < self.ensemble_size:
            raise InvalidMetadataError(f"{bookie} for index {index} of the fragment from {first} changes nothing")
        return evolve(self, fragments=fragments)

    def recovering(self) -> LedgerMetadata:
        return evolve(self, state=LedgerState.IN_RECOVERY, last=NONE, length=0)

    def closed_at(self, last: int, length: int) -> LedgerMetadata:
        return evolve(self, state=LedgerState.CLOSED, last=last, length=length)


def _first(fragment: Fragment) -> int:
    return fragment.first


def _broken(metadata: LedgerMetadata) -> Iterator[str]:
    """What is wrong with a value, one sentence each."""
    size, writes, acks = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
    if not 1 <= acks <= writes <= size:
        yield f"quorums are {size}/{writes}/{acks}, not 1 <= ack <= write <= ensemble"
    if size > ENSEMBLE_SIZE_MAX:
        yield f"an ensemble of {size} bookies, at most {ENSEMBLE_SIZE_MAX} are possible"
    if not metadata.fragments:
        yield "there is no fragment"
        return
    firsts = [fragment.first for fragment in metadata.fragments]
    if firsts[0] != 0:
        yield f"the first fragment begins at entry {firsts[0]}"
    if any(first >= following for first, following in pairwise(firsts)):
        yield f"fragments are not in order: {firsts[:20]}"
    if firsts[-1] > ID_MAX:
        yield f"a fragment begins at entry {firsts[-1]}"
    for fragment in metadata.fragments:
        if len(set(fragment.ensemble)) != size or len(fragment.ensemble) != size:
            yield f"the fragment from {fragment.first} has not {size} distinct bookies: {fragment.ensemble[:20]}"
    yield from _broken_end(metadata)
    if not 1 <= metadata.format_version <= FORMAT_VERSION:
        yield f"format version {metadata.format_version}"


def _broken_end(metadata: LedgerMetadata) -> Iterator[str]:
    last, length = metadata.last, metadata.length
    if not metadata.is_closed:
        if (last, length) != (NONE, 0):
            yield f"the end {last} with {length} bytes of a ledger that is not closed"
    elif last < metadata.last_fragment.first - 1:
        yield f"the end {last} before the last fragment, which begins at {metadata.last_fragment.first}"
    elif not 0 <= length <= ID_MAX or last > ID_MAX or (last == NONE and length > 0):
        yield f"{length} bytes up to entry {last}"


@frozen
class VersionedMetadata:
    """What a read of a ledger's znode found. `version`: of the znode's data, for the next change."""

    ledger: int
    metadata: LedgerMetadata
    version: int
