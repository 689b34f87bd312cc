"""The transaction record: plain CBOR of fixed offsets, one encoding per transaction, and nothing else accepted."""

import struct
from collections.abc import Generator
from typing import TypeVar

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.record import Part, RecordError, Txn, decode, decode_all, decode_in_slices, encode, encode_in_slices
from datatree.slices import PARTS, slices_of
from tests.datatree.example_txns import TXNS

T = TypeVar("T")


def acl_value(acl: object) -> object:
    return None if acl is None else [[perms, scheme.decode(), name.decode()] for perms, scheme, name in acl]


def rest_value(kind: int, rest: object) -> object:
    """What `cbor2` has to show for the rest, said a second time and independently of the codec."""
    match kind, rest:
        case _, None:
            return None
        case ((1 | 15 | 19 | 21), (acl, owner)):
            return [acl_value(acl), owner]
        case 7, (acl,):
            return [acl_value(acl)]
        case -11, paths:
            return [path.decode() for path in paths]
        case -1, (opcode,):
            return [opcode]
        case 14, parts:
            return [[k, n, p.decode(), d, rest_value(k, r)] for k, n, p, d, r in parts]
    raise AssertionError(kind)


@pytest.mark.parametrize("txn", TXNS.values(), ids=TXNS)
def test_a_cbor_library_reads_the_record_as_an_array_of_its_fields(txn: Txn) -> None:
    content = cbor2.loads(encode(txn))
    assert isinstance(content, bytes)
    assert cbor2.loads(content) == [
        txn.zxid,
        txn.time,
        txn.session,
        txn.cxid,
        txn.type,
        txn.number,
        txn.path.decode(),
        txn.data,
        rest_value(txn.type, txn.rest),
    ]


@pytest.mark.parametrize("txn", TXNS.values(), ids=TXNS)
def test_decode_undoes_encode_at_any_offset(txn: Txn) -> None:
    raw = encode(txn)
    assert decode(raw) == (txn, len(raw))
    assert decode(b"abc" + raw + b"after!", 3) == (txn, 3 + len(raw))


@pytest.mark.parametrize("txn", TXNS.values(), ids=TXNS)
def test_the_fixed_part_lies_at_fixed_offsets_and_one_formula_reads_signs(txn: Txn) -> None:
    raw = encode(txn)
    for at, form, value in (
        (6, ">q", txn.zxid),
        (15, ">q", txn.time),
        (24, ">q", txn.session),
        (33, ">i", txn.cxid),
        (38, ">b", txn.type),
        (40, ">i", txn.number),
    ):
        (payload,) = struct.unpack_from(form, raw, at + 1)
        assert payload ^ -(raw[at] >> 5 & 1) == value
    assert raw[50 : 50 + struct.unpack_from(">I", raw, 46)[0]] == txn.path
    if txn.type in (1, 15, 19, 21):
        (owner,) = struct.unpack(">q", raw[-8:])
        assert owner ^ -(raw[-9] >> 5 & 1) == txn.rest[1]


def test_the_layout_of_one_record_byte_by_byte() -> None:
    raw = encode(Txn(0x100000002, 3, -2, -3, 1, 4, b"/a", b"xy", (None, 5)))
    assert raw == bytes.fromhex(
        "5a00000041 89"
        "1b0000000100000002 1b0000000000000003 3b0000000000000001 3a00000002 1801 1a00000004"
        "7a000000022f61 5a000000027879 82f61b0000000000000005"
    )


@pytest.mark.parametrize("txn", TXNS.values(), ids=TXNS)
def test_every_cut_of_a_record_is_refused(txn: Txn) -> None:
    raw = encode(txn)
    for end in range(len(raw)):
        with pytest.raises(RecordError):
            decode(raw[:end])


@pytest.mark.parametrize("txn", TXNS.values(), ids=TXNS)
def test_a_changed_byte_is_refused_or_is_the_encoding_of_something_else(txn: Txn) -> None:
    raw = encode(txn)
    for at in range(len(raw)):
        for bit in (0x01, 0x20, 0x80):
            changed = bytearray(raw)
            changed[at] ^= bit
            try:
                other, _ = decode(bytes(changed))
            except RecordError:
                continue
            assert other != txn
            assert encode(other) == bytes(changed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw: b"\x5b" + raw[1:], "wrong heads"),
        (lambda raw: raw[:24] + b"\x2b" + raw[25:], "wrong head 0x2b"),
        (lambda raw: raw[:7] + bytes(8) + raw[15:], "zxid 0"),
        (lambda raw: raw[:50] + b"\xff" + raw[51:], "not UTF-8"),
        (lambda raw: raw[:39] + b"\x63" + raw[40:], "wrong rest for type 99"),
    ],
)
def test_a_record_says_why_it_is_refused(change: object, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        decode(change(encode(TXNS["create"])))


texts = st.text(st.characters(codec="utf-8"), max_size=12).map(str.encode)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
data = st.none() | st.binary(max_size=40)
acls = st.none() | st.lists(st.tuples(int32, texts, texts), max_size=3).map(tuple)
plain = st.tuples(st.sampled_from([2, 5, 13, 16, 20, -10]), int32, texts, data, st.none())
creates = st.tuples(st.sampled_from([1, 15, 19, 21]), int32, texts, data, st.tuples(acls, int64))
set_acls = st.tuples(st.just(7), int32, texts, data, st.tuples(acls))
failed = st.tuples(st.just(-1), int32, texts, st.none(), st.none())
parts = plain | creates | set_acls
multis = st.tuples(st.just(14), int32, texts, data, st.lists(parts | failed, max_size=4).map(tuple))
closes = st.tuples(st.just(-11), int32, texts, data, st.lists(texts, max_size=4).map(tuple))
errors = st.tuples(st.just(-1), int32, texts, data, st.tuples(int32))


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1), int64, int32, parts | multis | closes | errors)
def test_any_transaction_survives(zxid: int, time: int, session: int, cxid: int, part: Part) -> None:
    kind, number, path, value, rest = part
    txn = Txn(zxid, time, session, cxid, kind, number, path, value, rest)
    raw = encode(txn)
    assert decode(raw) == (txn, len(raw))
    assert cbor2.loads(cbor2.loads(raw))[:8] == [zxid, time, session, cxid, kind, number, path.decode(), value]


@given(st.binary(max_size=120))
def test_arbitrary_bytes_raise_nothing_but_record_error(raw: bytes) -> None:
    with pytest.raises(RecordError):
        decode(b"\x5a" + raw)


class TestBody:
    body = b"".join(encode(txn) for txn in TXNS.values())

    def test_holds_its_transactions_in_order(self) -> None:
        assert decode_all(self.body, 0x1_0000_0001, len(TXNS)) == list(TXNS.values())

    def test_with_a_gap_in_the_zxids_is_refused(self) -> None:
        with pytest.raises(RecordError, match="zxid 0x100000001 where 0x100000002 is due"):
            decode_all(self.body, 0x1_0000_0002, len(TXNS))

    def test_with_bytes_behind_the_last_record_is_refused(self) -> None:
        with pytest.raises(RecordError, match="bytes after the last of 19 records"):
            decode_all(self.body, 0x1_0000_0001, len(TXNS) - 1)

    def test_with_fewer_records_than_counted_is_refused(self) -> None:
        with pytest.raises(RecordError, match="ends inside it"):
            decode_all(self.body, 0x1_0000_0001, len(TXNS) + 1)


def test_slices_are_shorter_where_parts_have_permissions() -> None:
    acl = ((31, b"ip", b"10.0.0.1"),) * 99
    parts = [(1, 1, b"/a", b"", (acl, 0)), (5, 1, b"/a", b"", None), (7, 1, b"/a", None, (None,))] * 20
    slices = [*slices_of(parts)]
    assert [part for some in slices for part in some] == parts
    assert [len(some) for some in slices] == [7, 9, 9, 9, 9, 9, 8]
    assert [*slices_of([])] == []
    assert [len(some) for some in slices_of([b"/e"] * (2 * PARTS + 1))] == [PARTS, PARTS, 1]


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 2 * PARTS, 2 * PARTS + 1])
@pytest.mark.parametrize("kind", ["multi", "closeSession"])
def test_record_is_the_same_in_slices(count: int, kind: str) -> None:
    paths = tuple(b"/e%d" % number for number in range(count))
    rest = paths if kind == "closeSession" else tuple((1, 1, path, None, (None, 7)) for path in paths)
    txn = Txn(5, 6, 7, 8, -11 if kind == "closeSession" else 14, 0, b"", None, rest)
    record = _ended(encode_in_slices(txn))
    assert record == encode(txn)
    assert _ended(decode_in_slices(record, 5)) == [txn] == decode_all(record, 5, 1)


def test_transaction_that_is_no_list_may_be_decoded_in_slices_too() -> None:
    for txn in (Txn(5, 6, 7, 8, 5, 1, b"/a", bytes(9000), None), Txn(5, 6, 7, 8, 1, 1, b"/a", b"", (None, 0))):
        assert _ended(encode_in_slices(txn)) == encode(txn)
        assert _ended(decode_in_slices(encode(txn), 5)) == [txn]


# What a reader might take for the array, the number or the text that belongs there, and writes down differently.
_DISGUISED = [
    ["multi", dict.fromkeys(range(3), 0)],
    ["multi", [{2: 0, 0: 1, "/a": 2, None: 3, b"": 4}]],
    ["multi", ["abcde"]],
    ["multi", [[2.0, 0, "/a", None, None]]],
    ["multi", [[True, 0, "/a", None, [None, 0]]]],
    ["multi", [[5, True, "/a", b"", None]]],
    ["multi", [[5, 1.0, "/a", b"", None]]],
    ["multi", [[5, 1, b"/a", b"", None]]],
    ["multi", [[5, 1, "/a", "", None]]],
    ["multi", [[1, 1, "/a", b"", {None: 0, 0: 1}]]],
    ["multi", [[1, 1, "/a", b"", [{(1, "ip", "a"): 0}, 0]]]],
    ["multi", [[1, 1, "/a", b"", [[{1: 0, "ip": 1, "a": 2}], 0]]]],
    ["multi", [[1, 1, "/a", b"", [None, True]]]],
    ["multi", [[7, 1, "/a", None, {None: 0}]]],
    ["multi", [[7, 1, "/a", None, [[[True, "ip", "a"]]]]]],
    ["closeSession", {"/a": 0}],
    ["closeSession", [b"/a"]],
    ["closeSession", "abc"],
]


@pytest.mark.parametrize(("kind", "rest"), _DISGUISED)
def test_rest_that_only_resembles_one_is_refused(kind: str, rest: object) -> None:
    record = encode(Txn(5, 6, 7, 8, -11 if kind == "closeSession" else 14, 0, b"", None, ()), cbor2.dumps(rest))
    with pytest.raises(RecordError, match="wrong rest"):
        decode(record)
    with pytest.raises(RecordError, match="wrong rest"):
        _ended(decode_in_slices(record, 5))


@pytest.mark.parametrize("damage", ["cut", "more", "zxid", "item", "indefinite", "wide"])
def test_damaged_record_is_refused_in_slices_too(damage: str) -> None:
    txn = Txn(5, 6, 7, 8, 14, 0, b"", None, ((2, 0, b"/a", None, None),) * 3)
    record = encode(txn)
    damaged = {
        "cut": record[:-1],
        "more": record + b"x",
        "zxid": encode(txn._replace(zxid=6)),
        "item": record.replace(b"\x85\x02", b"\x84\x02", 1),
        "indefinite": encode(txn, b"\x9f" + cbor2.dumps([[2, 0, "/a", None, None]])[1:] + b"\xff"),
        "wide": encode(txn, b"\x98\x01" + cbor2.dumps([[2, 0, "/a", None, None]])[1:]),
    }[damage]
    with pytest.raises(RecordError):
        _ended(decode_in_slices(damaged, 5))


def _ended(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def test_many_records_are_decoded_some_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datatree.record.DECODED_BYTES", 1000)
    txns = [Txn(5 + number, 1, 2, 3, 5, 4, b"/a/%d" % number, bytes(number * 7 % 300), None) for number in range(60)]
    body = b"".join(map(encode, txns))
    steps = decode_in_slices(body, 5, 60)
    slices = 1 + len(list(iter(lambda: next(steps, len), len)))
    assert len(body) / 1400 <= slices <= len(body) / 1000 + 1
    assert _ended(decode_in_slices(body, 5, 60)) == [tuple(txn) for txn in txns]
    for damaged in (body[:-3], body + b"x", body[:-400], b"", body[:2000] + b"\xff" * 5 + body[2005:]):
        with pytest.raises(RecordError):
            _ended(decode_in_slices(damaged, 5, 60))
