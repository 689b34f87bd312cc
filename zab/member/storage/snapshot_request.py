"""Requests between members on connections of their own: for a snapshot (H4 slow learners), or a part of the history
(C9 holes).

A member that needs one dials the quorum port of another member, with `Purpose.SNAPSHOT`:

    asks        SnapshotRequest
    answers     SnapshotSize        then the bytes of the file from `offset` to its end, in pieces
                SnapshotRefused     then nothing

    asks        HistoryRequest
    answers     SnapshotSize        then the available batches, one after the other, in pieces; perhaps none

The messages are records; each of them, and each piece, is the payload of a frame. The bytes are those of
`datatree.snapshot` and `datatree.log.batch`, unchanged: they include checksums, which the receiver verifies, so nothing
is verified here. A member of an earlier version does not know HistoryRequest, and closes the connection.

Not here: the use of the answers (`snapshot_fetch`, `datatree.recovery.holes`), and the connections.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from datatree.log.batch import BODY_BYTES_MAX, HEADER_BYTES
from datatree.log.disk import Disk
from datatree.log.zxid import Zxid
from datatree.recovery.holes import read_history
from datatree.snapshot import read_snapshot_header, snapshot_path
from zab.protocol.fields import CHAIN, ZXID
from zab.wire.records import COUNT, Codec, checked, is_text

PIECE_BYTES_MAX = 256 << 10
HISTORY_BYTES = 4 << 20
"""The most bytes of batches in an answer, unless a single batch is larger."""
HISTORY_BYTES_MAX = HEADER_BYTES + BODY_BYTES_MAX
REASON_CHARACTERS_MAX = 1000
"""A reason is cut to this length, which fits into an answer for any characters."""


class RefusedError(Exception):
    """The snapshot is not sent; the reason is its text."""


@attrs.frozen
class SnapshotRequest:
    """Asks for a snapshot, from this byte on."""

    TYPE: ClassVar[int] = 200
    lineage: bytes = checked(CHAIN)
    zxid: int = checked(ZXID)
    chain: bytes = checked(CHAIN)
    offset: int = checked(COUNT)


@attrs.frozen
class SnapshotSize:
    """The size of the whole file, whose bytes follow."""

    TYPE: ClassVar[int] = 201
    size_bytes: int = checked(COUNT)


@attrs.frozen
class SnapshotRefused:
    """The reason why nothing follows."""

    TYPE: ClassVar[int] = 202
    reason: str = checked(is_text(REASON_CHARACTERS_MAX))


@attrs.frozen
class HistoryRequest:
    """Asks for batches that the member can no longer read: those after this position, up to a zxid."""

    TYPE: ClassVar[int] = 203
    lineage: bytes = checked(CHAIN)
    zxid: Zxid = checked(ZXID)
    chain: bytes = checked(CHAIN)
    upto: Zxid = checked(ZXID)


REQUESTS: Codec[SnapshotRequest | HistoryRequest] = Codec((SnapshotRequest, HistoryRequest))
ANSWERS: Codec[SnapshotSize | SnapshotRefused] = Codec((SnapshotSize, SnapshotRefused))


def accepted(size_bytes: int) -> bytes:
    """The payload that says that the bytes follow."""
    return ANSWERS.encode(SnapshotSize(size_bytes))


def refused(reason: str) -> bytes:
    """The payload that says that nothing follows."""
    return ANSWERS.encode(SnapshotRefused(reason[:REASON_CHARACTERS_MAX]))


def size_of(disk: Disk, request: SnapshotRequest) -> int:
    """The size in bytes of the requested file. Reads its header. Raises RefusedError."""
    path = snapshot_path(request.zxid)
    try:
        header = read_snapshot_header(disk, path)
        size_bytes = disk.size(path)
    except FileNotFoundError:
        raise RefusedError(f"there is no {path} any more") from None
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error}") from error
    if header is None or (header.lineage, header.chain) != (request.lineage, request.chain):
        raise RefusedError(f"{path} belongs to another history")
    if request.offset > size_bytes:
        raise RefusedError(f"{path} has {size_bytes} bytes, not {request.offset}")
    return size_bytes


def history_of(disk: Disk, request: HistoryRequest) -> bytes:
    """The requested batches, as many as fit into an answer. Raises RefusedError."""
    after = request.zxid, request.chain
    try:
        batches = read_history(disk, request.lineage, after, request.upto, HISTORY_BYTES)
    except OSError as error:
        raise RefusedError(f"the log cannot be read: {error}") from error
    return b"".join(batch.raw for batch in batches)


def read_piece(disk: Disk, path: str, offset: int, bytes_max: int) -> bytes:
    """The next bytes of a file, at least one. Raises OSError, and EOFError at its end."""
    piece = disk.read(path, offset, bytes_max)
    if not piece:
        raise EOFError(f"{path} ends at {offset} bytes")
    return piece
