"""What members ask each other for beside their links: a snapshot (H4 slow learners), or a part of the history
(C9 holes).

Whoever needs it dials the quorum port of a member that may have it, for that purpose (`Purpose.SNAPSHOT`):

    asks        SnapshotRequest
    answers     SnapshotSize        then the bytes of the file from `offset` to its end, in pieces
                SnapshotRefused     then nothing

    asks        HistoryRequest
    answers     SnapshotSize        then the batches that are there, one after the other, in pieces; perhaps none

The messages are records; each of them, and each piece, is the payload of a frame. The bytes are those of
`datatree.snapshot` and `datatree.log.batch`, unchanged: their checksums travel with them, and whoever installs the file
or takes the batches verifies all of them, so nothing is verified here. A member of an earlier version does not know
HistoryRequest, and closes the connection.

Not here: what is made of the answers (`snapshot_fetch`, `datatree.recovery.holes`), and how the frames travel.
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
"""Of batches that are sent at once, unless one alone is more."""
HISTORY_BYTES_MAX = HEADER_BYTES + BODY_BYTES_MAX
REASON_CHARACTERS_MAX = 1000
"""A reason is cut to this length: so many characters fit into an answer, whichever they are."""


class RefusedError(Exception):
    """The snapshot is not sent; the reason is its text."""


@attrs.frozen
class SnapshotRequest:
    """A learner asks for a snapshot, from this byte on."""

    TYPE: ClassVar[int] = 200
    lineage: bytes = checked(CHAIN)
    zxid: int = checked(ZXID)
    chain: bytes = checked(CHAIN)
    offset: int = checked(COUNT)


@attrs.frozen
class SnapshotSize:
    """The bytes of the file follow, of which there are so many in all."""

    TYPE: ClassVar[int] = 201
    size_bytes: int = checked(COUNT)


@attrs.frozen
class SnapshotRefused:
    """Why nothing follows, in words."""

    TYPE: ClassVar[int] = 202
    reason: str = checked(is_text(REASON_CHARACTERS_MAX))


@attrs.frozen
class HistoryRequest:
    """A member asks for batches that it cannot read any more: those after this position, up to a zxid."""

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
    """The size in bytes of the file that is asked for. Reads its header. Raises RefusedError."""
    path = snapshot_path(request.zxid)
    try:
        header = read_snapshot_header(disk, path)
        size_bytes = disk.size(path)
    except FileNotFoundError:
        raise RefusedError(f"there is no {path} any more") from None
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error}") from error
    if header is None or (header.lineage, header.chain) != (request.lineage, request.chain):
        raise RefusedError(f"{path} is of another history")
    if request.offset > size_bytes:
        raise RefusedError(f"{path} has {size_bytes} bytes, not {request.offset}")
    return size_bytes


def history_of(disk: Disk, request: HistoryRequest) -> bytes:
    """The batches that are asked for, as many as are sent at once. Raises RefusedError."""
    after = request.zxid, request.chain
    try:
        batches = read_history(disk, request.lineage, after, request.upto, HISTORY_BYTES)
    except OSError as error:
        raise RefusedError(f"the log cannot be read: {error}") from error
    return b"".join(batch.raw for batch in batches)


def read_piece(disk: Disk, path: str, offset: int, bytes_max: int) -> bytes:
    """The next bytes of a file that is being sent, one at least. Raises OSError, and EOFError where it is cut."""
    piece = disk.read(path, offset, bytes_max)
    if not piece:
        raise EOFError(f"{path} ends at {offset} bytes")
    return piece
