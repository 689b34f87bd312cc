"""Produce, read and written by hand: the same bytes and instances as by the codec, in half of the time.

What is usual is read here: few topics, partitions with records, no tagged fields. Whatever else comes, be it legal or
not, is read by the codec from the beginning; so both accept the same, and errors have the same text.

Records are views of the request's bytes. Nothing here looks into them.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from zab.kafka.codec import decode, encode, maker, struct_writer, tail_writer
from zab.kafka.declare import default_of
from zab.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from zab.kafka.primitives import (
    ProtocolError,
    Reader,
    long_uvarint,
    write_compact_count,
    write_compact_string,
    write_count,
    write_string,
)

FLEXIBLE_SINCE: Final = 9

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_TWO_INT32: Final = Struct(">ii").unpack_from
_ACKS_TIMEOUT: Final = Struct(">hi").unpack_from
_ACKS_TIMEOUT_COUNT: Final = Struct(">hii").unpack_from

_partition: Final = maker(PartitionProduceData, "index", "records")
_topic: Final = maker(TopicProduceData, "name", "partition_data")
_request: Final = maker(ProduceRequest, "transactional_id", "acks", "timeout_ms", "topic_data")

_WITHOUT_LOG_START: Final = Struct(">ihqq").pack
_WITH_LOG_START: Final = Struct(">ihqqq").pack
_THROTTLE: Final = Struct(">i").pack
_NO_LEADER: Final = default_of(PartitionProduceResponse, "current_leader")
"""The very object, which a response has that was made without a leader."""


def decode_produce_request(version: int, reader: Reader) -> ProduceRequest:
    """The request whose body begins where `reader` is; `reader` is then after it. Raises ProtocolError."""
    assert reader.end == len(reader.data)
    at = reader.at
    try:
        request = _read_flexible(reader) if version >= FLEXIBLE_SINCE else _read_plain(reader)
    except (error, IndexError, UnicodeDecodeError):
        request = None
    if request is None:
        reader.at = at
        return decode(ProduceRequest, version, reader)
    return request


def _read_plain(reader: Reader) -> ProduceRequest | None:
    data, at, end = reader.data, reader.at, reader.end
    view = memoryview(data)
    left = reader.elements_left
    (size,) = _INT16(data, at)
    at += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(data[at : at + size], "utf-8")
        at += size
    elif size != -1:
        return None
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT(data, at)
    at += 10
    left -= topic_count
    if not topic_count >= 0 or left < 0:
        return None
    topics = []
    for _ in range(topic_count):
        (size,) = _INT16(data, at)
        at += 2 + size
        if size < 0:
            return None
        name = str(data[at - size : at], "utf-8")
        (count,) = _INT32(data, at)
        at += 4
        left -= count
        if count < 0 or left < 0:
            return None
        partitions = []
        for _ in range(count):
            index, size = _TWO_INT32(data, at)
            at += 8
            if size < 0 or at + size > end:
                return None
            partitions.append(_partition(index, view[at : at + size]))
            at += size
        topics.append(_topic(name, tuple(partitions)))
    reader.at, reader.elements_left = at, left
    return _request(transactional_id, acks, timeout_ms, tuple(topics))


def _read_flexible(reader: Reader) -> ProduceRequest | None:
    data, at, end = reader.data, reader.at, reader.end
    view = memoryview(data)
    size = data[at]
    at += 1
    transactional_id = None
    if size >= 0x80:
        return None
    if size:
        transactional_id = str(data[at : at + size - 1], "utf-8")
        at += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT(data, at)
    at += 6
    topic_count = left = data[at] - 1
    at += 1
    topics = []
    if not 0 <= topic_count < 0x7F:
        return None
    for _ in range(topic_count):
        size = data[at]
        at += size
        name = str(data[at - size + 1 : at], "utf-8")
        count = data[at] - 1
        at += 1
        left += count
        if not 0 < size < 0x80 or not 0 <= count < 0x7F:
            return None
        partitions = []
        for _ in range(count):
            (index,) = _INT32(data, at)
            size = data[at + 4]
            at += 5
            if size >= 0x80:
                size, at = long_uvarint(data, at - 1)
            if not size or at + size > end or data[at + size - 1]:
                return None
            partitions.append(_partition(index, view[at : at + size - 1]))
            at += size
        if data[at]:
            return None
        at += 1
        topics.append(_topic(name, tuple(partitions)))
    if data[at] or left > reader.elements_left:
        return None
    reader.at, reader.elements_left = at + 1, reader.elements_left - left
    return _request(transactional_id, acks, timeout_ms, tuple(topics))


def encode_produce_response(response: ProduceResponse, version: int, out: bytearray) -> None:
    """Append the body of `response`. Raises ProtocolError if it cannot be expressed in this version."""
    size = len(out)
    try:
        _write(response, version, out)
    except (error, ProtocolError):
        del out[size:]
        encode(response, version, out)


def _write(response: ProduceResponse, version: int, out: bytearray) -> None:
    flexible = version >= FLEXIBLE_SINCE
    write_topic_name = write_compact_string if flexible else write_string
    write_array_count = write_compact_count if flexible else write_count
    write_whole = struct_writer(PartitionProduceResponse, version, flexible)
    has_log_start = version >= 5
    # No errors of records, no message, no tagged fields.
    end = b"" if version < 8 else b"\0\0\0\0\xff\xff" if version == 8 else b"\1\0\0"
    write_array_count(out, len(response.responses))
    for topic in response.responses:
        write_topic_name(out, topic.name)
        write_array_count(out, len(topic.partition_responses))
        for each in topic.partition_responses:
            if each.record_errors or each.error_message is not None or each.current_leader is not _NO_LEADER:
                write_whole(out, each)
            elif has_log_start:
                out += _WITH_LOG_START(
                    each.index, each.error_code, each.base_offset, each.log_append_time_ms, each.log_start_offset
                )
                out += end
            else:
                out += _WITHOUT_LOG_START(each.index, each.error_code, each.base_offset, each.log_append_time_ms)
        if flexible:
            out.append(0)
    out += _THROTTLE(response.throttle_time_ms)
    tail_writer(ProduceResponse, version, flexible)(out, response)
