"""Responses of Fetch, read and written by hand: the same bytes and instances as by the codec.

**Records never pass through here.** A response is made in pieces, between which the caller puts the records: bytes, or
slices of files for sendfile. In a response that is read they are views of its bytes.

Read here is what is usual: few topics, no tagged fields. Whatever else comes, be it legal or not, is read by the codec
from the beginning; so both accept the same, and errors have the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from struct import Struct, error
from typing import Final

from zab.kafka.api_key import ApiKey
from zab.kafka.codec import decode, maker, tail_writer
from zab.kafka.declare import default_of
from zab.kafka.headers import write_response_header
from zab.kafka.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchPartitionData, FetchResponse
from zab.kafka.primitives import (
    UUID_BYTES,
    ProtocolError,
    Reader,
    Uuid,
    long_uvarint,
    write_compact_count,
    write_compact_string,
    write_count,
    write_string,
    write_uuid,
    write_uvarint,
)

SESSIONS_SINCE: Final = 7
PREFERRED_SINCE: Final = 11
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i")
_HEAD_4: Final = Struct(">ii")
_HEAD_7: Final = Struct(">ihii")
_HEAD_12: Final = Struct(">ihi")
"""throttle_time_ms; from 7 on error_code and session_id; up to 11 the number of topics."""
_DATA_4: Final = Struct(">ihqq")
_DATA_5: Final = Struct(">ihqqq")
"""partition_index, error_code, high_watermark, last_stable_offset; log_start_offset."""
_DATA_12: Final = Struct(">ihqqqBi")
"""With the count of aborted transactions, null or none, and preferred_read_replica."""
_ABORTED: Final = Struct(">qq")

_HEAD_FIELDS: Final = ("partition_index", "error_code", "high_watermark", "last_stable_offset")
_TAIL_FIELDS: Final = ("aborted_transactions", "preferred_read_replica", "records")
_partition_4: Final = maker(FetchPartitionData, *_HEAD_FIELDS, *_TAIL_FIELDS)
_partition: Final = maker(FetchPartitionData, *_HEAD_FIELDS, "log_start_offset", *_TAIL_FIELDS)
_aborted: Final = maker(AbortedTransaction, "producer_id", "first_offset")
_topic: Final = maker(FetchableTopicResponse, "topic", "topic_id", "partitions")

_NO_DIVERGING: Final = default_of(FetchPartitionData, "diverging_epoch")
_NO_LEADER: Final = default_of(FetchPartitionData, "current_leader")
_NO_SNAPSHOT: Final = default_of(FetchPartitionData, "snapshot_id")
"""The very objects, which an instance has that was made without them."""
_NO_ID: Final[Uuid] = default_of(FetchableTopicResponse, "topic_id")


# ---------------------------------------------------------------------------------------------------------------- write


def fetch_response_pieces(
    correlation_id: int, version: int, response: FetchResponse, sizes: Sequence[int]
) -> list[bytes]:
    """A frame without its records: one piece for each partition of `response`, in order, and one more.

    `sizes` are the lengths in bytes of the partitions' records, in the same order; -1 stands for null. Every piece but
    the last ends with such a length, after which exactly that many bytes have to be sent. The first begins with the
    frame's size, which counts the records. `FetchPartitionData.records` are not looked at.

    Raises ProtocolError if something cannot be expressed in this version.
    """
    assert len(sizes) == sum([len(topic.partitions) for topic in response.responses]), "one size for each partition"
    flexible = version >= FLEXIBLE_SINCE
    out = bytearray(4)
    write_response_header(out, ApiKey.FETCH, version, correlation_id)
    pieces = []
    write_tail = tail_writer(FetchPartitionData, version, flexible)
    write_topic_tail = tail_writer(FetchableTopicResponse, version, flexible)
    left = iter(sizes)
    try:
        _write_head(out, version, response)
        for topic in response.responses:
            _write_topic_head(out, version, topic)
            for each in topic.partitions:
                size = next(left)
                if flexible and not each.aborted_transactions:
                    out += _DATA_12.pack(
                        each.partition_index,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                        each.aborted_transactions is not None,
                        each.preferred_read_replica,
                    )
                else:
                    _write_partition_head(out, version, each)
                if flexible:
                    write_uvarint(out, size + 1)
                else:
                    out += _INT32.pack(size)
                pieces.append(out)
                out = bytearray()
                if (
                    flexible
                    and each.diverging_epoch is _NO_DIVERGING
                    and each.current_leader is _NO_LEADER
                    and each.snapshot_id is _NO_SNAPSHOT
                ):
                    out.append(0)
                else:
                    write_tail(out, each)
            write_topic_tail(out, topic)
        tail_writer(FetchResponse, version, flexible)(out, response)
    except error as wrong:
        raise ProtocolError(f"FetchResponse v{version}: {wrong}") from None
    pieces.append(out)
    total = sum(map(len, pieces)) + sum([size for size in sizes if size > 0])
    _INT32.pack_into(pieces[0], 0, total - _INT32.size)
    return [bytes(piece) for piece in pieces]


def _write_head(out: bytearray, version: int, response: FetchResponse) -> None:
    if version < SESSIONS_SINCE:
        out += _HEAD_4.pack(response.throttle_time_ms, len(response.responses))
    elif version < FLEXIBLE_SINCE:
        out += _HEAD_7.pack(
            response.throttle_time_ms, response.error_code, response.session_id, len(response.responses)
        )
    else:
        out += _HEAD_12.pack(response.throttle_time_ms, response.error_code, response.session_id)
        write_compact_count(out, len(response.responses))


def _write_topic_head(out: bytearray, version: int, topic: FetchableTopicResponse) -> None:
    if version >= TOPIC_IDS_SINCE:
        write_uuid(out, topic.topic_id)
        write_compact_count(out, len(topic.partitions))
    elif version >= FLEXIBLE_SINCE:
        write_compact_string(out, topic.topic)
        write_compact_count(out, len(topic.partitions))
    else:
        write_string(out, topic.topic)
        write_count(out, len(topic.partitions))


def _write_partition_head(out: bytearray, version: int, each: FetchPartitionData) -> None:
    flexible = version >= FLEXIBLE_SINCE
    if version == 4:
        out += _DATA_4.pack(each.partition_index, each.error_code, each.high_watermark, each.last_stable_offset)
    else:
        out += _DATA_5.pack(
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
        )
    aborted = each.aborted_transactions
    count = -1 if aborted is None else len(aborted)
    if flexible:
        write_compact_count(out, count)
    else:
        write_count(out, count)
    for transaction in aborted or ():
        out += _ABORTED.pack(transaction.producer_id, transaction.first_offset)
        if flexible:
            out.append(0)
    if version >= PREFERRED_SINCE:
        out += _INT32.pack(each.preferred_read_replica)


# ----------------------------------------------------------------------------------------------------------------- read


def decode_fetch_response(version: int, reader: Reader) -> FetchResponse:
    """The response whose body begins where `reader` is; `reader` is then after it. Raises ProtocolError."""
    assert reader.end == len(reader.data)
    at = reader.at
    try:
        read = _read_flexible if version >= FLEXIBLE_SINCE else _read_plain
        response = read(version, reader)
    except (error, IndexError, UnicodeDecodeError):
        response = None
    if response is None:
        reader.at = at
        return decode(FetchResponse, version, reader)
    return response


def _read_plain(version: int, reader: Reader) -> FetchResponse | None:
    data, at, end = reader.data, reader.at, reader.end
    view = memoryview(data)
    left = reader.elements_left
    error_code = session_id = 0
    if version < SESSIONS_SINCE:
        throttle_time_ms, topic_count = _HEAD_4.unpack_from(data, at)
        at += _HEAD_4.size
    else:
        throttle_time_ms, error_code, session_id, topic_count = _HEAD_7.unpack_from(data, at)
        at += _HEAD_7.size
    left -= topic_count
    if topic_count < 0 or left < 0:
        return None
    head, make = (_DATA_4, _partition_4) if version == 4 else (_DATA_5, _partition)
    topics = []
    for _ in range(topic_count):
        (size,) = _INT16(data, at)
        at += 2 + size
        name = str(data[at - size : at], "utf-8")
        (count,) = _INT32.unpack_from(data, at)
        at += 4
        left -= count
        if size < 0 or count < 0 or left < 0:
            return None
        partitions = []
        for _ in range(count):
            row = head.unpack_from(data, at)
            at += head.size
            (aborted_count,) = _INT32.unpack_from(data, at)
            at += 4
            aborted = None
            if aborted_count >= 0:
                left -= aborted_count
                after = at + aborted_count * _ABORTED.size
                if after > end or left < 0:
                    return None
                aborted = tuple(starmap(_aborted, _ABORTED.iter_unpack(data[at:after])))
                at = after
            elif aborted_count != -1:
                return None
            preferred = -1
            if version >= PREFERRED_SINCE:
                (preferred,) = _INT32.unpack_from(data, at)
                at += 4
            (size,) = _INT32.unpack_from(data, at)
            at += 4
            if size < 0 or at + size > end:
                return None
            partitions.append(make(*row, aborted, preferred, view[at : at + size]))
            at += size
        topics.append(_topic(name, _NO_ID, tuple(partitions)))
    reader.at, reader.elements_left = at, left
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=tuple(topics)
    )


def _read_flexible(version: int, reader: Reader) -> FetchResponse | None:
    data, at = reader.data, reader.at
    throttle_time_ms, error_code, session_id = _HEAD_12.unpack_from(data, at)
    at += _HEAD_12.size
    topic_count = data[at]
    at += 1
    if not 0 < topic_count < 0x80:
        return None
    left = reader.elements_left - (topic_count - 1)
    topics = []
    for _ in range(topic_count - 1):
        name, topic_id = "", _NO_ID
        if version >= TOPIC_IDS_SINCE:
            topic_id = Uuid(bytes(data[at : at + UUID_BYTES]))
            at += UUID_BYTES
        else:
            size = data[at]
            at += size
            if not 0 < size < 0x80:
                return None
            name = str(data[at - size + 1 : at], "utf-8")
        count = data[at]
        at += 1
        if not 0 < count < 0x80:
            return None
        found = _flexible_partitions(reader, at, count - 1)
        if found is None:
            return None
        partitions, at = found
        if data[at]:
            return None
        at += 1
        left -= len(partitions) + sum([len(each.aborted_transactions or ()) for each in partitions])
        topics.append(_topic(name, topic_id, partitions))
    if data[at] or left < 0:
        return None
    reader.at, reader.elements_left = at + 1, left
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=tuple(topics)
    )


def _flexible_partitions(reader: Reader, at: int, count: int) -> tuple[tuple[FetchPartitionData, ...], int] | None:
    """The partitions that begin at a byte, and where they end."""
    data, end = reader.data, reader.end
    view = memoryview(data)
    partitions = []
    for _ in range(count):
        row = _DATA_5.unpack_from(data, at)
        at += _DATA_5.size
        aborted_count = data[at]
        at += 1
        if aborted_count > 1:
            return None
        (preferred,) = _INT32.unpack_from(data, at)
        size = data[at + 4]
        at += 5
        if size >= 0x80:
            size, at = long_uvarint(data, at - 1)
        # The byte after the records is the number of tagged fields.
        if not size or at + size > end or data[at + size - 1]:
            return None
        partitions.append(_partition(*row, () if aborted_count else None, preferred, view[at : at + size - 1]))
        at += size
    return tuple(partitions), at
