"""The codecs, against other implementations of them, and against bytes that are made to take all memory."""

from __future__ import annotations

import contextlib
import gzip
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.kafka.errors import ErrorCode
from zab.partition.records.batch import BatchError, Codec
from zab.partition.records.codecs import OUTPUT_BYTES_MAX, compress, decompress, output_limit

COMPRESSED = [codec for codec in Codec if codec]
pyarrow = pytest.importorskip("pyarrow")

TEXT = b"".join(b'{"id":%d,"name":"user%d"}' % (i, i * i) for i in range(5_000))
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def error_of(codec: Codec, data: bytes, limit: int = OUTPUT_BYTES_MAX) -> ErrorCode:
    with pytest.raises(BatchError) as caught:
        decompress(codec, data, limit)
    return caught.value.error


def parsed_xerial(data: bytes) -> Iterator[bytes]:
    assert data[:16] == XERIAL
    position = 16
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        yield data[position + 4 : position + 4 + length]
        position += 4 + length


@given(st.sampled_from(Codec), st.binary(max_size=2_000), st.sampled_from([1, 40]))
def test_what_is_compressed_is_decompressed(codec: Codec, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", COMPRESSED)
def test_text_becomes_smaller(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 2


def test_others_read_what_is_written() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT
    zstd = pyarrow.Codec("zstd").decompress(compress(Codec.ZSTD, TEXT), len(TEXT))
    assert zstd.to_pybytes() == TEXT
    snappy = pyarrow.Codec("snappy")
    blocks = list(parsed_xerial(compress(Codec.SNAPPY, TEXT)))
    sizes = [32 << 10] * (len(TEXT) // (32 << 10)) + [len(TEXT) % (32 << 10)]
    assert len(blocks) == len(sizes) > 2
    content = [snappy.decompress(block, size).to_pybytes() for block, size in zip(blocks, sizes, strict=True)]
    assert b"".join(content) == TEXT


def test_lz4_is_written_as_java_reads_it() -> None:
    """Independent blocks of 64 KiB, no size and no checksum of the content."""
    frame = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not frame["block_linked"]
    assert not frame["content_checksum"]
    assert (frame["content_size"], frame["block_size"]) == (0, 64 << 10)


FOREIGN = {
    "gzip": (Codec.GZIP, gzip.compress(TEXT)),
    "gzip, members": (Codec.GZIP, gzip.compress(TEXT[:7]) + gzip.compress(b"") + gzip.compress(TEXT[7:])),
    "snappy, raw": (Codec.SNAPPY, pyarrow.Codec("snappy").compress(TEXT).to_pybytes()),
    "lz4, linked": (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True)),
    "lz4, checksums": (Codec.LZ4, lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True)),
    "lz4, size": (Codec.LZ4, lz4.frame.compress(TEXT, store_size=True)),
    "lz4, 4 MiB": (Codec.LZ4, lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4, frames": (Codec.LZ4, lz4.frame.compress(TEXT[:9]) + lz4.frame.compress(TEXT[9:])),
    "zstd": (Codec.ZSTD, pyarrow.Codec("zstd").compress(TEXT).to_pybytes()),
    "zstd, frames": (
        Codec.ZSTD,
        pyarrow.Codec("zstd").compress(TEXT[:9]).to_pybytes() + pyarrow.Codec("zstd").compress(TEXT[9:]).to_pybytes(),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_write_is_read(name: str) -> None:
    codec, data = FOREIGN[name]
    assert decompress(codec, data) == TEXT


def test_zstd_without_its_size_is_read() -> None:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(TEXT)
    assert decompress(Codec.ZSTD, bytes(compressor.finish())) == TEXT


@pytest.mark.parametrize("versions", [struct.pack("<ii", 1, 1), struct.pack(">ii", 2, 9), struct.pack(">ii", -1, 0)])
def test_versions_of_xerial_are_ignored(versions: bytes) -> None:
    """Redpanda writes them in the other byte order."""
    assert decompress(Codec.SNAPPY, XERIAL[:8] + versions + compress(Codec.SNAPPY, TEXT)[16:]) == TEXT


def test_xerial_without_a_block_is_empty() -> None:
    assert decompress(Codec.SNAPPY, XERIAL) == b""


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (b"\0\0\0", "the length of a snappy block is cut"),
        (b"\0\0\0\0", "snappy block of 0 bytes, of which 0 are there"),
        (b"\xff\xff\xff\xff\0", "snappy block of -1 bytes, of which 1 are there"),
        (b"\x7f\xff\xff\xff\0", "snappy block of 2147483647 bytes, of which 1 are there"),
        (b"\0\0\0\5\1\0a", "snappy block of 5 bytes, of which 3 are there"),
    ],
)
def test_blocks_that_are_not_there_are_refused(after: bytes, why: str) -> None:
    with pytest.raises(BatchError, match=why) as caught:
        decompress(Codec.SNAPPY, XERIAL + after)
    assert caught.value.error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_no_flipped_bit_does_more_than_damage(codec: Codec) -> None:
    """What is read may be wrong, as the checksum of the batch is not looked at here, but there is an end to it."""
    small = compress(codec, TEXT[:300])
    refused = 0
    for place in range(len(small)):
        for bit in range(8):
            damaged = bytearray(small)
            damaged[place] ^= 1 << bit
            try:
                assert len(decompress(codec, bytes(damaged), 100_000)) <= 100_000
            except BatchError as error:
                refused += 1
                if error.error not in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE):
                    raise
    assert refused > len(small)


@given(st.sampled_from(COMPRESSED), st.binary(max_size=80))
def test_no_bytes_end_a_decompression_otherwise(codec: Codec, data: bytes) -> None:
    for begin in (b"", compress(codec, b"")[:7], XERIAL):
        with contextlib.suppress(BatchError):
            assert len(decompress(codec, begin + data, 100_000)) <= 100_000


@pytest.mark.parametrize("codec", COMPRESSED)
def test_nothing_is_not_a_compressed_batch(codec: Codec) -> None:
    assert error_of(codec, b"") is ErrorCode.CORRUPT_MESSAGE


# ---- The limit


def chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield bytes(1 << 20)


def gzip_of_zeros(mebibytes: int) -> bytes:
    compressor = zlib.compressobj(wbits=31)
    return b"".join(map(compressor.compress, chunks(mebibytes))) + compressor.flush()


def streamed(module: object) -> Callable[[int], bytes]:
    def of_zeros(mebibytes: int) -> bytes:
        compressor = module.Compressor()  # type: ignore[attr-defined]
        for chunk in chunks(mebibytes):
            compressor.compress(chunk)
        return bytes(compressor.finish())

    return of_zeros


def xerial_of_zeros(mebibytes: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    return XERIAL + (struct.pack(">i", len(block)) + block) * mebibytes


def raw_snappy_of_zeros(mebibytes: int) -> bytes:
    """One literal zero, then copies of 64 bytes from one byte before."""
    length = mebibytes << 20
    varint = b""
    rest = length
    while rest > 0x7F:
        varint += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return varint + bytes([rest]) + b"\0\0" + b"\xfe\1\0" * ((length - 1) // 64) + b"\xfa\1\0"


OF_ZEROS: dict[str, tuple[Codec, Callable[[int], bytes]]] = {
    "gzip": (Codec.GZIP, gzip_of_zeros),
    "xerial": (Codec.SNAPPY, xerial_of_zeros),
    "raw snappy": (Codec.SNAPPY, raw_snappy_of_zeros),
    "lz4": (Codec.LZ4, streamed(cramjam.lz4)),
    "zstd": (Codec.ZSTD, streamed(cramjam.zstd)),
}


@pytest.mark.parametrize("name", OF_ZEROS)
def test_the_limit_is_inclusive(name: str) -> None:
    codec, of_zeros = OF_ZEROS[name]
    data = of_zeros(2)
    assert decompress(codec, data, 2 << 20) == bytes(2 << 20)
    with pytest.raises(BatchError, match=f"longer than {(2 << 20) - 1} bytes") as caught:
        decompress(codec, data, (2 << 20) - 1)
    assert caught.value.error is ErrorCode.MESSAGE_TOO_LARGE


def peak_bytes() -> int:
    """The most memory of this process since `forget_peak`."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("name", OF_ZEROS)
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(name: str) -> None:
    """It would be 128 MiB; the limit is 1 MiB."""
    codec, of_zeros = OF_ZEROS[name]
    bomb = of_zeros(128)
    assert len(bomb) < 8 << 20
    forget_peak()
    before = peak_bytes()
    assert error_of(codec, bomb, 1 << 20) is ErrorCode.MESSAGE_TOO_LARGE
    assert peak_bytes() - before < 24 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(("exponent", "is_read"), [(17, True), (18, False), (21, False)])
def test_the_window_of_zstd_takes_no_memory_that_is_not_written(exponent: int, is_read: bool) -> None:
    """A frame that asks for a window of 2**27 to 2**31 bytes, and has 1,000 bytes of content."""
    block = (1_000 << 3 | 0b011).to_bytes(3, "little") + b"a"
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([exponent << 3]) + block
    forget_peak()
    before = peak_bytes()
    if is_read:
        assert decompress(Codec.ZSTD, frame) == b"a" * 1_000
    else:
        assert error_of(Codec.ZSTD, frame) is ErrorCode.CORRUPT_MESSAGE
    assert peak_bytes() - before < 8 << 20


@pytest.mark.parametrize(
    ("max_message_bytes", "limit"),
    [(1, 64 << 20), (1_048_588, 64 << 20), (7 << 20, 70 << 20), (2**31 - 1, 10 * 2**31 - 10)],
)
def test_the_limit_follows_the_size_of_messages(max_message_bytes: int, limit: int) -> None:
    assert output_limit(max_message_bytes) == limit
