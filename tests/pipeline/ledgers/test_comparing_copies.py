"""Bookies against the copies of ledgers in object stores, without Spark: which entries are not missing, and which copy
differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from tests.ledger.metadata.ledgers import ledger as metadata_of
from tests.pipeline.rigs.bookie_files import Bookies, length_of
from tests.pipeline.rigs.copied_ledgers import LOG, UID, CopiedLedgers
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest
from zab.ledger.managed.objects import data_name, index_name
from zab.pipeline.jobs.verify_ledgers import LedgersVerified, given_in, verify_here
from zab.pipeline.ledgers.comparing import DEVIATIONS, STATED

DIGEST = Digest(DigestType.CRC32C, b"")
EVERY = range(10)


@pytest.fixture
def copied(tmp_path: Path) -> CopiedLedgers:
    """Three bookies, and a store. Ledger 9 is on them alone, so that there are always metadata."""
    bookies = Bookies(tmp_path / "bookies", ("a", "b", "c"))
    bookies.ledger(9, 1)
    return CopiedLedgers(bookies, str(tmp_path / "archive"))


def verified(copied: CopiedLedgers, *names: str, task_bytes: int = 1 << 20) -> LedgersVerified:
    bookies = copied.bookies
    dirs = [bookies.named[name].root for name in names] or bookies.dirs
    return verify_here(given_in(dirs, str(bookies.export()), logs=str(copied.export())), task_bytes=task_bytes)


def told(found: LedgersVerified) -> list[tuple[str, int | None, int | None, str | None, str]]:
    """The last is the ending of the file, if that is an object."""
    for each in found.findings:
        assert each.deviation == (each.kind in DEVIATIONS)
        assert each.deviation or each.kind in STATED
    return [(each.kind, each.entry, each.last, each.bookie, Path(each.file or "").suffix) for each in found.findings]


@pytest.mark.parametrize("task_bytes", [1, 1 << 20])
def test_bookies_and_a_whole_copy_agree(copied: CopiedLedgers, task_bytes: int) -> None:
    copied.bookies.ledger(1, 10)
    copied.copy(1)
    copied.bookies.ledger(2, 3, digest_type=DigestType.HMAC, password=b"secret")
    copied.copy(2, is_on_bookies=False)
    found = verified(copied, task_bytes=task_bytes)
    assert told(found) == [], "what bookies still have of ledger 2 is not unknown"
    assert (found.ledger_count, found.closed_count, found.bookie_count, found.stored_count) == (3, 3, 3, 2)
    assert found.copy_count == 4 * 10 + 4 * 3 + 3


def test_what_the_copy_has_is_not_missing(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 10, without={"a": [3, 4], "b": [4, 5], "c": [4]})
    copied.copy(1)
    assert told(verified(copied)) == [
        ("fewer", 3, 3, "a", ""),
        ("copied", 4, 4, None, ""),
        ("fewer", 5, 5, "b", ""),
    ]
    found = verified(copied, "b")
    assert told(found)[:2] == [("copied", 0, 3, None, ""), ("copied", 4, 5, None, "")]
    assert found.findings[0].sentence == "1 of 2 copies are on the bookies; the object store has the entry"


def test_a_copy_that_is_not_done_does_not_count(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 10, without={"a": [4], "b": [4]})
    copied.copy(1)
    copied.ledgers[1] = evolve(copied.ledgers[1], offload=None)
    assert told(verified(copied)) == [("missing", 4, 4, None, "")]


def test_a_ledger_that_bookies_dropped_has_to_be_in_the_copy(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 10, without=dict.fromkeys("abc", EVERY))
    copied.copy(1, is_on_bookies=False)
    assert told(verified(copied)) == []
    block = copied.index(1).blocks[1]
    name = data_name(1, UID)
    copied.flip(name, block.offset + 50)
    found = verified(copied)
    assert told(found) == [
        ("damaged", None, None, None, ".data"),
        ("missing", block.first, block.last, None, ""),
    ]
    assert (found.findings[0].ledger, found.findings[0].position) == (1, block.offset)
    assert found.findings[1].sentence == "bookies no longer need to have the ledger, and its copy does not have this"
    copied.put(name, copied.get(name)[: block.offset])
    assert told(verified(copied)) == [("damaged", None, None, None, ".data"), ("missing", 4, 9, None, "")]


def test_the_metadata_may_be_older_than_the_list(copied: CopiedLedgers) -> None:
    """The list says that bookies dropped the ledger after its metadata were read."""
    copied.bookies.ledger(1, 10, without=dict.fromkeys("abc", EVERY))
    copied.copy(1)
    copied.offload(1, is_on_bookies=False)
    assert told(verified(copied)) == []


@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_copy_that_cannot_be_read_does_not_count(copied: CopiedLedgers, kind: str) -> None:
    copied.bookies.ledger(1, 10, without={"a": [4], "b": [4]})
    copied.copy(1)
    copied.objects.remove((data_name if kind == "data" else index_name)(1, UID))
    found = verified(copied)
    assert told(found) == [("damaged", None, None, None, f".{kind}"), ("missing", 4, 4, None, "")]
    assert f"the copy of ledger 1 of log {LOG} cannot be read: the object is missing" in found.findings[0].sentence


def test_the_copy_that_differs_is_told(copied: CopiedLedgers) -> None:
    """One vote each: of three bookies and an object store."""
    copied.bookies.ledger(1, 10)
    copied.copy(1, payload=b"other %d")
    found = verified(copied)
    assert told(found) == [("differs", 0, 9, None, ".data")]
    assert found.findings[0].sentence == "in the object store, another payload or length: most copies have others"
    assert found.findings[0].position == 44


def test_the_bookie_that_differs_is_told(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 10, without={"c": [4]})
    copied.copy(1)
    copied.bookies.named["b"].append_again(1, 4, 3, DIGEST, b"other %d")
    assert told(verified(copied))[0][:4] == ("differs", 4, 4, "b")


def test_where_it_is_not_known_who_is_right_nobody_has_the_entry(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 10, without=dict.fromkeys("bc", EVERY))
    copied.copy(1, payload=b"other %d", is_on_bookies=False)
    found = verified(copied)
    assert told(found) == [
        ("differs", 0, 9, None, ".data"),
        ("missing", 0, 9, None, ""),
        ("differs", 0, 9, "a", ""),
    ]
    assert "no payload is in more copies than another" in found.findings[0].sentence


def test_an_envelope_of_no_writer_in_a_copy(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 4, digest_type=DigestType.HMAC, password=b"x")
    metadata = copied.bookies.metadata[1]
    copied.bookies.metadata[1] = evolve(metadata, password=b"guess")
    copied.copy(1)
    copied.bookies.metadata[1] = metadata
    assert told(verified(copied)) == [("damaged", 0, 3, None, ".data")]


def test_another_end_than_that_of_the_metadata(copied: CopiedLedgers) -> None:
    copied.bookies.ledger(1, 6)
    copied.copy(1)
    copied.bookies.metadata[1] = metadata_of().closed_at(3, length_of(3))
    found = verified(copied)
    assert found.findings[0].sentence == (
        "the copy in the object store ends at entry 5 with 42 bytes, the metadata at entry 3 with 28 bytes"
    )
    assert told(found) == [
        ("length", None, None, None, ".data"),
        ("beyond", 4, 5, None, ".data"),
        *(("beyond", 4, 5, name, "") for name in "abc"),
    ]


def test_a_ledger_that_the_metadata_have_as_open(copied: CopiedLedgers) -> None:
    """They are older than the list."""
    copied.bookies.ledger(1, 6)
    copied.copy(1)
    copied.bookies.metadata[1] = metadata_of()
    assert told(verified(copied)) == [("open", None, None, None, "")]
