"""The job `verify --ledgers`: whether bookies have what the metadata of closed ledgers promise:
`zab pipeline verify --ledgers DIRS --metadata PLACE`.

    verify_ledgers(spark, dirs, metadata) -> a row for each finding (VERIFY_LEDGERS): deviations, and what is stated

A task compares a range of entries of one ledger on all bookies (`ledgers.comparing`), and verifies all checksums and
digests in it. The cost is that of reading the files, and little is sent.

Invariants: nothing is written, bookies may be running.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import evolve, frozen

from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.pipeline.inventory import Dirs
from zab.pipeline.jobs.sharing import as_rows, spread
from zab.pipeline.ledgers.bookies import Bookie, find_bookies
from zab.pipeline.ledgers.comparing import Compared, LedgerFinding, Work, compare
from zab.pipeline.ledgers.metadata import ROOT, read_metadata
from zab.pipeline.ledgers.options import Ids
from zab.pipeline.ledgers.planning import TASK_BYTES, key_of, parts_within
from zab.pipeline.ledgers.rows import Piece
from zab.pipeline.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VERIFY_LEDGERS", "LedgersVerified", "verify_here", "verify_in", "verify_ledgers"]

COPIES_MAX: Final = 500_000
"""About so many copies of entries are compared together."""

VERIFY_LEDGERS: Final = (
    Column("ledger", "bigint", "id of the ledger; null for a damaged file that may contain entries of any ledger"),
    Column("entry", "bigint", "first entry that the row is about"),
    Column("last", "bigint", "last entry that the row is about"),
    Column("bookie", "string", "bookie of the copy; null if the row concerns all bookies"),
    Column("file", "string", "full path or URI"),
    Column("position", "bigint", "position of the first entry or of the damage in the file"),
    Column("kind", "string", "missing, differs, damaged, ..."),
    Column("deviation", "boolean", "false for a note: it is no fault"),
    Column("sentence", "string", "what was found"),
)


@frozen
class LedgersVerified:
    """What was found, and how much was compared."""

    findings: list[LedgerFinding]
    ledger_count: int
    closed_count: int
    bookie_count: int
    copy_count: int
    byte_count: int


CompareAll: TypeAlias = Callable[[Sequence[Work]], list[Compared]]
Given: TypeAlias = tuple[list[Bookie], dict[int, LedgerMetadata]]


def verify_ledgers(
    spark: "SparkSession", dirs: Dirs, metadata: str, *, ledgers: str | None = None, root: str = ROOT
) -> "DataFrame":
    """A row for each finding. Raises PipelineError."""
    given = given_in(dirs, metadata, ledgers, root)
    return as_rows(spark, VERIFY_LEDGERS, verify_in(spark, *given).findings)


def given_in(dirs: Dirs, metadata: str, ledgers: str | None = None, root: str = ROOT) -> Given:
    """The bookies in these directories, and the metadata of these ledgers. Raises PipelineError."""
    ids = Ids() if ledgers is None else Ids.parse(ledgers)
    known = {ledger: found for ledger, found in read_metadata(metadata, root).items() if ledger in ids}
    return find_bookies(dirs, ids.__contains__), known


def verify_in(spark: "SparkSession", bookies: Sequence[Bookie], known: Mapping[int, LedgerMetadata]) -> LedgersVerified:
    """Compare them in Spark. Raises PipelineError."""
    context = spark.sparkContext

    def compare_all(work: Sequence[Work]) -> list[Compared]:
        return list(spread(context, work, lambda each: each.bytes).map(compare).collect())

    return _verify(bookies, known, compare_all, TASK_BYTES)


def verify_here(
    bookies: Sequence[Bookie], known: Mapping[int, LedgerMetadata], *, task_bytes: int = TASK_BYTES
) -> LedgersVerified:
    """Compare them in this process. Raises PipelineError."""
    return _verify(bookies, known, lambda work: list(map(compare, work)), task_bytes)


def _verify(
    bookies: Sequence[Bookie], known: Mapping[int, LedgerMetadata], compare_all: CompareAll, task_bytes: int
) -> LedgersVerified:
    there = {ledger for bookie in bookies for ledger in bookie.parts}
    work = [each for ledger in sorted(there | {*known}) for each in _work(ledger, bookies, known, task_bytes)]
    compared = compare_all(work)
    findings = [finding for each in compared for finding in each.findings]
    findings += _of_bookies(bookies)
    findings += _of_ledgers(bookies, known, there)
    return LedgersVerified(
        sorted(findings, key=_order),
        len(there | {*known}),
        sum(each.is_closed for each in known.values()),
        len(bookies),
        sum(each.copy_count for each in compared),
        sum(each.byte_count for each in compared),
    )


def _work(
    ledger: int, bookies: Sequence[Bookie], known: Mapping[int, LedgerMetadata], task_bytes: int
) -> Iterator[Work]:
    """The ranges of one ledger. A closed one is compared from its first to its last entry, whatever bookies have."""
    metadata = known.get(ledger)
    given = frozenset(bookie.name for bookie in bookies)
    parts = {bookie.name: bookie.parts[ledger] for bookie in bookies if ledger in bookie.parts}
    bounds = [part.bounds for each in parts.values() for part in each]
    last = max([high for _, high in bounds], default=-1)
    if metadata is not None and metadata.is_closed:
        last = max(last, metadata.last)
    first = min([low for low, _ in bounds], default=0)
    first = 0 if metadata is not None and metadata.is_closed else first
    if last < first:
        return
    size = sum(part.bytes for each in parts.values() for part in each)
    copies = sum(part.count for each in parts.values() for part in each)
    count = max(size // task_bytes, copies // COPIES_MAX) + 1
    count = min(count, last - first + 1)
    cuts = [first + (last + 1 - first) * number // count for number in range(count + 1)]
    key = key_of(metadata)
    for start, until in pairwise(cuts):
        pieces = tuple(
            Piece(name, ledger, within, start, until, key, skips_damage=True)
            for name, each in parts.items()
            if (within := parts_within(each, start, until))
        )
        yield Work(ledger, metadata, start, until, pieces, given)


def _of_bookies(bookies: Sequence[Bookie]) -> Iterator[LedgerFinding]:
    for bookie in bookies:
        for fault in bookie.faults:
            place = (fault.file, fault.offset)
            yield LedgerFinding(fault.ledger, None, None, bookie.name, *place, "damaged", True, fault.reason)


def _of_ledgers(
    bookies: Sequence[Bookie], known: Mapping[int, LedgerMetadata], there: set[int]
) -> Iterator[LedgerFinding]:
    told = LedgerFinding(None, None, None, None, None, None, "", False, "")
    for ledger, metadata in sorted(known.items()):
        if not metadata.is_closed:
            state = metadata.state.name.lower().replace("_", " ")
            sentence = f"the ledger is {state}: only the copies that are there were compared"
            yield evolve(told, ledger=ledger, kind="open", sentence=sentence)
    for bookie in bookies:
        lost = sorted(ledger for ledger in bookie.parts if ledger in there and ledger not in known)
        if lost:
            named = ", ".join(map(str, lost[:20])) + (", …" if len(lost) > 20 else "")
            sentence = f"the metadata have no ledger {named}: deleted, or made after the metadata were read"
            yield evolve(told, ledger=lost[0], bookie=bookie.name, kind="unknown", sentence=sentence)


def _order(finding: LedgerFinding) -> tuple[object, ...]:
    ledger = -1 if finding.ledger is None else finding.ledger
    entry = -1 if finding.entry is None else finding.entry
    return not finding.deviation, ledger, entry, finding.bookie or "", finding.kind
