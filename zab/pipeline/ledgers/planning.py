"""Plans which entries a read covers, and cuts them into tasks.

A piece is a range of entries of one ledger on one bookie. Its parts are those in which an entry of the range may be:
where several have the same entry, the one that the bookie reads is taken. A large ledger is cut at ids that divide it
evenly, so that a piece has some TASK_BYTES; a task has as many small pieces as have TASK_BYTES together.

The copy of a ledger in an object store is cut between its blocks: a piece is a range of bytes of its data object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final

from attrs import frozen

from zab.ledger.entries.digests import DigestType
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.bookies import Bookie, Fault, Part, find_bookies
from zab.pipeline.ledgers.metadata import read_lists, read_metadata
from zab.pipeline.ledgers.offloaded import CopiedLedger, Copies, find_copies
from zab.pipeline.ledgers.options import LedgerOptions
from zab.pipeline.ledgers.rows import Key, Piece

__all__ = ["TASK_BYTES", "Task", "cuts", "key_of", "key_of_copy", "parts_within", "plan_ledgers"]

TASK_BYTES: Final = 64 << 20


@frozen(eq=False)
class Task:
    """The input of one Spark task: pieces one after the other."""

    pieces: tuple[Piece, ...]


def plan_ledgers(options: LedgerOptions, *, task_bytes: int = TASK_BYTES) -> list[Task]:
    """The tasks of a read. Raises PipelineError, also for what is damaged, unless that is skipped."""
    metadata = {} if options.metadata is None else read_metadata(options.metadata, options.root)
    wanted = options.ids.__contains__
    bookies = find_bookies(options.dirs, wanted) if options.dirs else []
    copies = Copies() if options.logs is None else find_copies(read_lists(options.logs, options.logs_root), wanted)
    faults: Iterable[Fault] = chain(*(bookie.faults for bookie in bookies), copies.faults)
    for fault in faults if not options.skips_damage else ():
        raise PipelineError(f"{fault.file} at offset {fault.offset}: {fault.reason}; damaged=skip reads what there is")
    pieces = chain(
        _pieces(bookies, options, metadata, task_bytes), _pieces_of_copies(copies, options, metadata, task_bytes)
    )
    return list(_gather(pieces, task_bytes))


def _pieces(
    bookies: Sequence[Bookie], options: LedgerOptions, metadata: Mapping[int, LedgerMetadata], task_bytes: int
) -> Iterator[Piece]:
    for bookie in bookies:
        for ledger, parts in sorted(bookie.parts.items()):
            key = key_of(metadata.get(ledger)) or options.key
            for start, until in cuts(parts, task_bytes):
                within = parts_within(parts, start, until)
                yield Piece(bookie.name, ledger, within, start, until, key, options.skips_damage)


def _pieces_of_copies(
    copies: Copies, options: LedgerOptions, metadata: Mapping[int, LedgerMetadata], task_bytes: int
) -> Iterator[Piece]:
    for ledger, copied in sorted(copies.ledgers.items()):
        key = key_of_copy(copied, key_of(metadata.get(ledger)) or options.key)
        for part in copied.part.runs(task_bytes):
            start, last = part.bounds
            yield Piece(None, ledger, part, start, last + 1, key, options.skips_damage)


def key_of(metadata: LedgerMetadata | None) -> Key | None:
    """What the digests of this ledger are made with; None: its metadata do not say."""
    if metadata is None or not metadata.has_password:
        return None
    return Key(metadata.digest_type, metadata.password)


def key_of_copy(copied: CopiedLedger, known: Key | None) -> Key:
    """What the digests in a copy are made with: the type that its index says, with the password that is known for this
    type. Only HMAC has need of one."""
    digest_type = copied.metadata.digest_type
    if known is not None and known.type is digest_type:
        return known
    return Key(digest_type, None if digest_type is DigestType.HMAC else b"")


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


def _gather(pieces: Iterable[Piece], task_bytes: int) -> Iterator[Task]:
    gathered: list[Piece] = []
    total = 0
    for piece in pieces:
        size = piece.bytes
        if gathered and total + size > task_bytes:
            yield Task(tuple(gathered))
            gathered, total = [], 0
        gathered.append(piece)
        total += size
    if gathered:
        yield Task(tuple(gathered))
