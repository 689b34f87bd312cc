"""Plans which entries a read covers, and cuts them into tasks.

A piece is a range of entries of one ledger on one bookie. Its parts are those in which an entry of the range may be:
where several have the same entry, the one that the bookie reads is taken. A large ledger is cut at ids that divide it
evenly, so that a piece has some TASK_BYTES; a task has as many small pieces as have TASK_BYTES together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from attrs import frozen

from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.bookies import Bookie, Part, find_bookies
from zab.pipeline.ledgers.metadata import read_metadata
from zab.pipeline.ledgers.options import LedgerOptions
from zab.pipeline.ledgers.rows import Key, Piece

__all__ = ["TASK_BYTES", "Task", "cuts", "key_of", "parts_within", "plan_ledgers"]

TASK_BYTES: Final = 64 << 20


@frozen(eq=False)
class Task:
    """The input of one Spark task: pieces one after the other."""

    pieces: tuple[Piece, ...]


def plan_ledgers(options: LedgerOptions, *, task_bytes: int = TASK_BYTES) -> list[Task]:
    """The tasks of a read. Raises PipelineError, also for what is damaged, unless that is skipped."""
    metadata = {} if options.metadata is None else read_metadata(options.metadata, options.root)
    bookies = find_bookies(options.dirs, options.ids.__contains__)
    for bookie in bookies if not options.skips_damage else ():
        for fault in bookie.faults:
            raise PipelineError(
                f"{fault.file} at offset {fault.offset}: {fault.reason}; damaged=skip reads what there is"
            )
    return list(_gather(_pieces(bookies, options, metadata, task_bytes), task_bytes))


def _pieces(
    bookies: Sequence[Bookie], options: LedgerOptions, metadata: Mapping[int, LedgerMetadata], task_bytes: int
) -> Iterator[tuple[int, Piece]]:
    for bookie in bookies:
        for ledger, parts in sorted(bookie.parts.items()):
            key = key_of(metadata.get(ledger)) or options.key
            for start, until in cuts(parts, task_bytes):
                within = parts_within(parts, start, until)
                size = sum(part.bytes for part in within)
                yield size, Piece(bookie.name, ledger, within, start, until, key, options.skips_damage)


def key_of(metadata: LedgerMetadata | None) -> Key | None:
    """What the digests of this ledger are made with; None: its metadata do not say."""
    if metadata is None or not metadata.has_password:
        return None
    return Key(metadata.digest_type, metadata.password)


def cuts(parts: Sequence[Part], task_bytes: int) -> list[tuple[int, int]]:
    """Ranges of entries that cover these parts, of about so many bytes each."""
    first = min(part.bounds[0] for part in parts)
    until = max(part.bounds[1] for part in parts) + 1
    count = max(1, min(sum(part.bytes for part in parts) // task_bytes + 1, until - first))
    bounds = [first + (until - first) * number // count for number in range(count + 1)]
    return list(pairwise(bounds))


def parts_within(parts: Iterable[Part], start: int, until: int) -> tuple[Part, ...]:
    """The parts that may have an entry in [start, until)."""
    return tuple(part for part in parts if part.bounds[0] < until and part.bounds[1] >= start)


def _gather(pieces: Iterable[tuple[int, Piece]], task_bytes: int) -> Iterator[Task]:
    gathered: list[Piece] = []
    total = 0
    for size, piece in pieces:
        if gathered and total + size > task_bytes:
            yield Task(tuple(gathered))
            gathered, total = [], 0
        gathered.append(piece)
        total += size
    if gathered:
        yield Task(tuple(gathered))
