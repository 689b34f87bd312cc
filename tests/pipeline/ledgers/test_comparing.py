"""Bookies against the metadata of ledgers, without Spark: what is a deviation, and what is only stated."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from tests.ledger.metadata.ledgers import A, B, C, D
from tests.ledger.metadata.ledgers import ledger as metadata_of
from tests.pipeline.rigs.bookie_files import PAYLOAD, Bookies
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import ID_MAX
from zab.ledger.metadata.ledger_metadata import LedgerState
from zab.ledger.wire.messages import AddEntry
from zab.pipeline.jobs.verify_ledgers import LedgersVerified, given_in, verify_here
from zab.pipeline.ledgers.bookies import SegmentPart, find_bookies
from zab.pipeline.ledgers.comparing import DEVIATIONS, FINDINGS_MAX, STATED

STRIPED = {"ensemble_size": 3, "write_quorum": 2, "ack_quorum": 2}
DIGEST = Digest(DigestType.CRC32C, b"")


@pytest.fixture
def bookies(tmp_path: Path) -> Bookies:
    return Bookies(tmp_path)


def verified(bookies: Bookies, *dirs: Path, task_bytes: int = 1 << 20, ledgers: str | None = None) -> LedgersVerified:
    return verify_here(given_in(dirs or bookies.dirs, str(bookies.export()), ledgers), task_bytes=task_bytes)


def told(found: LedgersVerified) -> list[tuple[str, int | None, int | None, str | None]]:
    for each in found.findings:
        assert each.deviation == (each.kind in DEVIATIONS)
        assert each.deviation or each.kind in STATED
    return [(each.kind, each.entry, each.last, each.bookie) for each in found.findings]


@pytest.mark.parametrize("task_bytes", [1, 1 << 20])
def test_whole_ledgers_of_every_shape(bookies: Bookies, task_bytes: int) -> None:
    bookies.ledger(1, 20)
    bookies.ledger(2, 20, **STRIPED)
    bookies.ledger(3, 12, fragments=((0, (A, B, C)), (5, (D, B, C))), digest_type=DigestType.HMAC, password=b"x")
    bookies.flush()
    bookies.ledger(4, 6, digest_type=DigestType.DUMMY)
    bookies.ledger(5, 0, state=LedgerState.CLOSED, last=-1, length=0)
    found = verified(bookies, task_bytes=task_bytes)
    assert told(found) == []
    assert (found.ledger_count, found.closed_count, found.bookie_count) == (5, 5, 4)
    assert found.copy_count == 3 * 20 + 2 * 20 + 3 * 12 + 3 * 6


def test_fewer_than_the_ack_quorum_is_missing(bookies: Bookies) -> None:
    bookies.ledger(1, 10, without={"a": [3, 4, 7], "b": [4, 5]})
    found = verified(bookies)
    assert told(found) == [
        ("missing", 4, 4, None),
        ("fewer", 3, 3, "a"),
        ("fewer", 5, 5, "b"),
        ("fewer", 7, 7, "a"),
    ]
    assert found.findings[0].sentence == "1 whole copies, and the ack quorum is 2; it should be on a, b"


def test_consecutive_entries_are_one_finding(bookies: Bookies) -> None:
    bookies.ledger(1, 10, without={"a": range(2, 6), "b": range(2, 6), "c": range(7, 9)})
    assert told(verified(bookies)) == [("missing", 2, 5, None), ("fewer", 7, 8, "c")]


def test_entries_that_no_bookie_has_are_one_finding(bookies: Bookies) -> None:
    bookies.ledger(1, 6)
    bookies.metadata[1] = metadata_of(fragments=((0, (A, B, C)), (100, (B, C, D)))).closed_at(ID_MAX - 5, 48)
    found = verified(bookies)
    assert told(found) == [("missing", 6, 99, None), ("missing", 100, ID_MAX - 5, None)]
    assert "the fragment from 100 is on b, c, d" in found.findings[1].sentence


def test_bookies_that_were_not_given_may_have_it(bookies: Bookies) -> None:
    bookies.ledger(1, 4)
    bookies.ledger(2, 6, **STRIPED)
    one, two = bookies.named["a"].root, bookies.named["b"].root
    assert told(verified(bookies, one, two, ledgers="1")) == []
    assert told(verified(bookies, one, ledgers="1")) == [("partial", 0, 3, None)]
    # Entries 0, 3 are on a and b; 1, 4 on b and c; 2, 5 on c and a.
    found = verified(bookies, one, two, ledgers="2")
    assert told(found) == [("partial", 1, 2, None), ("partial", 4, 5, None)]
    assert "not given: c" in found.findings[0].sentence


def test_the_copy_that_differs_is_told_with_its_place(bookies: Bookies) -> None:
    bookies.ledger(1, 6)
    bookies.named["b"].append_again(1, 4, 3, DIGEST, b"other %d")
    bookies.flush()
    [found] = verified(bookies).findings
    assert (found.kind, found.entry, found.bookie, found.deviation) == ("differs", 4, "b", True)
    assert found.file is not None
    assert found.position is not None
    assert b"other 4" in Path(found.file).read_bytes()[found.position : found.position + 60]
    bookies.named["a"].append_again(1, 4, 3, DIGEST, b"third %d")
    assert told(verified(bookies)) == [("missing", 4, 4, None), *(("differs", 4, 4, name) for name in "abc")]


def test_an_envelope_that_recovery_made_again_does_not_differ(bookies: Bookies) -> None:
    bookies.ledger(1, 6)
    bookies.named["b"].append_again(1, 4, 1, DIGEST, PAYLOAD)
    assert told(verified(bookies)) == []


def test_damage(bookies: Bookies) -> None:
    bookies.ledger(1, 6)
    bookies.flush()
    (part,) = next(iter(find_bookies(bookies.named["c"].root, {1}.__contains__))).parts[1]
    assert isinstance(part, SegmentPart)
    file = Path(part.file.path)
    content = bytearray(file.read_bytes())
    content[part.row.offset + 40] ^= 1
    file.write_bytes(content)
    found = verified(bookies)
    assert told(found) == [("damaged", None, None, "c"), ("fewer", 0, 0, "c")]
    assert (found.findings[0].file, found.findings[0].position) == (str(file), part.row.offset)
    content[part.row.index_offset] ^= 1
    file.write_bytes(content)
    assert told(verified(bookies)) == [("damaged", None, None, "c"), ("fewer", 0, 5, "c")]
    content[-1] ^= 1
    file.write_bytes(content)
    found = verified(bookies)
    assert told(found) == [("damaged", None, None, "c"), ("fewer", 0, 5, "c")]
    assert found.findings[0].ledger is None


def test_the_bytes_of_no_writer(bookies: Bookies) -> None:
    """The checksum of the bookie is right, and the digest is not."""
    bookies.ledger(1, 4, digest_type=DigestType.HMAC, password=b"x")
    envelope = Digest(DigestType.HMAC, b"other").pack(Entry(1, 2, 1, 21, PAYLOAD % 2))
    bookies.named["a"].add(AddEntry(1, 2, Digest(DigestType.HMAC, b"x").master_key, envelope))
    assert told(verified(bookies)) == [("damaged", 2, 2, "a")]


def test_what_is_only_stated(bookies: Bookies) -> None:
    bookies.ledger(1, 4)
    bookies.named["d"].append_again(1, 2, 1, DIGEST, PAYLOAD)
    bookies.named["a"].append_again(1, 4, 3, DIGEST, PAYLOAD)
    bookies.ledger(2, 4, state=LedgerState.OPEN, without={"a": range(4), "b": range(4)})
    bookies.ledger(3, 2, state=LedgerState.IN_RECOVERY)
    bookies.ledger(8, 2)
    del bookies.metadata[8]
    found = verified(bookies)
    assert sorted(told(found), key=str) == sorted(
        [
            ("stray", 2, 2, "d"),
            ("beyond", 4, 4, "a"),
            ("open", None, None, None),
            ("open", None, None, None),
            *(("unknown", None, None, name) for name in "abc"),
        ],
        key=str,
    )
    assert not any(each.deviation for each in found.findings)


def test_the_length_of_a_closed_ledger(bookies: Bookies) -> None:
    bookies.ledger(1, 4)
    closed = bookies.metadata[1]
    bookies.metadata[1] = evolve(closed, length=closed.length + 1)
    assert told(verified(bookies)) == [("length", 3, 3, None)]


def test_findings_are_told_up_to_a_limit(bookies: Bookies) -> None:
    count = 2 * FINDINGS_MAX + 10
    bookies.ledger(1, count, without={"a": range(0, count, 2), "b": range(0, count, 2)})
    found = verified(bookies)
    assert len(found.findings) == FINDINGS_MAX + 1
    assert [each.kind for each in found.findings].count("more") == 1
