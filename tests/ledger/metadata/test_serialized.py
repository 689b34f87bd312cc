"""The metadata of a ledger as bytes: the three forms, what survives a rewrite, and bytes that are none."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.ledger_metadata import (
    NONE,
    Fragment,
    InvalidMetadataError,
    LedgerMetadata,
    LedgerState,
)
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata

HEADER = b"BookieMetadataFormatVersion\t"


def bookies(*names: str) -> tuple[BookieId, ...]:
    return tuple(map(BookieId, names))


THREE = bookies("127.0.0.1:3181", "127.0.0.1:3182", "127.0.0.1:3183")
OPEN = LedgerMetadata(
    ensemble_size=3,
    write_quorum=2,
    ack_quorum=2,
    fragments=(Fragment(0, THREE),),
    digest_type=DigestType.CRC32C,
    token=1,
)
OPEN_BYTES = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a4f0802100318002"
    "0ffffffffffffffffff0128013232" + "".join("0a0e" + name.encode().hex() for name in THREE) + "1000380342004802"
    "6001"
)
BODY = OPEN_BYTES[len(HEADER) + 3 :]


def in_form_3(body: bytes) -> bytes:
    assert len(body) < 128
    return HEADER + b"3\n" + bytes([len(body)]) + body


def test_the_published_bytes_of_form_3() -> None:
    assert decode_metadata(OPEN_BYTES) == OPEN
    assert encode_metadata(OPEN) == OPEN_BYTES


FORM_2 = HEADER + (
    b"2\nquorumSize: 2\nensembleSize: 3\nlength: 120\nlastEntryId: 9\nstate: CLOSED\n"
    b'segment {\n  ensembleMember: "b1:1"\n  ensembleMember: "b2:1"\n  ensembleMember: "b3:1"\n  firstEntryId: 0\n}\n'
    b'segment {\n  ensembleMember: "b1:1"\n  ensembleMember: "b4:1"\n  ensembleMember: "b3:1"\n  firstEntryId: 5\n}\n'
    b'digestType: HMAC\npassword: "pass\\001\\"\\303\\274"\nackQuorumSize: 1\nctime: 1544002383075\n'
)


def test_form_2_is_text() -> None:
    metadata = decode_metadata(FORM_2)
    assert metadata == LedgerMetadata(
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=1,
        state=LedgerState.CLOSED,
        fragments=(Fragment(0, bookies("b1:1", "b2:1", "b3:1")), Fragment(5, bookies("b1:1", "b4:1", "b3:1"))),
        last=9,
        length=120,
        digest_type=DigestType.HMAC,
        password=b'pass\x01"\xc3\xbc',
        ctime_ms=1544002383075,
        format_version=2,
    )
    assert encode_metadata(metadata) == FORM_2


@pytest.mark.parametrize(
    ("end", "state", "last"),
    [
        (b"", LedgerState.OPEN, NONE),
        (b"-102\tCLOSED", LedgerState.IN_RECOVERY, NONE),
        (b"7\tCLOSED", LedgerState.CLOSED, 7),
        (b"7\tCLOSED\n", LedgerState.CLOSED, 7),
    ],
)
def test_form_1_is_lines(end: bytes, state: LedgerState, last: int) -> None:
    data = HEADER + b"1\n2\n3\n100\n0\ta:1\tb:1\tc:1\n4\ta:1\td:1\tc:1\n" + end
    metadata = decode_metadata(data)
    assert (metadata.state, metadata.last, metadata.length) == (state, last, 100 if last == 7 else 0)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 2, 2)
    assert metadata.fragments == (Fragment(0, bookies("a:1", "b:1", "c:1")), Fragment(4, bookies("a:1", "d:1", "c:1")))
    assert (metadata.has_password, metadata.format_version) == (False, 1)
    assert decode_metadata(encode_metadata(metadata)) == metadata
    if state is LedgerState.CLOSED:
        assert encode_metadata(metadata) == data.rstrip(b"\n")


def test_a_change_keeps_the_form() -> None:
    """Rule of 4.5: a ledger of form 2 stays one, whatever is written into it."""
    opened = attrs.evolve(OPEN, format_version=2, token=None)
    closed = opened.with_ensemble(5, bookies("x", "y", "z")).closed_at(8, 90)
    data = encode_metadata(closed)
    assert data.startswith(HEADER + b"2\n")
    assert decode_metadata(data) == closed


def test_form_3_keeps_fields_that_are_not_known() -> None:
    strange = in_form_3(BODY + bytes.fromhex("a2060361626388067b"))
    metadata = decode_metadata(strange)
    assert attrs.evolve(metadata, undeclared=b"") == OPEN
    closed = metadata.closed_at(3, 40)
    assert decode_metadata(encode_metadata(closed)) == closed
    assert encode_metadata(closed).endswith(bytes.fromhex("a2060361626388067b"))


def test_text_with_a_field_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidMetadataError, match=r"no field named"):
        decode_metadata(FORM_2 + b"novelty: 1\n")
    with pytest.raises(InvalidMetadataError, match=r"not declared"):
        encode_metadata(attrs.evolve(OPEN, format_version=2, undeclared=b"\xa2\x06\x00"))


def test_a_ledger_without_a_password_stays_without() -> None:
    """An empty password would refuse the clients that know the right one."""
    body = BODY.replace(bytes.fromhex("38034200"), b"")
    metadata = decode_metadata(in_form_3(body))
    assert not metadata.has_password
    assert (metadata.digest_type, metadata.password) == (DigestType.CRC32, b"")
    assert encode_metadata(metadata) == in_form_3(body)


def test_without_an_ack_quorum_it_is_the_write_quorum() -> None:
    assert decode_metadata(in_form_3(BODY.replace(bytes.fromhex("4802"), b""))) == OPEN


def test_the_end_of_a_ledger_that_is_not_closed_is_ignored() -> None:
    body = BODY.replace(bytes.fromhex("180020ffffffffffffffffff01"), bytes.fromhex("18072005"))
    assert decode_metadata(in_form_3(body)) == OPEN


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (BODY.replace(bytes.fromhex("20ffffffffffffffffff0128013232"), bytes.fromhex("28033232")), "last entry"),
        (BODY.replace(bytes.fromhex("28013232"), bytes.fromhex("28043232")), "state"),
        (BODY.replace(bytes.fromhex("28013232"), bytes.fromhex("3232")), "state"),
        (BODY.replace(bytes.fromhex("38034200"), bytes.fromhex("38054200")), "digest type 5"),
        (BODY.replace(bytes.fromhex("38034200"), bytes.fromhex("38004200")), "digest type 0"),
        (BODY.replace(b"127.0.0.1:3181", b"127.0.0.1/3181"), "no name of a bookie"),
        (BODY.replace(b"127.0.0.1:3181", b"127.0.0.1:318\xff"), "UTF-8"),
        (BODY.replace(b"127.0.0.1:3181", b"127.0.0.1:3182"), "distinct"),
        (BODY.replace(bytes.fromhex("08021003"), bytes.fromhex("08041003")), "quorums"),
        (bytes.fromhex("080210031800280138034200"), "no fragment"),
        (b"", "quorumSize"),
        (BODY[:-1], "LedgerMetadataFormat"),
    ],
)
def test_messages_that_are_no_metadata(body: bytes, error: str) -> None:
    with pytest.raises(InvalidMetadataError, match=error):
        decode_metadata(in_form_3(body))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEADER,
        HEADER + b"3",
        HEADER + b"3\n",
        HEADER + b"4\n" + BODY,
        HEADER + b"03\n" + BODY,
        HEADER + b"foobar\nblahblah",
        HEADER + b"123456789123456789\nblahblah",
        OPEN_BYTES[:-1],
        OPEN_BYTES + b"\0",
        OPEN_BYTES + b"\x60\x02",
        OPEN_BYTES[: len(HEADER) + 2] + b"\xff\xff\xff\xff\xff\xff" + BODY,
        OPEN_BYTES[1:],
        FORM_2.replace(b"CLOSED", b"SHUT"),
        FORM_2.replace(b"lastEntryId: 9\n", b""),
        FORM_2.replace(b"length: 120\n", b""),
        FORM_2.replace(b'"b1:1"', b'"b1:1'),
        FORM_2.replace(b"length: 120", b"length: " + b"9" * 5000),
        FORM_2.replace(b"b1", b"\xff"),
        HEADER + b"1\n2\n3\n0\n",
        HEADER + b"1\n2\nthree\n0\n0\ta\tb\tc\n",
        HEADER + b"1\n2\n3\n0\n0\ta\tb\n",
        HEADER + b"1\n2\n3\n0\n0\ta\tb\tc\n\n",
        HEADER + b"1\n2\n3\n0\n0\ta\tb\tc d\n",
        HEADER + b"1\n2\n3\n0\n0\ta\tb\tc\n12345678901234567890\tCLOSED",
        HEADER + b"1\n2\n3\n0\n\xff",
    ],
)
def test_bytes_that_are_no_metadata(data: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        decode_metadata(data)


@pytest.mark.parametrize(
    "changes",
    [{}, {"has_password": False, "ack_quorum": 1}, {"has_password": False, "token": 5}, {"has_password": False}],
)
def test_form_1_cannot_say_everything(changes: dict[str, object]) -> None:
    metadata = attrs.evolve(OPEN, format_version=1, **({"token": None} | changes))  # type: ignore[arg-type]
    if changes == {"has_password": False}:
        assert encode_metadata(metadata)
        return
    with pytest.raises(InvalidMetadataError, match=r"form 1"):
        encode_metadata(metadata)


@st.composite
def metadatas(draw: st.DrawFn) -> LedgerMetadata:
    size = draw(st.integers(1, 4))
    write = draw(st.integers(1, size))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 1 << 62), max_size=3)))]
    name = st.from_regex(r"[A-Za-z0-9_:.\-]{2,12}", fullmatch=True).filter(is_bookie_id)
    names = st.lists(name, min_size=size, max_size=size, unique=True)
    fragments = tuple(Fragment(first, bookies(*draw(names))) for first in firsts)
    state = draw(st.sampled_from(LedgerState))
    last = firsts[-1] - 1 + draw(st.integers(0, 99)) if state is LedgerState.CLOSED else NONE
    return LedgerMetadata(
        ensemble_size=size,
        write_quorum=write,
        ack_quorum=draw(st.integers(1, write)),
        state=state,
        fragments=fragments,
        last=last,
        length=draw(st.integers(0, 1 << 62)) if last >= 0 else 0,
        digest_type=draw(st.sampled_from(DigestType)),
        password=draw(st.binary(max_size=9)),
        ctime_ms=draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
        custom=draw(st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)),
        token=draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
        format_version=draw(st.sampled_from([2, 3])),
    )


@given(metadatas())
def test_metadata_comes_back(metadata: LedgerMetadata) -> None:
    assert decode_metadata(encode_metadata(metadata)) == metadata


@given(metadatas(), st.data())
def test_spoilt_metadata_is_metadata_or_refused(metadata: LedgerMetadata, data: st.DataObject) -> None:
    spoilt = bytearray(encode_metadata(metadata))
    at = data.draw(st.integers(len(HEADER), len(spoilt) - 1))
    spoilt[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found = decode_metadata(bytes(spoilt))
    except InvalidMetadataError:
        return
    assert decode_metadata(encode_metadata(found)) == found


@given(st.sampled_from([b"1\n", b"2\n", b"3\n", b""]), st.binary(max_size=60))
def test_any_bytes_are_metadata_or_refused(form: bytes, rest: bytes) -> None:
    for data in (rest, HEADER + form + rest):
        try:
            decode_metadata(data)
        except InvalidMetadataError:
            continue
