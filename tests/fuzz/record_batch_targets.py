"""Record batches as targets of the fuzzers (`targets`). Checksums are not looked at, as a producer can make them."""

from __future__ import annotations

from tests.fuzz.target import target
from tests.partition.records.some_records import MIXED, NOW_MS, TWO
from zab.partition.records.batch import BatchError, Codec, read_header, sealed, walk
from zab.partition.records.builder import encode_batch
from zab.partition.records.checks import ProduceRules, check_produced
from zab.partition.records.codecs import compress, decompress
from zab.partition.records.control import ControlType, EndMarker, decode_marker, encode_marker
from zab.partition.records.record import decode_records

LIMIT_BYTES = 1 << 20
RULES = ProduceRules(validates_records=True, max_message_bytes=1 << 30)


def _batches() -> list[bytes]:
    marker = EndMarker(ControlType.COMMIT, 3)
    control = encode_marker(marker, offset=0, leader_epoch=1, producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS)
    plain = [encode_batch(records, codec) for records in (TWO, MIXED) for codec in Codec]
    return [*plain, control, plain[0] + plain[0] + control]


@target(_batches, BatchError)
def record_batches(data: bytes) -> None:
    for position, header in walk(data):
        records = list(decode_records(data, position, LIMIT_BYTES))
        assert len(records) == header.record_count
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert not offsets or header.base_offset <= offsets[0] <= offsets[-1] <= header.last_offset
        if header.is_control:
            decode_marker(data, position)


@target(_batches, BatchError)
def produced_batches(data: bytes) -> None:
    """With the right checksum, whatever the batch contains; what is accepted can be read, and needs no correction the
    second time."""
    header = read_header(data)
    batch = sealed(header, data[61:])
    checked = check_produced(batch, RULES, 9, NOW_MS)
    assert [each.offset for each in decode_records(batch)] == list(range(header.record_count))
    for _, right in checked.max_timestamps:
        header.max_timestamp = right
        assert check_produced(sealed(header, data[61:]), RULES, 9, NOW_MS).max_timestamps == []


def _compressed() -> list[bytes]:
    return [bytes([codec]) + compress(codec, text) for codec in Codec for text in (b"", b"abc" * 50)]


@target(_compressed, BatchError)
def compressed_records(data: bytes) -> None:
    """The first byte chooses the codec."""
    codec = Codec(data[0] % len(Codec)) if data else Codec.NONE
    assert codec is Codec.NONE or len(decompress(codec, data[1:], LIMIT_BYTES)) <= LIMIT_BYTES
