"""Reading batch headers from a file, without the records."""

from __future__ import annotations

from collections.abc import Iterator

from datatree.log.disk import Disk
from zab.partition.records.batch import HEADER_BYTES, BatchHeader, read_header

LOOK_BYTES = 8 << 10
"""What a look-up reads at a time: the distance of index entries, and a little more."""
PIECE_BYTES = 4 << 20
"""What is read at a time of a file that is read as a whole."""


def headers_from(
    disk: Disk, path: str, position: int, end: int, piece_bytes: int = LOOK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from one at `position` to `end`, of a file whose batches are sound.

    Raises BatchError if they are not, OSError."""
    piece, start = b"", position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > start + len(piece):
            piece, start = disk.read(path, position, min(piece_bytes, end - position)), position
        header = read_header(piece, position - start)
        yield position, header
        position += header.size_bytes
