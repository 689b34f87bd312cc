"""The metadata of a ledger as the bytes of its znode, in the three forms that BookKeeper has had.

The first line is `BookieMetadataFormatVersion`, a tab, and the form:

| form | the rest |
|---|---|
| 1 | lines: write quorum; ensemble size; length; the first entry of each fragment and its bookies, after tabs |
| 2 | protocol buffers as text |
| 3 | protocol buffers: a varint with the length, the message |

In form 1 a last line says if the ledger is not open: its last entry, or -102 for a ledger in recovery, a tab, `CLOSED`.
This form has no digest type, password, ack quorum, custom metadata and times.

A rewrite keeps the form that was read. In form 3 it also keeps fields of the message that are not declared here; form 2
with such a field is refused. Fields that are not declared in a fragment are lost, since a fragment is another one when
its bookies are.

A ledger that is not closed has last entry -1 and length 0 here, whatever its bytes say. One without a password, of
clients that stored none, is written without one again: with an empty password, clients that give the right one would be
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.ledger_metadata import (
    NONE,
    Fragment,
    InvalidMetadataError,
    LedgerMetadata,
    LedgerState,
)
from zab.ledger.metadata.text_format import parse_binary, parse_text, print_text, string_of
from zab.ledger.wire.protobuf import message_classes, undeclared_fields

_PREFIX: Final = b"BookieMetadataFormatVersion\t"
_V1_CLOSED: Final = "CLOSED"
_V1_IN_RECOVERY: Final = -102
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_VARINT_BYTES_MAX: Final = 5

_CLASSES: Final = message_classes(
    "ledgermetadata",
    {
        "LedgerMetadataFormat": [
            *("quorumSize 1 int32", "ensembleSize 2 int32", "length 3 int64", "lastEntryId 4 int64 opt"),
            *("state 5 State", "segment 6 Segment rep", "digestType 7 DigestType opt", "password 8 bytes opt"),
            *("ackQuorumSize 9 int32 opt", "ctime 10 int64 opt", "customMetadata 11 cMetadataMapEntry rep"),
            "cToken 12 int64 opt",
        ],
        "Segment": ["ensembleMember 1 bytes rep", "firstEntryId 2 int64"],
        "cMetadataMapEntry": ["key 1 bytes opt", "value 2 bytes opt"],
        "AnyDigestType": ["digestType 7 int32 opt"],
    },
    {
        "State": {state.name: state for state in LedgerState},
        "DigestType": {kind.name: kind for kind in DigestType},
    },
)
_FORMAT: Final = _CLASSES["LedgerMetadataFormat"]


def decode_metadata(data: bytes) -> LedgerMetadata:
    """The metadata in the bytes of a ledger's znode. Raises InvalidMetadataError."""
    if not data.startswith(_PREFIX):
        raise InvalidMetadataError("not the metadata of a ledger")
    version, newline, rest = data[len(_PREFIX) :].partition(b"\n")
    match version if newline else b"":
        case b"1":
            return _decode_lines(rest)
        case b"2":
            return _from_message(parse_text(_FORMAT, rest), 2)
        case b"3":
            return _from_message(parse_binary(_FORMAT, _delimited(rest)), 3)
    raise InvalidMetadataError(f"metadata of a ledger in the form {version[:20]!r}")


def encode_metadata(metadata: LedgerMetadata) -> bytes:
    """The bytes for a ledger's znode, in the form that the value names. Raises InvalidMetadataError if that form cannot
    say it."""
    if metadata.format_version == 1:
        rest = _encode_lines(metadata)
    elif metadata.format_version == 2:
        if metadata.undeclared:
            raise InvalidMetadataError("fields that are not declared cannot be written as text")
        rest = print_text(_to_message(metadata))
    else:
        message = _to_message(metadata)
        message.MergeFromString(metadata.undeclared)
        body = message.SerializeToString()
        rest = _varint(len(body)) + body
    return b"%b%d\n%b" % (_PREFIX, metadata.format_version, rest)


# ------------------------------------------------------------------------------------------------- forms 2 and 3


def _from_message(message: Any, format_version: int) -> LedgerMetadata:
    undeclared = undeclared_fields(message)
    other = parse_binary(_CLASSES["AnyDigestType"], undeclared)
    if other.HasField("digestType"):
        raise InvalidMetadataError(f"digest type {other.digestType}")
    state = LedgerState(message.state)
    is_closed = state is LedgerState.CLOSED
    if is_closed and not message.HasField("lastEntryId"):
        raise InvalidMetadataError("a closed ledger without its last entry")
    segments = sorted(message.segment, key=lambda segment: int(segment.firstEntryId))
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
        state=state,
        fragments=tuple(
            Fragment(segment.firstEntryId, tuple(map(_member, segment.ensembleMember))) for segment in segments
        ),
        last=message.lastEntryId if is_closed else NONE,
        length=message.length if is_closed else 0,
        digest_type=DigestType(message.digestType),
        password=message.password,
        ctime_ms=message.ctime if message.HasField("ctime") else None,
        custom={string_of(each.key, "key of custom metadata"): each.value for each in message.customMetadata},
        token=message.cToken if message.HasField("cToken") else None,
        format_version=format_version,
        has_password=message.HasField("password"),
        undeclared=undeclared,
    )


def _to_message(metadata: LedgerMetadata) -> Any:
    message = _FORMAT(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length,
        lastEntryId=metadata.last,
        state=metadata.state,
        ackQuorumSize=metadata.ack_quorum,
    )
    for fragment in metadata.fragments:
        members = [bookie.encode() for bookie in fragment.ensemble]
        message.segment.add(firstEntryId=fragment.first, ensembleMember=members)
    if metadata.has_password:
        message.digestType = metadata.digest_type
        message.password = metadata.password
    if metadata.ctime_ms is not None:
        message.ctime = metadata.ctime_ms
    for key, value in metadata.custom.items():
        message.customMetadata.add(key=key.encode(), value=value)
    if metadata.token is not None:
        message.cToken = metadata.token
    return message


def _member(value: bytes | str) -> BookieId:
    text = value if isinstance(value, str) else string_of(value, "name of a bookie")
    if not is_bookie_id(text):
        raise InvalidMetadataError(f"{text[:60]!r} is no name of a bookie")
    return BookieId(text)


def _delimited(data: bytes) -> bytes:
    """The message after its length."""
    length = 0
    for at, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            body = data[at + 1 :]
            if len(body) != length:
                raise InvalidMetadataError(f"metadata of {length} bytes, of which {len(body)} are there")
            return body
    raise InvalidMetadataError("metadata whose length is cut")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -------------------------------------------------------------------------------------------------------- form 1


def _decode_lines(data: bytes) -> LedgerMetadata:
    lines = string_of(data, "text of metadata").split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 4:
        raise InvalidMetadataError(f"metadata of {len(lines)} lines")
    write_quorum, ensemble_size, length = map(_number, lines[:3])
    state, last = LedgerState.OPEN, NONE
    end = lines[-1].split("\t")
    if end[1:] == [_V1_CLOSED]:
        lines.pop()
        last = _number(end[0])
        state = LedgerState.CLOSED
        if last == _V1_IN_RECOVERY:
            state, last = LedgerState.IN_RECOVERY, NONE
    return LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        state=state,
        fragments=tuple(sorted(_fragments(lines[3:]), key=lambda fragment: fragment.first)),
        last=last,
        length=length if state is LedgerState.CLOSED else 0,
        digest_type=DigestType.CRC32,
        format_version=1,
        has_password=False,
    )


def _fragments(lines: list[str]) -> Iterator[Fragment]:
    for line in lines:
        first, *members = line.split("\t")
        yield Fragment(_number(first), tuple(map(_member, members)))


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InvalidMetadataError(f"{text[:60]!r} is no number")
    return int(text)


def _encode_lines(metadata: LedgerMetadata) -> bytes:
    is_said = metadata.ack_quorum == metadata.write_quorum and not metadata.has_password and not metadata.custom
    if not is_said or metadata.undeclared or (metadata.ctime_ms, metadata.token) != (None, None):
        raise InvalidMetadataError("form 1 has no password, ack quorum, custom metadata or times")
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(metadata.length)]
    lines += ["\t".join((str(each.first), *each.ensemble)) for each in metadata.fragments]
    if not metadata.is_open:
        last = metadata.last if metadata.is_closed else _V1_IN_RECOVERY
        return "\n".join((*lines, f"{last}\t{_V1_CLOSED}")).encode()
    return "\n".join((*lines, "")).encode()
