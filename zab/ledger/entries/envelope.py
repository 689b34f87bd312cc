"""The envelope of an entry: the bytes that a writer makes, that a bookie stores, and that a reader is sent.

    0   ledger id, 8 bytes
    8   entry id, 8
    16  last confirmed entry that the writer knew, 8; -1: none; below the entry id
    24  payload bytes of the ledger up to this entry, with it, 8
    32  digest of the 32 bytes before it and of the payload: 0, 4, 8 or 20 bytes (`digests.py`)
        payload, to the end

Numbers are signed and big-endian. The packet of an explicit LAC is alike: ledger id, LAC, and the digest of these 16
bytes.

A bookie reads the header alone (`header_of`), which proves nothing. What `Digest.open` returns was written by a client
that knows the ledger, its last confirmed entry included. It need not be the first envelope of the entry: recovery and
repair by BookKeeper's clients make it again, with the same payload and length, but with another last confirmed entry.
"""

from __future__ import annotations

from hmac import compare_digest
from struct import Struct
from typing import Final

import attrs

from zab.ledger.entries.digests import DIGEST_BYTES, DigestType, digest_function
from zab.ledger.entries.ids import NONE
from zab.ledger.entries.keys import master_key

HEADER_BYTES: Final = 32
LAC_HEADER_BYTES: Final = 16

_HEADER: Final = Struct(">qqqq")
_LAC_HEADER: Final = Struct(">qq")


class EntryError(ValueError):
    """Bytes that are not an entry."""


class MalformedEntryError(EntryError):
    """Too few bytes for the header of an entry or of an explicit LAC."""


class DigestMismatchError(EntryError):
    """The bytes are not what a writer of this ledger wrote for this entry: the digest differs, the ids do, or there are
    too few bytes."""


@attrs.frozen
class Entry:
    """An entry, as its writer knows it."""

    ledger: int
    entry: int
    last_confirmed: int = NONE
    """The last entry that was confirmed when this one was made; `NONE`: none was."""
    length: int = 0
    """The payload bytes of all entries of the ledger up to this one, with it."""
    payload: bytes = b""

    @property
    def id(self) -> int:
        """The number of the entry in its ledger, from 0."""
        return self.entry

    @property
    def proved_lac(self) -> int:
        """An entry that was confirmed when this one was made, and all before it; `NONE`: none is proved. BookKeeper's
        repair makes entries again with the LAC that it knew, which comes after them: it is not counted."""
        return self.last_confirmed if self.last_confirmed < self.entry else NONE


def header_of(envelope: bytes | memoryview) -> tuple[int, int, int, int]:
    """Ledger id, entry id, last confirmed entry and length, none of it verified. Raises MalformedEntryError."""
    if len(envelope) < HEADER_BYTES:
        raise MalformedEntryError(f"an entry of {len(envelope)} bytes, its header alone has {HEADER_BYTES}")
    header: tuple[int, int, int, int] = _HEADER.unpack_from(envelope)
    return header


def lac_header_of(packet: bytes | memoryview) -> tuple[int, int]:
    """Ledger id and LAC of the packet of an explicit LAC, not verified. Raises MalformedEntryError."""
    if len(packet) < LAC_HEADER_BYTES:
        raise MalformedEntryError(f"an explicit LAC of {len(packet)} bytes, its header alone has {LAC_HEADER_BYTES}")
    header: tuple[int, int] = _LAC_HEADER.unpack_from(packet)
    return header


class Digest:
    """Makes and opens the envelopes of one ledger, or of all ledgers with the same digest type and password."""

    __slots__ = ("_compute", "_payload_at", "digest_bytes", "master_key", "password", "type")

    def __init__(self, type: DigestType, password: bytes) -> None:  # noqa: A002 (its name in the metadata)
        self.type = type
        self.password = password
        self.master_key = master_key(password)
        """The key of the requests for this ledger, 20 bytes."""
        self.digest_bytes = DIGEST_BYTES[type]
        self._payload_at = HEADER_BYTES + self.digest_bytes
        self._compute = digest_function(type, password)

    def pack(self, entry: Entry) -> bytes:
        """The envelope of an entry."""
        header = _HEADER.pack(entry.ledger, entry.entry, entry.last_confirmed, entry.length)
        payload = entry.payload
        return b"".join((header, self._compute(header, payload), payload))

    def open(self, envelope: bytes | memoryview, ledger: int, entry: int) -> Entry:
        """The entry in an envelope that was read as this entry. Raises DigestMismatchError."""
        at = self._payload_at
        if len(envelope) < at:
            raise DigestMismatchError(
                f"entry {entry} of ledger {ledger} has {len(envelope)} bytes, at least {at} needed"
            )
        found_ledger, found_entry, last_confirmed, length = _HEADER.unpack_from(envelope)
        view = memoryview(envelope)
        payload = bytes(view[at:])
        if not compare_digest(self._compute(view[:HEADER_BYTES], payload), view[HEADER_BYTES:at]):
            raise DigestMismatchError(f"the digest of entry {entry} of ledger {ledger} does not match")
        if (found_ledger, found_entry) != (ledger, entry):
            raise DigestMismatchError(
                f"entry {found_entry} of ledger {found_ledger} instead of entry {entry} of ledger {ledger}"
            )
        return Entry(ledger, entry, last_confirmed, length, payload)

    def pack_lac(self, ledger: int, lac: int) -> bytes:
        """The packet of an explicit LAC."""
        header = _LAC_HEADER.pack(ledger, lac)
        return header + self._compute(header, b"")

    def open_lac(self, packet: bytes | memoryview, ledger: int) -> int:
        """The LAC in the packet of this ledger. Raises DigestMismatchError."""
        if len(packet) != LAC_HEADER_BYTES + self.digest_bytes:
            raise DigestMismatchError(f"the explicit LAC of ledger {ledger} has {len(packet)} bytes")
        found_ledger, lac = lac_header_of(packet)
        view = memoryview(packet)
        if not compare_digest(self._compute(view[:LAC_HEADER_BYTES], b""), view[LAC_HEADER_BYTES:]):
            raise DigestMismatchError(f"the digest of the explicit LAC of ledger {ledger} does not match")
        if found_ledger != ledger:
            raise DigestMismatchError(f"the explicit LAC of ledger {found_ledger} instead of {ledger}")
        return lac
