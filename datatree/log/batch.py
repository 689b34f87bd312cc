"""The batch, the unit of proposal, log record, acknowledgement, commit and sync; and the chain that ties batches.

This is the only codec for both. What a leader sends, what every member logs and what a later leader sends again are the
same bytes: no member splits, merges or re-encodes a batch. Every position in the protocol is the last zxid of a batch.

Format, big-endian, version 1 (84 bytes of header, then the body):

    offset  bytes  field
         0      2  magic, 5a 42 ("ZB")
         2      1  version, 1
         3      1  flags: 1 SNAPSHOT (every member takes a snapshot after this batch), 2 RECONFIG (its only transaction
                   is a reconfiguration); other bits are zero
         4      4  length of the body in bytes
         8      4  epoch
        12      4  count of transactions, at least 1
        16      8  first zxid: epoch << 32 | counter, counter at least 1
        24      8  time, ms since 1970, signed: max(the leader's wall clock, the time of the batch before)
        32      8  mark: the leader's high-water mark when it made the batch (below the first zxid)
        40      8  applied: the zxid of the leader's tree (at most the mark)
        48      8  digest of that tree
        56      4  version of the digest
        60     16  chain, after this batch
        76      4  CRC-32 of the body
        80      4  CRC-32 of bytes 0 to 79 of the header
        84      …  body: `count` transaction records, one zxid each, in order

    chain(n) = BLAKE2b-128(chain(n-1) || bytes 0 to 59 of the header || body)
    chain(0) = BLAKE2b-128(lineage id), or BLAKE2b-128(lineage id || zxid || digest) after an import

Invariants: a batch is immutable; it never crosses epochs; two histories of one lineage with the same chain at the same
zxid are the same history (A6 chain). Not here: limits on what a leader puts into a batch, and the records inside the
body.
"""

import struct
from hashlib import blake2b
from typing import TypeAlias
from zlib import crc32

from attrs import define

from datatree.log.zxid import Epoch, Zxid, end_of

VERSION = 1
SNAPSHOT = 1
RECONFIG = 2

CHAIN_BYTES = 16
LINEAGE_BYTES = 16

_MAGIC = 0x5A42
_HASHED = struct.Struct(">HBBIIIQqQQQI")
_FULL = struct.Struct(">HBBIIIQqQQQI16sII")
_CRC = struct.Struct(">I")
_BODY_CRC = struct.Struct(">16sI")
_HASHED_BYTES = _HASHED.size
_CRC_AT = _FULL.size - 4

HEADER_BYTES = _FULL.size
# One batch is `maxBatchBytes` at most, or one larger transaction alone; no client frame comes near this.
BODY_BYTES_MAX = 64 << 20

_COUNTER_MASK = 0xFFFFFFFF
_FLAGS = SNAPSHOT | RECONFIG

assert _HASHED_BYTES == 60
assert HEADER_BYTES == 84


Position: TypeAlias = tuple[Zxid, bytes]
"""The last zxid of a batch, and the chain there."""


class BatchError(ValueError):
    """The bytes are not a batch. `torn`: they end too early; otherwise they are complete, but wrong."""

    def __init__(self, reason: str, *, torn: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.torn = torn


@define(slots=True, eq=False)
class Batch:
    """One batch with the fields of its header; `raw` is all of it, as sent and logged."""

    epoch: Epoch
    first: Zxid
    count: int
    zxid: Zxid
    """The last zxid: the position at which this batch ends."""
    time: int
    flags: int
    mark: Zxid
    applied: int
    digest: int
    digest_version: int
    chain: bytes
    raw: bytes

    @property
    def body(self) -> bytes:
        """The transaction records (a copy)."""
        return self.raw[HEADER_BYTES:]

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Batch) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.chain)


def genesis(lineage: bytes) -> bytes:
    """chain(0) of a lineage (16 random bytes)."""
    assert len(lineage) == LINEAGE_BYTES
    return blake2b(lineage, digest_size=CHAIN_BYTES).digest()


def imported(lineage: bytes, zxid: Zxid, digest: int) -> bytes:
    """The chain at `zxid` of a directory that begins with an imported snapshot whose tree has this digest."""
    assert len(lineage) == LINEAGE_BYTES
    return blake2b(lineage + struct.pack(">QQ", zxid, digest), digest_size=CHAIN_BYTES).digest()


def build(
    previous_chain: bytes,
    *,
    epoch: Epoch,
    first: Zxid,
    count: int,
    time: int,
    flags: int,
    mark: Zxid,
    applied: int,
    digest: int,
    body: bytes,
    digest_version: int = 1,
) -> Batch:
    """Build the batch that follows `previous_chain`. All arguments come from the leader; a wrong one is a bug."""
    assert count >= 1
    assert first >> 32 == epoch
    counter = first & _COUNTER_MASK
    assert counter >= 1
    assert counter + count - 1 <= _COUNTER_MASK, "a batch never crosses epochs"
    assert applied <= mark < first
    assert flags & ~_FLAGS == 0
    assert len(previous_chain) == CHAIN_BYTES
    assert 0 < len(body) <= BODY_BYTES_MAX
    head = _HASHED.pack(
        _MAGIC, VERSION, flags, len(body), epoch, count, first, time, mark, applied, digest, digest_version
    )
    hasher = blake2b(previous_chain + head, digest_size=CHAIN_BYTES)
    hasher.update(body)
    chain = hasher.digest()
    head += _BODY_CRC.pack(chain, crc32(body))
    raw = b"".join((head, _CRC.pack(crc32(head)), body))
    zxid = end_of(first, count)
    return Batch(epoch, first, count, zxid, time, flags, mark, applied, digest, digest_version, chain, raw)


def parse(buffer: bytes | memoryview, offset: int = 0, limit: int = BODY_BYTES_MAX) -> Batch:
    """Read the batch at `offset` (the next one begins at `offset + len(batch.raw)`), its body at most `limit` bytes.

    Verifies both checksums, but not the chain: see `continues`. Raises BatchError.
    """
    end = offset + HEADER_BYTES
    if len(buffer) < end:
        raise BatchError(f"batch header cut short: {max(len(buffer) - offset, 0)} of {HEADER_BYTES} bytes", torn=True)
    fields = _FULL.unpack_from(buffer, offset)
    magic, version, flags, length, epoch, count, first, time, mark, applied, digest, digest_version = fields[:12]
    chain, body_crc, header_crc = fields[12:]
    if crc32(buffer[offset : offset + _CRC_AT]) != header_crc:
        raise BatchError("checksum of the batch header does not match", torn=False)
    _check_header(magic, version, flags, length, epoch, count, first, mark, applied, limit)
    if len(buffer) < end + length:
        raise BatchError(f"batch body cut short: {len(buffer) - end} of {length} bytes", torn=True)
    raw = bytes(buffer[offset : end + length])
    if crc32(memoryview(raw)[HEADER_BYTES:]) != body_crc:
        raise BatchError("checksum of the batch body does not match", torn=False)
    zxid = first + count - 1
    return Batch(epoch, first, count, zxid, time, flags, mark, applied, digest, digest_version, chain, raw)


def _check_header(
    magic: int,
    version: int,
    flags: int,
    length: int,
    epoch: int,
    count: int,
    first: int,
    mark: int,
    applied: int,
    limit: int,
) -> None:
    """Check what `build` asserts, as an error: the bytes come from a file or a peer."""
    if magic != _MAGIC or version != VERSION:
        raise BatchError(f"no batch of version {VERSION}: magic {magic:#06x}, version {version}", torn=False)
    if not 0 < length <= limit:
        raise BatchError(f"batch body of {length} bytes, limit {limit}", torn=False)
    counter = first & _COUNTER_MASK
    if first >> 32 != epoch or counter == 0 or count == 0 or counter + count - 1 > _COUNTER_MASK:
        raise BatchError(f"batch of {count} from {first:#x} does not lie in epoch {epoch}", torn=False)
    if not applied <= mark < first or flags & ~_FLAGS:
        raise BatchError(f"batch from {first:#x}: mark {mark:#x}, applied {applied:#x}, flags {flags:#x}", torn=False)


def continues(previous_chain: bytes, batch: Batch) -> bool:
    """Whether `batch` follows the history with this chain; hashes the whole batch."""
    assert len(previous_chain) == CHAIN_BYTES
    view = memoryview(batch.raw)
    hasher = blake2b(previous_chain, digest_size=CHAIN_BYTES)
    hasher.update(view[:_HASHED_BYTES])
    hasher.update(view[HEADER_BYTES:])
    return hasher.digest() == batch.chain


def follows(previous_zxid: Zxid, batch: Batch) -> bool:
    """Whether the numbers of `batch` directly follow `previous_zxid`: the next one, or the first of a later epoch."""
    if batch.first >> 32 == previous_zxid >> 32:
        return batch.first == previous_zxid + 1
    return batch.first > previous_zxid and batch.first & _COUNTER_MASK == 1
