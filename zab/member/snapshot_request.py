"""What a learner that fetches a snapshot and the member that has it say to each other (H4 slow learners).

The learner dials the quorum port of the member that offered the snapshot, for that purpose (`Purpose.SNAPSHOT`):

    learner     SnapshotRequest
    server      SnapshotSize        then the bytes of the file from `offset` to its end, in pieces
                SnapshotRefused     then nothing

The messages are records; each of them, and each piece, is the payload of a frame. The bytes are those of
`datatree.snapshot`, unchanged: their checksums travel with them, and whoever installs the file verifies all of them, so
nothing is verified here.

Not here: what the learner makes of the answers (`snapshot_fetch`), and how the frames travel.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from datatree.log.disk import Disk
from datatree.snapshot import read_snapshot_header, snapshot_path
from zab.message import CHAIN, ZXID
from zab.wire.records import COUNT, Codec, checked, is_text

PIECE_BYTES_MAX = 256 << 10
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


REQUESTS: Codec[SnapshotRequest] = Codec((SnapshotRequest,))
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


def read_piece(disk: Disk, path: str, offset: int, bytes_max: int) -> bytes:
    """The next bytes of a file that is being sent, one at least. Raises OSError, and EOFError where it is cut."""
    piece = disk.read(path, offset, bytes_max)
    if not piece:
        raise EOFError(f"{path} ends at {offset} bytes")
    return piece
