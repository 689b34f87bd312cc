"""Finds the copies of closed ledgers in object stores, and reads envelopes out of them.

    find_copies(lists, wanted) -> Copies        of the ledgers of these logs that have a copy which is done
    envelopes(part, start, until, faults)       (entry, offset, envelope), in order

Which copies count is in the lists of the logs (`metadata.read_lists`): objects that no list names, or whose copy is not
done, are not looked at. What a copy is made of is known to `zab.ledger.managed.objects`.

An index is believed where it agrees with itself, with the list, and with the size of the data object; what contradicts
is a fault. Blocks that would end after the data object are left out, so that no length in an index makes anybody read,
or plan, more than there is.

Invariants: nothing is written; a log may be in use. Memory: READERS indexes at a time, each of up to INDEX_BYTES_MAX
bytes; the places of up to BLOCKS_MAX blocks; of the data, READ_BYTES, or one block of up to BLOCK_BYTES_MAX. Not here:
rows (`rows`).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

import pyarrow as pa
from attrs import define, evolve, field, frozen

from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Offload
from zab.ledger.managed.objects import (
    INDEX_BYTES_MAX,
    Block,
    CopyIndex,
    DamagedObjectError,
    data_name,
    decode_index,
    envelopes_of,
    index_name,
)
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.bookies import Fault, Wanted
from zab.pipeline.places import Place, open_place, shown

__all__ = ["CopiedLedger", "Copies", "CopyPart", "envelopes", "find_copies"]

BLOCKS_MAX: Final = 1_000_000
"""The places of so many blocks are kept; with more, ledgers have to be named."""
READ_BYTES: Final = 4 << 20
"""Blocks that follow each other are read together, up to so many bytes."""
READERS: Final = 8


@frozen(eq=False)
class CopyPart:
    """Some blocks of the copy of one ledger. `file`: the data object."""

    stored: ClassVar[str] = "object"
    file: Place
    ledger: int
    blocks: tuple[Block, ...]
    """In their order, without gaps."""

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last entry."""
        return self.blocks[0].first, self.blocks[-1].last

    @property
    def bytes(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def count(self) -> int:
        return sum(block.entries for block in self.blocks)

    def within(self, start: int, until: int) -> "CopyPart":
        """The blocks that have entries in [start, until)."""
        begin = bisect_left(self.blocks, start, key=lambda block: block.last)
        end = bisect_left(self.blocks, until, key=lambda block: block.first)
        return evolve(self, blocks=self.blocks[begin:end])

    def runs(self, bytes_max: int) -> "Iterator[CopyPart]":
        """Blocks that follow each other and together have at most so many bytes; a larger one is alone."""
        gathered: list[Block] = []
        size = 0
        for block in self.blocks:
            if gathered and size + block.size > bytes_max:
                yield evolve(self, blocks=tuple(gathered))
                gathered, size = [], 0
            gathered.append(block)
            size += block.size
        if gathered:
            yield evolve(self, blocks=tuple(gathered))


@frozen(eq=False)
class CopiedLedger:
    """The copy of one ledger. `log`: whose list names it."""

    log: str
    part: CopyPart
    metadata: LedgerMetadata
    """What the index has: closed, without the password."""
    is_on_bookies: bool
    """Whether the list says that bookies have the ledger, too."""


@define
class Copies:
    """What was found, by ledger, and what cannot be read."""

    ledgers: dict[int, CopiedLedger] = field(factory=dict)
    faults: list[Fault] = field(factory=list)


def find_copies(lists: Mapping[str, LogInfo], wanted: Wanted) -> Copies:
    """The copies that are done, of the ledgers that are wanted. Raises PipelineError if they have too many blocks."""
    named = [
        (log, each, each.offload)
        for log, info in sorted(lists.items())
        for each in info.ledgers
        if each.offload is not None and each.offload.is_done and wanted(each.id)
    ]
    copies = Copies()
    count = 0
    with ThreadPoolExecutor(READERS) as pool:
        for at in range(0, len(named), READERS):
            for found, faults in pool.map(_read, named[at : at + READERS]):
                copies.faults += faults
                if found is None:
                    continue
                count += len(found.part.blocks)
                if count > BLOCKS_MAX:
                    raise PipelineError(f"the copies have more than {BLOCKS_MAX:,} blocks: name the ledgers")
                ledger = found.part.ledger
                first = copies.ledgers.setdefault(ledger, found)
                if first is not found:
                    reason = f"the logs {first.log} and {found.log} both have a copy of ledger {ledger}"
                    copies.faults.append(Fault(str(found.part.file), 0, reason, ledger))
    return copies


def _read(named: tuple[str, LedgerInfo, Offload]) -> tuple[CopiedLedger | None, list[Fault]]:
    """The copy of a ledger, as its index and the size of its data describe it."""
    log, info, offload = named
    where = shown(offload.uri)
    try:
        directory = open_place(offload.uri.removeprefix("file://"))
        place = directory / index_name(info.id, offload.uid)
        where = str(place)
        index = _index(place, info.id, offload.uid)
        place = directory / data_name(info.id, offload.uid)
        where = str(place)
        with place.open() as data:
            size = data.size
    except PipelineError as error:
        reason = str(error)
    except FileNotFoundError:
        reason = "the object is missing"
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = (str(getattr(error, "strerror", None) or error).splitlines() or [type(error).__name__])[0]
    else:
        faults = [Fault(where, 0, each, info.id) for each in _contradictions(info, index, size)]
        blocks = tuple(block for block in index.blocks if block.offset + block.size <= size)
        return CopiedLedger(log, CopyPart(place, info.id, blocks), index.metadata, offload.is_on_bookies), faults
    reason = f"the copy of ledger {info.id} of log {log} cannot be read: {reason}"
    return None, [Fault(_printable(where), 0, _printable(reason), info.id)]


def _index(place: Place, ledger: int, uid: str) -> CopyIndex:
    """Raises DamagedObjectError, OSError."""
    with place.open() as file:
        if file.size > INDEX_BYTES_MAX:
            raise DamagedObjectError(f"an index of {file.size} bytes, and at most {INDEX_BYTES_MAX} are read")
        return decode_index(file.read(0, file.size), ledger, uid)


def _contradictions(info: LedgerInfo, index: CopyIndex, size: int) -> Iterator[str]:
    length = index.metadata.length
    if (index.entries, length) != (info.entries, info.length):
        yield (
            f"the index of the copy of ledger {info.id} says {index.entries} entries with {length} bytes, "
            f"the list of the log {info.entries} with {info.length}"
        )
    if size != index.data_bytes:
        yield f"the copy of ledger {info.id} has {size} bytes of data, and its index says {index.data_bytes}"


def _printable(text: str) -> str:
    """A list may have bytes in a name that are not text."""
    return text.encode("utf-8", "backslashreplace").decode()


def envelopes(part: CopyPart, start: int, until: int, faults: list[Fault]) -> Iterator[tuple[int, int, bytes]]:
    """(entry, offset in the data object, envelope) of the entries in [start, until). The checksums of their blocks are
    compared. What cannot be read is appended to `faults`. Raises OSError."""
    with part.file.open() as file:
        for run in part.within(start, until).runs(READ_BYTES):
            begin = run.blocks[0].offset
            data = memoryview(file.read(begin, run.bytes))
            for block in run.blocks:
                piece = data[block.offset - begin : block.offset - begin + block.size]
                try:
                    for entry, offset, envelope in envelopes_of(block, piece, part.ledger):
                        if start <= entry < until:
                            yield entry, offset, bytes(envelope)
                except DamagedObjectError as error:
                    faults.append(Fault(str(part.file), block.offset, str(error), part.ledger))
