"""Rows of `schema.LEDGER` out of a range of entries of one ledger on one bookie, or in its copy in an object store.

The checksum of each envelope in a segment, and of each block of a copy, is compared; that of the journal was, when it
was found. The digest of the writer is checked where the digest type and the password are known. Without the type, it is
not known where the payload begins: `payload` and `digest_ok` are null, and `envelope` has all bytes. A copy says what
its type is, but not the password; without it, only `digest_ok` is null.

Memory: PIECE_BYTES of a file, or one entry, or what reading a copy takes (`offloaded`); and the rows of BATCH_BYTES.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
from attrs import frozen

from zab.ledger.entries.digests import DIGEST_BYTES, DigestType
from zab.ledger.entries.envelope import HEADER_BYTES, Digest, DigestMismatchError, header_of
from zab.pipeline.errors import PipelineError
from zab.pipeline.ledgers.bookies import Fault, Located, Part, located
from zab.pipeline.ledgers.offloaded import CopyPart, envelopes
from zab.pipeline.schema import LEDGER

__all__ = ["Copy", "Key", "Piece", "copies", "piece_rows"]

PIECE_BYTES: Final = 4 << 20
BATCH_BYTES: Final = 8 << 20
BATCH_ROWS: Final = 4096
_ARROW: Final = {column.name: column.arrow for column in LEDGER}


@frozen
class Key:
    """What the digests of a ledger are made with. `password` None: it is needed, and not known."""

    type: DigestType
    password: bytes | None

    def digest(self) -> Digest | None:
        """What checks digests; None: nothing can."""
        return None if self.password is None else Digest(self.type, self.password)


@frozen(eq=False)
class Piece:
    """Entries [start, until) of one ledger on one bookie; `bookie` None: in its copy in an object store."""

    bookie: str | None
    ledger: int
    parts: tuple[Part, ...] | CopyPart
    start: int
    until: int
    key: Key | None
    skips_damage: bool = False

    @property
    def bytes(self) -> int:
        parts = (self.parts,) if isinstance(self.parts, CopyPart) else self.parts
        return sum(part.bytes for part in parts)


@frozen
class Copy:
    """One entry as a bookie, or an object store, has it. `payload` and `is_right` are None without a key, and
    `is_right` without its password."""

    entry: int
    last_confirmed: int
    length: int
    payload: bytes | None
    is_right: bool | None
    part: Part | CopyPart
    offset: int
    envelope: bytes


def copies(piece: Piece, faults: list[Fault]) -> Iterator[Copy]:
    """The entries of a piece, in order. What cannot be read is appended to `faults`. Raises PipelineError."""
    digest = None if piece.key is None else piece.key.digest()
    try:
        for entry, part, offset, envelope in _stored(piece, faults):
            _, _, lac, length = header_of(envelope)
            payload, is_right = _opened(envelope, piece.ledger, entry, piece.key, digest)
            yield Copy(entry, lac, length, payload, is_right, part, offset, envelope)
    except FileNotFoundError as error:
        who = f"bookie {piece.bookie} has" if piece.bookie is not None else "the owner of the log has"
        raise PipelineError(f"{who} removed a file meanwhile: read it again ({error})") from None
    except OSError as error:
        who = f"bookie {piece.bookie}" if piece.bookie is not None else f"the copy of ledger {piece.ledger}"
        raise PipelineError(f"{who}: {error.filename or ''} cannot be read: {error}") from None


def _stored(piece: Piece, faults: list[Fault]) -> Iterator[tuple[int, Part | CopyPart, int, bytes]]:
    """(entry, part, offset, envelope) of the entries whose checksum matches. Raises OSError."""
    parts = piece.parts
    if isinstance(parts, CopyPart):
        for entry, offset, envelope in envelopes(parts, piece.start, piece.until, faults):
            if len(envelope) < HEADER_BYTES:
                reason = f"entry {entry} of ledger {piece.ledger} has {len(envelope)} bytes"
                faults.append(Fault(str(parts.file), offset, reason, piece.ledger))
                continue
            yield entry, parts, offset, envelope
        return
    found = located(parts, piece.start, piece.until, faults)
    for at, envelope in _envelopes(parts, found):
        entry, offset = int(found.entries[at]), int(found.offsets[at])
        part = parts[int(found.parts[at])]
        crc = int(found.crcs[at])
        if len(envelope) != found.sizes[at] or len(envelope) < HEADER_BYTES or crc not in (-1, crc32(envelope)):
            reason = f"entry {entry} of ledger {piece.ledger} does not match its checksum"
            faults.append(Fault(str(part.file), offset, reason, piece.ledger))
            continue
        yield entry, part, offset, envelope


def _opened(
    envelope: bytes, ledger: int, entry: int, key: Key | None, digest: Digest | None
) -> tuple[bytes | None, bool | None]:
    if key is None:
        return None, None
    try:
        if digest is not None:
            return digest.open(envelope, ledger, entry).payload, True
        is_right = None if header_of(envelope)[:2] == (ledger, entry) else False
    except DigestMismatchError:
        is_right = False
    return envelope[HEADER_BYTES + DIGEST_BYTES[key.type] :], is_right


def _envelopes(parts: Sequence[Part], found: Located) -> Iterator[tuple[int, bytes]]:
    """(position, envelope); what lies together is read together."""
    begin, count = 0, len(found.entries)
    while begin < count:
        number, start = found.parts[begin], int(found.offsets[begin])
        end = begin + 1
        stop = start + int(found.sizes[begin])
        while (
            end < count
            and found.parts[end] == number
            and found.offsets[end] == stop
            and stop + int(found.sizes[end]) - start <= PIECE_BYTES
        ):
            stop += int(found.sizes[end])
            end += 1
        data = parts[int(number)].file.read(start, stop - start)
        at = 0
        for position in range(begin, end):
            size = int(found.sizes[position])
            yield position, data[at : at + size]
            at += size
        begin = end


def piece_rows(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece. Raises PipelineError, also for what is damaged, unless that is skipped."""
    schema = pa.schema([pa.field(name, _ARROW[name]) for name in columns])
    faults: list[Fault] = []
    waiting: list[Copy] = []
    size = 0
    for copy in copies(piece, faults):
        _check(piece, faults)
        waiting.append(copy)
        size += len(copy.envelope)
        if size >= BATCH_BYTES or len(waiting) >= BATCH_ROWS:
            yield _batch(piece, waiting, schema)
            waiting, size = [], 0
    _check(piece, faults)
    if waiting:
        yield _batch(piece, waiting, schema)


def _check(piece: Piece, faults: Sequence[Fault]) -> None:
    if faults and not piece.skips_damage:
        first = faults[0]
        raise PipelineError(
            f"{first.file} at offset {first.offset}: {first.reason}: read another copy of the ledger, or give "
            "the option damaged=skip, which leaves out what cannot be read"
        )


def _batch(piece: Piece, found: Sequence[Copy], schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(found), pa.struct([])))
    arrays = [pa.array([_VALUES[name](piece, each) for each in found], _ARROW[name]) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_VALUES: Final[dict[str, Callable[[Piece, Copy], Any]]] = {
    "ledger": lambda piece, _: piece.ledger,
    "entry": lambda _, each: each.entry,
    "last_confirmed": lambda _, each: each.last_confirmed,
    "length": lambda _, each: each.length,
    "payload": lambda _, each: each.payload,
    "digest_ok": lambda _, each: each.is_right,
    "bookie": lambda piece, _: piece.bookie,
    "stored": lambda _, each: each.part.stored,
    "file": lambda _, each: str(each.part.file),
    "position": lambda _, each: each.offset,
    "envelope": lambda _, each: each.envelope,
}
assert [*_VALUES] == [*_ARROW]
