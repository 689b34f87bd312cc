"""A ledger's metadata: what it may be, where an entry is, and the values that changes lead to."""

from typing import Any

import pytest

from tests.ledger.metadata.ledgers import A, B, C, D, E, ledger
from zab.ledger.entries.ids import ID_MAX, BookieId
from zab.ledger.metadata.ledger_metadata import (
    Fragment,
    InvalidMetadataError,
    LedgerState,
    VersionedMetadata,
)
from zab.ledger.quorums.write_sets import ENSEMBLE_SIZE_MAX

CLOSED = LedgerState.CLOSED
THREE = ((0, (A, B, C)), (10, (A, D, C)), (15, (A, D, E)))


def test_fragments_of_entries() -> None:
    metadata = ledger(fragments=THREE)
    firsts = [metadata.fragment_of(entry).first for entry in (0, 9, 10, 14, 15, 1_000_000)]
    assert firsts == [0, 0, 10, 10, 15, 15]
    assert metadata.last_fragment == Fragment(15, (A, D, E))
    assert metadata.bookies == {A, B, C, D, E}


def test_ends_of_fragments() -> None:
    open_ledger = ledger(fragments=THREE)
    assert [open_ledger.end_of(each) for each in open_ledger.fragments] == [9, 14, None]
    closed = open_ledger.closed_at(20, 500)
    assert [closed.end_of(each) for each in closed.fragments] == [9, 14, 20]


def test_the_last_fragment_is_replaced_if_it_begins_at_that_entry() -> None:
    metadata = ledger(fragments=THREE).with_ensemble(15, [B, D, E])
    assert metadata.fragments[-2:] == (Fragment(10, (A, D, C)), Fragment(15, (B, D, E)))


def test_a_fragment_follows_if_it_begins_later() -> None:
    metadata = ledger(fragments=THREE).with_ensemble(16, [B, D, E])
    assert metadata.fragments[-2:] == (Fragment(15, (A, D, E)), Fragment(16, (B, D, E)))
    with pytest.raises(InvalidMetadataError, match="not in order"):
        ledger(fragments=THREE).with_ensemble(12, [B, D, E])


def test_one_member_is_replaced() -> None:
    metadata = ledger(fragments=THREE).with_member(10, 2, B)
    assert metadata.fragments == (Fragment(0, (A, B, C)), Fragment(10, (A, D, B)), Fragment(15, (A, D, E)))


@pytest.mark.parametrize(("first", "index", "bookie"), [(10, 2, C), (11, 0, B), (10, 3, B), (10, -1, B)])
def test_a_replacement_that_changes_nothing_is_refused(first: int, index: int, bookie: Any) -> None:
    with pytest.raises(InvalidMetadataError, match="changes nothing"):
        ledger(fragments=THREE).with_member(first, index, bookie)


def test_states() -> None:
    metadata = ledger()
    assert metadata.is_open
    assert metadata.recovering().state == LedgerState.IN_RECOVERY
    assert not metadata.recovering().is_open
    closed = metadata.recovering().closed_at(7, 70)
    assert closed.is_closed
    assert (closed.last, closed.length) == (7, 70)
    assert closed.recovering() == metadata.recovering()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"write_quorum": 4}, "quorums are 3/4/2"),
        ({"ack_quorum": 0}, "quorums are 3/3/0"),
        ({"write_quorum": 2, "ack_quorum": 3}, "quorums are 3/2/3"),
        ({"fragments": ()}, "there is no fragment"),
        ({"fragments": ((1, (A, B, C)),)}, "the first fragment begins at entry 1"),
        ({"fragments": ((0, (A, B, C)), (0, (A, B, D)))}, "fragments are not in order"),
        ({"fragments": ((0, (A, B, C)), (9, (A, B, D)), (8, (A, B, C)))}, "fragments are not in order"),
        ({"fragments": ((0, (A, B, B)),)}, "has not 3 distinct bookies"),
        ({"fragments": ((0, (A, B)),)}, "has not 3 distinct bookies"),
        ({"fragments": ((0, (A, B, C, C)),)}, "has not 3 distinct bookies"),
        ({"last": 4}, "the end 4 with 0 bytes of a ledger that is not closed"),
        ({"length": 4}, "the end -1 with 4 bytes of a ledger that is not closed"),
        ({"state": CLOSED, "fragments": THREE, "last": 13, "length": 1}, "the end 13 before the last fragment"),
        ({"state": CLOSED, "last": -2}, "the end -2 before the last fragment"),
        ({"state": CLOSED, "last": 3, "length": -1}, "-1 bytes up to entry 3"),
        ({"state": CLOSED, "last": -1, "length": 1}, "1 bytes up to entry -1"),
        ({"fragments": ((0, (A, B, C)), (ID_MAX + 1, (A, B, D)))}, "a fragment begins at entry 9223372036854775808"),
        ({"state": CLOSED, "last": ID_MAX + 1, "length": 1}, "1 bytes up to entry 9223372036854775808"),
        ({"state": CLOSED, "last": 3, "length": ID_MAX + 1}, "9223372036854775808 bytes up to entry 3"),
        ({"format_version": 0}, "format version 0"),
        ({"format_version": 4}, "format version 4"),
    ],
)
def test_what_breaks_an_invariant_cannot_be_made(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMetadataError, match=words):
        ledger(**broken)


def test_the_size_of_an_ensemble_is_limited() -> None:
    """A znode has room for hundreds of thousands of names, whose write sets would have 10^10 members."""
    names = tuple(BookieId(f"b{number}") for number in range(ENSEMBLE_SIZE_MAX + 1))
    largest = ledger(ensemble_size=ENSEMBLE_SIZE_MAX, fragments=((0, names[:-1]),))
    assert len(largest.last_fragment.ensemble) == ENSEMBLE_SIZE_MAX
    with pytest.raises(InvalidMetadataError, match=f"an ensemble of {ENSEMBLE_SIZE_MAX + 1} bookies"):
        ledger(ensemble_size=ENSEMBLE_SIZE_MAX + 1, fragments=((0, names),))


def test_an_empty_last_fragment_may_stay_in_a_closed_ledger() -> None:
    """BookKeeper's recovery leaves it there."""
    assert ledger(fragments=THREE).closed_at(14, 100).end_of(Fragment(15, (A, D, E))) == 14


def test_values_are_compared_and_the_password_is_not_shown() -> None:
    metadata = ledger(password=b"secret", custom={"application": b"x"})
    assert metadata == ledger(password=b"secret", custom={"application": b"x"})
    assert hash(metadata) == hash(ledger(password=b"secret", custom={"application": b"y"}))
    assert "secret" not in repr(VersionedMetadata(1, metadata, 0))
