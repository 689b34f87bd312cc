"""The codecs of record batches: what is between a batch's header and its records.

    gzip    RFC 1952; several members follow each other
    snappy  xerial's blocks, as snappy-java writes them, or one raw block, as librdkafka may write it
    lz4     LZ4 frames; written with independent blocks of 64 KiB, because Kafka's Java clients refuse linked ones
    zstd    zstd frames

Xerial's format, big-endian: 82 "SNAPPY" 00 | version int, 1 | compatible version int, 1 | then repeatedly the length of
a block, int, and the block in raw snappy; written with 32 KiB of content in each. Without this magic, the data is one
raw block. A reader ignores the versions, which some producers write in the wrong byte order.

cramjam does all of them, so `lz4`, `python-snappy` and `zstandard` are not needed; it is in the extra `zab[broker]`.

A few bytes can claim to be gigabytes. So decompression has a limit, and it holds while the bytes are decompressed: they
go into a buffer of a fixed size, which grows by a factor, up to the limit, when it was too small. Memory is at most
twice the limit; a zstd frame reserves up to 128 MiB of addresses in addition, and touches as much as it writes. A frame
that wants more is refused. What is longer raises BatchError (MESSAGE_TOO_LARGE), what is damaged or cut BatchError
(CORRUPT_MESSAGE).
"""

import struct
from typing import Final, Protocol

from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import BatchError, Codec
from zab.partition.records.libraries import cramjam

__all__ = ["OUTPUT_BYTES_MAX", "compress", "decompress", "output_limit"]

OUTPUT_BYTES_MAX: Final = 64 << 20
_OUTPUT_PER_MESSAGE_BYTES: Final = 10

_BUFFER_BYTES_MIN: Final = 64 << 10
_FIRST_RATIO: Final = 8
_GROWTH: Final = 8
_BUFFER_IS_FULL: Final = "failed to write whole buffer"
"""How cramjam says that the output is longer than the buffer; every other text means damaged input."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_VERSION: Final = 1
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_BLOCK_LENGTH: Final = struct.Struct(">i")
_GZIP_LEVEL: Final = 6


class _Algorithm(Protocol):
    """A module of cramjam."""

    def decompress_into(self, data: bytes, output: bytearray) -> int: ...


def output_limit(max_message_bytes: int) -> int:
    """The limit of decompressed records for a topic with this `max.message.bytes`."""
    return max(OUTPUT_BYTES_MAX, _OUTPUT_PER_MESSAGE_BYTES * max_message_bytes)


def compress(codec: Codec, data: bytes) -> bytes:
    """The records as the batch has them. Raises MissingLibraryError."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return bytes(cramjam().gzip.compress(data, _GZIP_LEVEL))
        case Codec.SNAPPY:
            return _xerial(data)
        case Codec.LZ4:
            compressor = cramjam().lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(data)
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam().zstd.compress(data))


def decompress(codec: Codec, data: bytes, output_bytes_max: int = OUTPUT_BYTES_MAX) -> bytes:
    """The records. Raises BatchError (see the module's docstring) and MissingLibraryError."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _within(cramjam().gzip, data, output_bytes_max)
        case Codec.SNAPPY:
            return _unsnapped(data, output_bytes_max)
        case Codec.LZ4:
            return _within(cramjam().lz4, data, output_bytes_max)
        case Codec.ZSTD:
            return _within(cramjam().zstd, data, output_bytes_max)


def _within(algorithm: _Algorithm, data: bytes, output_bytes_max: int) -> bytes:
    """The output of this algorithm, at most so many bytes."""
    size = min(output_bytes_max, max(_BUFFER_BYTES_MIN, _FIRST_RATIO * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            length = algorithm.decompress_into(data, buffer)
        except cramjam().DecompressionError as error:
            if str(error) != _BUFFER_IS_FULL:
                raise _damaged(str(error)) from None
        else:
            return bytes(memoryview(buffer)[:length])
        if size == output_bytes_max:
            raise _too_long(output_bytes_max)
        size = min(output_bytes_max, size * _GROWTH)
        del buffer


def _xerial(data: bytes) -> bytes:
    out = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam().snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += [_BLOCK_LENGTH.pack(len(block)), block]
    return b"".join(out)


def _unsnapped(data: bytes, output_bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _raw_block(data, output_bytes_max, output_bytes_max)
    if len(data) < _XERIAL_HEADER.size:
        raise _damaged("the header of snappy is cut")
    blocks: list[bytes] = []
    position, left = _XERIAL_HEADER.size, output_bytes_max
    while position < len(data):
        start = position + _BLOCK_LENGTH.size
        if start > len(data):
            raise _damaged("the length of a snappy block is cut")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        if not 0 < length <= len(data) - start:
            raise _damaged(f"snappy block of {length} bytes, of which {len(data) - start} are there")
        blocks.append(_raw_block(data[start : start + length], left, output_bytes_max))
        left -= len(blocks[-1])
        position = start + length
    return b"".join(blocks)


def _raw_block(block: bytes, left: int, output_bytes_max: int) -> bytes:
    """Its content. A raw block says first how long that is."""
    snappy = cramjam().snappy
    try:
        length = snappy.decompress_raw_len(block)
        if length > left:
            raise _too_long(output_bytes_max)
        return bytes(snappy.decompress_raw(block))
    except cramjam().DecompressionError as error:
        raise _damaged(str(error)) from None


def _damaged(text: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"compressed records are damaged: {text}")


def _too_long(output_bytes_max: int) -> BatchError:
    text = f"compressed records become longer than {output_bytes_max} bytes"
    return BatchError(ErrorCode.MESSAGE_TOO_LARGE, text)
