"""The table of changes: who may make which, and what nobody may."""

from typing import Any

import pytest
from attrs import evolve

from tests.ledger.metadata.ledgers import A, B, C, D, E, F, ledger
from zab.ledger.entries.digests import DigestType
from zab.ledger.metadata.changes import (
    BY_RECOVERY,
    BY_REPLICATION,
    BY_WRITER,
    Change,
    ForbiddenChangeError,
    check_change,
)
from zab.ledger.metadata.ledger_metadata import LedgerMetadata

TWO: Any = ((0, (A, B, C)), (10, (A, D, C)))
OPEN = ledger(fragments=TWO)
RECOVERING = OPEN.recovering()
CLOSED = OPEN.closed_at(19, 190)


def with_fragments(metadata: LedgerMetadata, *fragments: Any) -> LedgerMetadata:
    return evolve(metadata, fragments=ledger(fragments=fragments).fragments)


ALLOWED = {
    "another ensemble of the last fragment": (OPEN, OPEN.with_ensemble(10, [E, F, C]), Change.ENSEMBLE),
    "a fragment more": (OPEN, OPEN.with_ensemble(11, [A, B, E]), Change.ENSEMBLE),
    "the writer closes": (OPEN, CLOSED, Change.CLOSE),
    "the writer closes an empty last fragment": (OPEN, OPEN.closed_at(9, 90), Change.CLOSE),
    "recovery begins": (OPEN, RECOVERING, Change.RECOVER),
    "recovery closes": (RECOVERING, CLOSED, Change.RECOVERED),
    "recovery closes on another ensemble": (
        RECOVERING,
        RECOVERING.with_ensemble(10, [A, D, E]).closed_at(12, 120),
        Change.RECOVERED,
    ),
    "recovery closes with more fragments": (
        RECOVERING,
        RECOVERING.with_ensemble(10, [A, D, E]).with_ensemble(11, [A, B, E]).closed_at(12, 120),
        Change.RECOVERED,
    ),
    "recovery drops an empty last fragment": (
        RECOVERING,
        with_fragments(RECOVERING, TWO[0]).closed_at(9, 90),
        Change.RECOVERED,
    ),
    "recovery keeps an empty last fragment": (RECOVERING, RECOVERING.closed_at(9, 90), Change.RECOVERED),
    "a member of an open ledger": (OPEN, OPEN.with_member(0, 1, E), Change.MEMBER),
    "a member while it is recovered": (RECOVERING, RECOVERING.with_member(0, 1, E), Change.MEMBER),
    "a member of a closed ledger": (CLOSED, CLOSED.with_member(0, 1, E), Change.MEMBER),
    "a member of its last fragment": (CLOSED, CLOSED.with_member(10, 1, E), Change.MEMBER),
}


@pytest.mark.parametrize(("before", "after", "change"), ALLOWED.values(), ids=ALLOWED)
def test_what_may_be_changed(before: LedgerMetadata, after: LedgerMetadata, change: Change) -> None:
    assert check_change(before, after) == change
    for group in (BY_WRITER, BY_RECOVERY, BY_REPLICATION):
        if change in group:
            assert check_change(before, after, group) == change
        else:
            with pytest.raises(ForbiddenChangeError, match="not by this one"):
                check_change(before, after, group)


FORBIDDEN = {
    "nothing changes": (OPEN, OPEN, "0 members change at once"),
    "another end": (CLOSED, OPEN.closed_at(20, 190), "the end of a closed ledger moves from 19 to 20"),
    "another length": (CLOSED, OPEN.closed_at(19, 191), "the end of a closed ledger moves"),
    "closed is opened": (CLOSED, OPEN, "CLOSED does not become OPEN"),
    "closed is recovered by force": (CLOSED, RECOVERING, "CLOSED does not become IN_RECOVERY"),
    "the writer goes on after recovery began": (RECOVERING, OPEN, "IN_RECOVERY does not become OPEN"),
    "fragments with the beginning of recovery": (
        OPEN,
        OPEN.with_ensemble(10, [A, D, E]).recovering(),
        "with the beginning of a recovery",
    ),
    "fragments with the closing": (
        OPEN,
        OPEN.with_ensemble(10, [A, D, E]).closed_at(19, 190),
        "when the writer closes",
    ),
    "two members": (CLOSED, CLOSED.with_member(0, 1, E).with_member(0, 2, F), "2 members change at once"),
    "the same member of two fragments": (
        CLOSED,
        CLOSED.with_member(0, 0, E).with_member(10, 0, E),
        "2 members change at once",
    ),
    "a member of the last fragment while it is recovered": (
        RECOVERING,
        RECOVERING.with_member(10, 1, E),
        "the ledger is not closed",
    ),
    "a fragment less": (OPEN, with_fragments(OPEN, TWO[0]), "the first entries of fragments change"),
    "two fragments more": (
        OPEN,
        OPEN.with_ensemble(11, [A, B, E]).with_ensemble(12, [A, B, F]),
        "the first entries of fragments change",
    ),
    "an older fragment and one more": (
        OPEN,
        OPEN.with_member(0, 1, E).with_ensemble(11, [A, B, E]),
        "the first entries of fragments change",
    ),
    "an older fragment and the last one": (
        OPEN,
        OPEN.with_member(0, 1, E).with_ensemble(10, [A, B, E]),
        "3 members change at once",
    ),
    "the last fragment begins elsewhere": (
        OPEN,
        with_fragments(OPEN, TWO[0], (11, (A, D, C))),
        "the first entries of fragments change",
    ),
    "a fragment while it is recovered": (
        RECOVERING,
        RECOVERING.with_ensemble(11, [A, B, E]),
        "the first entries of fragments change",
    ),
    "recovery changes an older fragment": (
        RECOVERING,
        RECOVERING.with_member(0, 1, E).closed_at(19, 190),
        "a fragment before the last one",
    ),
    "recovery goes below the last fragment (S2)": (
        RECOVERING,
        with_fragments(RECOVERING, (0, (A, E, C))).closed_at(19, 190),
        "a fragment before the last one",
    ),
    "recovery moves the last fragment's beginning": (
        RECOVERING,
        with_fragments(RECOVERING, TWO[0], (11, (A, D, C))).closed_at(19, 190),
        "began at 10, after recovery at 11",
    ),
    "recovery loses the ensemble of entries": (
        RECOVERING,
        with_fragments(RECOVERING, TWO[0]).closed_at(10, 100),
        "ends at 10, in a last fragment that is gone",
    ),
    "recovery truncates an older fragment": (
        RECOVERING,
        with_fragments(RECOVERING, TWO[0]).closed_at(8, 80),
        "ends at 8, before the last fragment",
    ),
}


@pytest.mark.parametrize(("before", "after", "words"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_nobody_may_change(before: LedgerMetadata, after: LedgerMetadata, words: str) -> None:
    with pytest.raises(ForbiddenChangeError, match=words):
        check_change(before, after)


@pytest.mark.parametrize(
    "differs",
    [
        {"password": b"other"},
        {"digest_type": DigestType.CRC32},
        {"ack_quorum": 3},
        {"write_quorum": 2},
        {"custom": {"a": b"b"}},
        {"token": 7},
        {"ctime_ms": 7},
        {"format_version": 2},
        {"has_password": False},
        {"undeclared": b"x"},
    ],
)
def test_what_a_ledger_was_created_with_stays(differs: dict[str, Any]) -> None:
    with pytest.raises(ForbiddenChangeError, match="was created with"):
        check_change(OPEN, evolve(CLOSED, **differs))
