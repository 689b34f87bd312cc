"""The job `verify --ledgers`: whether bookies have what the metadata of closed ledgers promise:
`zab pipeline verify --ledgers DIRS --metadata PLACE [--logs PLACE]`.

    verify_ledgers(spark, dirs, metadata) -> a row for each finding (VERIFY_LEDGERS): deviations, and what is stated

A task compares a range of entries of one ledger on all bookies, and in its copy in an object store
(`ledgers.comparing`), and verifies all checksums and digests in it. The cost is that of reading the files, and little
is sent.

Invariants: nothing is written, bookies may be running.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import evolve, field, frozen

from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.pipeline.inventory import Dirs
from zab.pipeline.jobs.sharing import as_rows, spread
from zab.pipeline.ledgers.bookies import Bookie, Fault, find_bookies
from zab.pipeline.ledgers.comparing import Compared, LedgerFinding, Work, compare
from zab.pipeline.ledgers.metadata import LOGS_ROOT, ROOT, read_lists, read_metadata
from zab.pipeline.ledgers.offloaded import Copies, find_copies
from zab.pipeline.ledgers.options import Ids
from zab.pipeline.ledgers.planning import TASK_BYTES, key_of, key_of_copy, parts_within
from zab.pipeline.ledgers.rows import Piece
from zab.pipeline.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VERIFY_LEDGERS", "Given", "LedgersVerified", "given_in", "verify_here", "verify_in", "verify_ledgers"]

COPIES_MAX: Final = 500_000
"""About so many copies of entries are compared together."""

VERIFY_LEDGERS: Final = (
    Column("ledger", "bigint", "id of the ledger; null for a damaged file that may contain entries of any ledger"),
    Column("entry", "bigint", "first entry that the row is about"),
    Column("last", "bigint", "last entry that the row is about"),
    Column("bookie", "string", "bookie of the copy; null if the row concerns all bookies, or an object store"),
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
    stored_count: int
    """Ledgers with a copy in an object store."""
    copy_count: int
    byte_count: int


@frozen
class Given:
    """What is compared: bookies, and the metadata of ledgers and their copies in object stores."""

    bookies: list[Bookie]
    known: dict[int, LedgerMetadata]
    copies: Copies = field(factory=Copies)

    @property
    def ledgers(self) -> set[int]:
        """All that anything is known about."""
        return {ledger for bookie in self.bookies for ledger in bookie.parts} | {*self.known} | {*self.copies.ledgers}

    def metadata(self, ledger: int) -> LedgerMetadata | None:
        """What its znode has; if there is none, what was copied with the ledger."""
        copied = self.copies.ledgers.get(ledger)
        return self.known.get(ledger) or (None if copied is None else copied.metadata)


CompareAll: TypeAlias = Callable[[Sequence[Work]], list[Compared]]


def verify_ledgers(
    spark: "SparkSession",
    dirs: Dirs,
    metadata: str,
    *,
    ledgers: str | None = None,
    root: str = ROOT,
    logs: str | None = None,
    logs_root: str = LOGS_ROOT,
) -> "DataFrame":
    """A row for each finding. Raises PipelineError."""
    given = given_in(dirs, metadata, ledgers, root, logs=logs, logs_root=logs_root)
    return as_rows(spark, VERIFY_LEDGERS, verify_in(spark, given).findings)


def given_in(
    dirs: Dirs,
    metadata: str,
    ledgers: str | None = None,
    root: str = ROOT,
    *,
    logs: str | None = None,
    logs_root: str = LOGS_ROOT,
) -> Given:
    """The bookies in these directories, the metadata of these ledgers, and their copies that the lists of managed
    ledgers in `logs` name. Raises PipelineError."""
    ids = Ids() if ledgers is None else Ids.parse(ledgers)
    known = {ledger: found for ledger, found in read_metadata(metadata, root).items() if ledger in ids}
    lists = {} if logs is None else read_lists(logs, logs_root)
    return Given(find_bookies(dirs, ids.__contains__), known, find_copies(lists, ids.__contains__))


def verify_in(spark: "SparkSession", given: Given) -> LedgersVerified:
    """Compare them in Spark. Raises PipelineError."""
    context = spark.sparkContext

    def compare_all(work: Sequence[Work]) -> list[Compared]:
        return list(spread(context, work, lambda each: each.bytes).map(compare).collect())

    return _verify(given, compare_all, TASK_BYTES)


def verify_here(given: Given, *, task_bytes: int = TASK_BYTES) -> LedgersVerified:
    """Compare them in this process. Raises PipelineError."""
    return _verify(given, lambda work: list(map(compare, work)), task_bytes)


def _verify(given: Given, compare_all: CompareAll, task_bytes: int) -> LedgersVerified:
    ledgers = given.ledgers
    work = [each for ledger in sorted(ledgers) for each in _work(ledger, given, task_bytes)]
    compared = compare_all(work)
    findings = [finding for each in compared for finding in each.findings]
    findings += _of_faults(given)
    findings += _of_ledgers(given)
    all_metadata = [metadata for ledger in ledgers if (metadata := given.metadata(ledger)) is not None]
    return LedgersVerified(
        sorted(findings, key=_order),
        len(ledgers),
        sum(each.is_closed for each in all_metadata),
        len(given.bookies),
        len(given.copies.ledgers),
        sum(each.copy_count for each in compared),
        sum(each.byte_count for each in compared),
    )


def _work(ledger: int, given: Given, task_bytes: int) -> Iterator[Work]:
    """The ranges of one ledger. A closed one is compared from its first to its last entry, whatever bookies have."""
    metadata = given.metadata(ledger)
    names = frozenset(bookie.name for bookie in given.bookies)
    copied = given.copies.ledgers.get(ledger)
    stored = [] if copied is None or not copied.part.blocks else [copied.part]
    parts = {bookie.name: bookie.parts[ledger] for bookie in given.bookies if ledger in bookie.parts}
    every = [part for each in parts.values() for part in each] + stored
    bounds = [part.bounds for part in every]
    last = max([high for _, high in bounds], default=-1)
    if metadata is not None and metadata.is_closed:
        last = max(last, metadata.last)
    first = min([low for low, _ in bounds], default=0)
    first = 0 if metadata is not None and metadata.is_closed else first
    if last < first:
        return
    size = sum(part.bytes for part in every)
    copies = sum(part.count for part in every)
    count = max(size // task_bytes, copies // COPIES_MAX) + 1
    count = min(count, last - first + 1)
    cuts = [first + (last + 1 - first) * number // count for number in range(count + 1)]
    key = key_of(given.known.get(ledger))
    key_in_store = None if copied is None else key_of_copy(copied, key)
    is_on_bookies = copied is None or (copied.is_on_bookies and ledger in given.known)
    for start, until in pairwise(cuts):
        pieces = [
            Piece(name, ledger, within, start, until, key or key_in_store, skips_damage=True)
            for name, each in parts.items()
            if (within := parts_within(each, start, until))
        ]
        pieces += [
            Piece(None, ledger, part, start, until, key_in_store, skips_damage=True)
            for each in stored
            if (part := each.within(start, until)).blocks
        ]
        yield Work(ledger, metadata, start, until, tuple(pieces), names, is_on_bookies)


def _of_faults(given: Given) -> Iterator[LedgerFinding]:
    """What cannot be read at all."""
    faults: list[tuple[str | None, Fault]] = [(None, fault) for fault in given.copies.faults]
    faults += [(bookie.name, fault) for bookie in given.bookies for fault in bookie.faults]
    for bookie, fault in faults:
        place = (fault.file, fault.offset)
        yield LedgerFinding(fault.ledger, None, None, bookie, *place, "damaged", True, fault.reason)


def _of_ledgers(given: Given) -> Iterator[LedgerFinding]:
    told = LedgerFinding(None, None, None, None, None, None, "", False, "")
    for ledger, metadata in sorted(given.known.items()):
        copied = given.copies.ledgers.get(ledger)
        if copied is not None and metadata.is_closed and _end(copied.metadata) != _end(metadata):
            sentence = f"the copy in the object store ends at {_end(copied.metadata)}, the metadata at {_end(metadata)}"
            file = str(copied.part.file)
            yield evolve(told, ledger=ledger, file=file, kind="length", deviation=True, sentence=sentence)
        if not metadata.is_closed:
            state = metadata.state.name.lower().replace("_", " ")
            sentence = f"the ledger is {state}: only the copies that are there were compared"
            yield evolve(told, ledger=ledger, kind="open", sentence=sentence)
    for bookie in given.bookies:
        lost = sorted(ledger for ledger in bookie.parts if given.metadata(ledger) is None)
        if lost:
            named = ", ".join(map(str, lost[:20])) + (", …" if len(lost) > 20 else "")
            sentence = f"the metadata have no ledger {named}: deleted, or made after the metadata were read"
            yield evolve(told, ledger=lost[0], bookie=bookie.name, kind="unknown", sentence=sentence)


def _end(metadata: LedgerMetadata) -> str:
    return f"entry {metadata.last} with {metadata.length} bytes"


def _order(finding: LedgerFinding) -> tuple[object, ...]:
    ledger = -1 if finding.ledger is None else finding.ledger
    entry = -1 if finding.entry is None else finding.entry
    return not finding.deviation, ledger, entry, finding.bookie or "", finding.kind
