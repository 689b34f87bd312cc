"""The stream format of snappy-java, which ZooKeeper uses with `-Dzookeeper.snapshot.compression.method=snappy`.

Format, big-endian:

    header   82 "SNAPPY" 00 | version int, 1 | the oldest version whose readers understand it int, 1
    block*   length int | so many bytes of raw snappy, 32 KiB of content in ZooKeeper's files

Another header may replace a block if streams were concatenated. There is neither an end mark nor a checksum: the seals
of the snapshot inside prove that it is complete and correct.

cramjam, which the extra `zab[snappy]` installs, decompresses raw snappy.

Invariant: a block takes at most BLOCK_BYTES_MAX of memory, whatever length it claims.
"""

import struct
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

from datatree.zookeeper.files import ByteStream, ZooKeeperFileError

__all__ = ["MAGIC", "unsnapped"]

MAGIC: Final = b"\x82SNAPPY\x00"
VERSION: Final = 1
BLOCK_BYTES_MAX: Final = 1 << 20

_HEADER: Final = struct.Struct(">8sii")
# Incompressible data grows by a sixth at most.
_PACKED_BYTES_MAX: Final = 32 + BLOCK_BYTES_MAX + BLOCK_BYTES_MAX // 6


def unsnapped(chunks: Iterable[bytes], file: str) -> Iterator[bytes]:
    """The content, block by block. Raises ZooKeeperFileError, whose offset is that in the compressed file."""
    cramjam = _library(file)
    stream = ByteStream(chunks, file)
    _read_header(stream)
    content = memoryview(bytearray(BLOCK_BYTES_MAX))
    while stream.available(1):
        offset = stream.offset
        if stream.peek(4) == MAGIC[:4]:
            _read_header(stream)
            continue
        length = stream.read_int("the length of a snappy block")
        if not 0 < length <= _PACKED_BYTES_MAX:
            raise stream.error(f"unreasonable length {length} of a snappy block", offset)
        block = stream.take(length, "a snappy block")
        try:
            size = cramjam.snappy.decompress_raw_into(block, content)
        except cramjam.DecompressionError as error:
            raise stream.error(f"damaged snappy block: {error}", offset) from None
        yield bytes(content[:size])


def _library(file: str) -> ModuleType:
    try:
        import cramjam
    except ImportError:
        raise ZooKeeperFileError(file, 0, "compressed with snappy: pip install 'zab[snappy]' to read it") from None
    return cramjam


def _read_header(stream: ByteStream) -> None:
    offset = stream.offset
    magic, _, compatible = _HEADER.unpack(stream.take(_HEADER.size, "the header of snappy"))
    if magic != MAGIC:
        raise stream.error(f"no header of snappy: {magic!r}", offset)
    if compatible > VERSION:
        raise stream.error(f"snappy stream for readers of version {compatible}, only {VERSION} is known", offset)
