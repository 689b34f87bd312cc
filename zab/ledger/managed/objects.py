"""The objects that hold a copy of a closed ledger: their names and their bytes.

    <directory>/<ledger>-<uid>.data     the entries, in blocks
    <directory>/<ledger>-<uid>.index    where each block is, and the metadata of the ledger

A block begins with a header of 40 bytes, numbers big-endian:

    0   magic "ZOBL"
    4   version, 4 bytes
    8   ledger id, 8
    16  first entry, 8
    24  count of entries, 4
    28  bytes of the body, 4
    32  CRC-32C of the body, 4
    36  CRC-32C of the 36 bytes before it, 4
        the body: for each entry its size, 4 bytes, and its envelope (`zab.ledger.entries.envelope`), verbatim

The index begins with 16 bytes: magic "ZOIX", version, bytes of the body, CRC-32C of the body. Its body is JSON.

    builder = BlockBuilder(ledger, digest, block_bytes)   of entries in their order
    index = CopyIndex(…);  index.encode()
    decode_index(data, ledger, uid)                       checked against themselves, and against the list
    entries_of(block, data, ledger, digest)
    envelopes_of(block, data, ledger)                     the same without opening them

The metadata are without the ledger's password, which would be in clear; the index has a salted digest of it.

Not here: where objects are stored (`zab.ledgers.objects`), and which copy counts (`offloading`).
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from attrs import evolve, frozen

from zab.ledger.entries.digests import DIGEST_BYTES, DigestType
from zab.ledger.entries.envelope import HEADER_BYTES, Digest, Entry, EntryError, header_of
from zab.ledger.entries.ids import ID_MAX
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.wire.checksums import crc32c

BLOCK_HEADER_BYTES: Final = 40
INDEX_HEADER_BYTES: Final = 16
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger index is not read."""
BLOCK_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger block is not read. One has as many entries as reach its size, so it may be larger by one entry."""
ENTRY_BYTES_MIN: Final = 4 + HEADER_BYTES
"""What an entry takes in a block: an index with more entries than fit into its blocks is damaged."""
FORMAT_VERSION: Final = 1

_BLOCK: Final = Struct(">4sIqqIII")
_INDEX: Final = Struct(">4sIII")
_U32: Final = Struct(">I")
_BLOCK_MAGIC: Final = b"ZOBL"
_INDEX_MAGIC: Final = b"ZOIX"
_NAME: Final = re.compile(r"([0-9]{1,19})-([0-9A-Za-z-]{1,64})\.(data|index)(\.tmp)?", re.ASCII)
_EXTRA: Final = "ledgers"


class DamagedObjectError(ValueError):
    """An object that is not what was written for this ledger."""


# --------------------------------------------------------------------------------------------------------------- names


def data_name(ledger: int, uid: str) -> str:
    return f"{ledger}-{uid}.data"


def index_name(ledger: int, uid: str) -> str:
    return f"{ledger}-{uid}.index"


def copy_of_name(name: str) -> tuple[int, str] | None:
    """Ledger and uid of an object, or of what a crash left of one; None: it is something else."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


def directory(uri: str, instance: str, log: str) -> str:
    """Where the copies of one log are. `instance`: the id of the root of its ledgers: two services with logs of one
    name can share a store."""
    # A percent sign would be decoded again, and a slash in a name would lead elsewhere.
    parts = "/".join(quote(part, safe="").replace("%", "=") for part in (instance, log))
    if "://" not in uri:
        return f"{uri.rstrip('/')}/{parts}"
    base, sep, query = uri.partition("?")
    return f"{base.rstrip('/')}/{parts}{sep}{query}"


# -------------------------------------------------------------------------------------------------------------- blocks


class Block(NamedTuple):
    """Where one is in the data. `size`: with its header, in bytes; `crc`: of its body."""

    offset: int
    first: int
    entries: int
    size: int
    crc: int

    @property
    def last(self) -> int:
        return self.first + self.entries - 1


class BlockBuilder:
    """Puts entries, from 0 on and without gaps, into blocks of at least `block_bytes`, except for the last one."""

    def __init__(self, ledger: int, digest: Digest, block_bytes: int) -> None:
        self.blocks: list[Block] = []
        """The blocks that are finished."""
        self.length = 0
        """Bytes of payload up to the last entry, as it says itself."""
        self._ledger, self._digest, self._block_bytes = ledger, digest, block_bytes
        self._parts: list[bytes] = []
        self._bytes = 0
        self._first = 0
        self._count = 0
        self._offset = 0

    @property
    def next(self) -> int:
        """The entry that comes next; so many there were."""
        return self._first + self._count

    @property
    def data_bytes(self) -> int:
        """The size of all blocks that are finished."""
        return self._offset

    def add(self, entry: Entry) -> bytes | None:
        """The next entry. Returns a block if one is full."""
        if (entry.ledger, entry.entry) != (self._ledger, self.next):
            raise DamagedObjectError(f"entry {entry.entry} of ledger {entry.ledger} instead of {self.next}")
        envelope = self._digest.pack(entry)
        self._parts += (_U32.pack(len(envelope)), envelope)
        self._bytes += 4 + len(envelope)
        self._count += 1
        self.length = entry.length
        return self.finish() if self._bytes >= self._block_bytes else None

    def finish(self) -> bytes | None:
        """The last block, None if nothing is left."""
        if not self._count:
            return None
        body, checksum = b"".join(self._parts), crc32c(_EXTRA)
        crc = checksum(body)
        header = _BLOCK.pack(_BLOCK_MAGIC, FORMAT_VERSION, self._ledger, self._first, self._count, len(body), crc)
        block = b"".join((header, _U32.pack(checksum(header)), body))
        self.blocks.append(Block(self._offset, self._first, self._count, len(block), crc))
        self._offset += len(block)
        self._first, self._count, self._bytes = self.next, 0, 0
        self._parts.clear()
        return block


def check_block(block: Block, data: bytes | memoryview, ledger: int) -> memoryview:
    """The body of a block that was read. Raises DamagedObjectError."""
    checksum = crc32c(_EXTRA)
    if len(data) != block.size:
        raise DamagedObjectError(f"a block at {block.offset} has {len(data)} bytes instead of {block.size}")
    magic, version, found, first, count, size, crc = _BLOCK.unpack_from(data)
    if magic != _BLOCK_MAGIC or checksum(data[: _BLOCK.size]) != _U32.unpack_from(data, _BLOCK.size)[0]:
        raise DamagedObjectError(f"no block at {block.offset}")
    if version != FORMAT_VERSION:
        raise DamagedObjectError(f"a block of format {version} at {block.offset}, only {FORMAT_VERSION} is known")
    if (found, first, count, size + BLOCK_HEADER_BYTES, crc) != (ledger, *block[1:]):
        raise DamagedObjectError(f"another block at {block.offset} than the index says")
    body = memoryview(data)[BLOCK_HEADER_BYTES:]
    if checksum(body) != crc:
        raise DamagedObjectError(f"the checksum of the block at {block.offset} does not match")
    return body


def entries_of(block: Block, data: bytes, ledger: int, opens: Digest | DigestType) -> Iterator[Entry]:
    """The entries of a block that was read. `opens`: what verifies each envelope, or only the type of its digest, which
    is then not verified. Raises DamagedObjectError."""
    for number, _, envelope in envelopes_of(block, data, ledger):
        try:
            yield opens.open(envelope, ledger, number) if isinstance(opens, Digest) else _trusted(opens, envelope)
        except EntryError as error:
            raise DamagedObjectError(str(error)) from None


def envelopes_of(block: Block, data: bytes | memoryview, ledger: int) -> Iterator[tuple[int, int, memoryview]]:
    """For each entry of a block that was read: its number, the offset of its envelope in the data object, and the
    envelope, which only the checksum of the block vouches for. Raises DamagedObjectError."""
    body = check_block(block, data, ledger)
    at = 0
    for number in range(block.first, block.first + block.entries):
        size = _U32.unpack_from(body, at)[0] if at + 4 <= len(body) else -1
        envelope = body[at + 4 : at + 4 + size]
        if size < 0 or len(envelope) != size:
            raise DamagedObjectError(f"entry {number} is not whole in its block")
        yield number, block.offset + BLOCK_HEADER_BYTES + at + 4, envelope
        at += 4 + size
    if at != len(body):
        raise DamagedObjectError(f"the block at {block.offset} goes on after its last entry")


def _trusted(digest_type: DigestType, envelope: memoryview) -> Entry:
    return Entry(*header_of(envelope), bytes(envelope[HEADER_BYTES + DIGEST_BYTES[digest_type] :]))


# --------------------------------------------------------------------------------------------------------------- index


@frozen(kw_only=True)
class CopyIndex:
    """What the index of a copy says. Constructing one that contradicts itself raises DamagedObjectError."""

    ledger: int
    uid: str
    metadata: LedgerMetadata
    """Without the password."""
    password_digest: str
    blocks: tuple[Block, ...]

    def __attrs_post_init__(self) -> None:
        at, entry = 0, 0
        for block in self.blocks:
            is_next = (block.offset, block.first) == (at, entry)
            if not is_next or block.entries < 1 or not BLOCK_HEADER_BYTES < block.size <= BLOCK_BYTES_MAX:
                raise DamagedObjectError(f"the blocks do not follow each other at entry {entry}")
            if block.entries * ENTRY_BYTES_MIN > block.size - BLOCK_HEADER_BYTES:
                raise DamagedObjectError(f"{block.entries} entries in a block of {block.size} bytes")
            at, entry = at + block.size, entry + block.entries
        if not self.metadata.is_closed or entry != self.metadata.last + 1:
            raise DamagedObjectError(f"{entry} entries, and the ledger's end is {self.metadata.last}")

    @property
    def data_bytes(self) -> int:
        """The size of the data object."""
        return self.blocks[-1].offset + self.blocks[-1].size if self.blocks else 0

    @property
    def entries(self) -> int:
        return self.metadata.last + 1

    def at(self, entry: int) -> int:
        """The number of the block that has this entry."""
        return bisect_right(self.blocks, entry, key=lambda block: block.first) - 1

    def takes(self, password: bytes) -> bool:
        """Whether this is the ledger's password."""
        return _password_digest(password, self.uid) == self.password_digest

    def encode(self) -> bytes:
        members = {
            "blocks": self.blocks,
            "ledger": self.ledger,
            "metadata": b64encode(encode_metadata(self.metadata)).decode(),
            "password": self.password_digest,
            "uid": self.uid,
        }
        body = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
        return _INDEX.pack(_INDEX_MAGIC, FORMAT_VERSION, len(body), crc32c(_EXTRA)(body)) + body


def index_of(ledger: int, uid: str, metadata: LedgerMetadata, builder: BlockBuilder) -> CopyIndex:
    """The index of what was built. Raises DamagedObjectError if that is not the whole ledger."""
    if (builder.next - 1, builder.length) != (metadata.last, metadata.length):
        raise DamagedObjectError(
            f"{builder.next} entries with {builder.length} bytes, not {metadata.last + 1} with {metadata.length}"
        )
    return CopyIndex(
        ledger=ledger,
        uid=uid,
        metadata=evolve(metadata, password=b""),
        password_digest=_password_digest(metadata.password, uid),
        blocks=tuple(builder.blocks),
    )


def decode_index(data: bytes, ledger: int, uid: str) -> CopyIndex:
    """Raises DamagedObjectError, also for the index of another copy."""
    if len(data) < INDEX_HEADER_BYTES:
        raise DamagedObjectError(f"an index of {len(data)} bytes")
    magic, version, size, crc = _INDEX.unpack_from(data)
    if magic != _INDEX_MAGIC:
        raise DamagedObjectError("no index")
    if version != FORMAT_VERSION:
        raise DamagedObjectError(f"an index of format {version}, only {FORMAT_VERSION} is known")
    body = data[INDEX_HEADER_BYTES:]
    if len(body) != size or crc32c(_EXTRA)(body) != crc:
        raise DamagedObjectError("the checksum of the index does not match")
    try:
        found = json.loads(body)
        index = CopyIndex(
            ledger=_whole(found["ledger"]),
            uid=str(found["uid"]),
            metadata=decode_metadata(b64decode(found["metadata"], validate=True)),
            password_digest=str(found["password"]),
            blocks=tuple(Block(*map(_whole, each)) for each in found["blocks"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError, InvalidMetadataError) as error:
        if isinstance(error, DamagedObjectError):
            raise
        raise DamagedObjectError(f"no index: {error!r}") from None
    if (index.ledger, index.uid) != (ledger, uid):
        raise DamagedObjectError(f"the index of copy {index.uid} of ledger {index.ledger}")
    return index


def _whole(found: Any) -> int:
    if type(found) is not int or not 0 <= found <= ID_MAX:
        raise DamagedObjectError(f"no number: {str(found)[:40]}")
    return found


def _password_digest(password: bytes, uid: str) -> str:
    salt = hashlib.blake2b(uid.encode(), digest_size=16).digest()
    return hashlib.blake2b(password, digest_size=16, salt=salt).hexdigest()
