"""The bodies of requests: one table of (opcode, record, bytes) for decoding, encoding, cutting and trailing bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization as kazoo
from kazoo.security import OPEN_ACL_UNSAFE

from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.request_decoding import DECODERS, decode
from datatree.requests import (
    OPEN_ACL,
    AddAuth,
    Create,
    Multi,
    NoBody,
    PathOnly,
    PathVersion,
    PathWatch,
    Reconfig,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
)
from tests.datatree.request_table import DATA, DIGEST_ACL, TABLE, A


def test_the_table_has_every_operation_with_a_body():
    assert {int(row.values[0]) for row in TABLE} == set(DECODERS)
    assert set(DECODERS) == {int(opcode) for opcode in OpCode} - {OpCode.NOTIFICATION, OpCode.ERROR}


@pytest.mark.parametrize(("opcode", "record", "raw"), TABLE)
def test_a_request_is_encoded_as_its_bytes(opcode, record, raw):
    assert record.encode() == raw


@pytest.mark.parametrize(("opcode", "record", "raw"), TABLE)
def test_a_request_is_decoded_from_its_bytes(opcode, record, raw):
    assert decode(opcode, raw) == record


@pytest.mark.parametrize(("opcode", "record", "raw"), TABLE)
def test_a_request_is_decoded_behind_its_header_and_what_follows_is_ignored(opcode, record, raw):
    assert decode(opcode, b"\x7f" * 8 + raw + b"\x00\x01trailing", 8) == record


@pytest.mark.parametrize(("opcode", "record", "raw"), TABLE)
def test_every_prefix_of_a_request_is_refused(opcode, record, raw):
    for length in range(len(raw)):
        with pytest.raises(JuteError):
            decode(opcode, raw[:length])


PATH_OPERATIONS = sorted({row.values[0] for row in TABLE if hasattr(row.values[1], "path")} - {OpCode.GET_EPHEMERALS})


@pytest.mark.parametrize("opcode", PATH_OPERATIONS)
@pytest.mark.parametrize("length", [-1, -2, -12, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("fill", [b"\x00", b"\xff"])
def test_a_path_of_impossible_length_is_refused(opcode, length, fill):
    raw = length.to_bytes(4, "big", signed=True) + fill * 64
    with pytest.raises(JuteError):
        decode(opcode, bytes(8) + raw, 8)


@pytest.mark.parametrize("length", [-2, -8, -(2**31), 2**31 - 1])
def test_data_of_impossible_length_is_refused(length):
    raw = bytes.fromhex(A) + length.to_bytes(4, "big", signed=True) + bytes(64)
    for opcode in (OpCode.SET_DATA, OpCode.CREATE, OpCode.CREATE_TTL):
        with pytest.raises(JuteError):
            decode(opcode, raw)


def test_a_hostile_count_of_acls_or_watches_is_refused():
    hostile = b"\x7f\xff\xff\xff" + bytes(64)
    with pytest.raises(JuteError, match="count"):
        decode(OpCode.CREATE, bytes.fromhex(f"{A} {DATA}") + hostile)
    with pytest.raises(JuteError, match="count"):
        decode(OpCode.SET_WATCHES, bytes(8) + hostile)


def test_null_watch_lists_read_as_empty_and_null_paths_in_them_are_refused():
    assert decode(OpCode.SET_WATCHES, bytes(8) + b"\xff" * 12) == SetWatches(0, (), (), ())
    with pytest.raises(JuteError, match="null path"):
        decode(OpCode.SET_WATCHES, bytes(8) + bytes.fromhex("00000001 ffffffff 00000000 00000000"))


def test_a_null_prefix_of_ephemerals_means_all():
    assert decode(OpCode.GET_EPHEMERALS, b"\xff\xff\xff\xff") == PathOnly(b"")


def test_null_credentials_read_as_empty():
    assert decode(OpCode.AUTH, bytes(4) + b"\xff" * 8) == AddAuth(b"", b"")
    assert decode(OpCode.SASL, b"\xff\xff\xff\xff") == Sasl(b"")


@pytest.mark.parametrize(
    ("opcode", "part"),
    [
        (OpCode.MULTI, (4, PathWatch(b"/a", False))),
        (OpCode.MULTI, (7, SetAcl(b"/a", OPEN_ACL, 0))),
        (OpCode.MULTI, (-1, NoBody())),
        (OpCode.MULTI, (14, Multi(()))),
        (OpCode.MULTI_READ, (2, PathVersion(b"/a", 0))),
        (OpCode.MULTI_READ, (3, PathWatch(b"/a", False))),
    ],
)
def test_what_may_not_stand_in_a_multi_is_refused(opcode, part):
    with pytest.raises(JuteError, match="is not allowed in this multi"):
        decode(opcode, Multi((part,)).encode())


def test_a_multi_of_empty_parts_only_ends_with_its_bytes():
    with pytest.raises(JuteError, match="ends early"):
        decode(OpCode.MULTI, bytes.fromhex("00000002 00 ffffffff 00000000 00000000") * 1000)


KAZOO_ACLS = [kazoo.ACL(31, kazoo.Id("digest", "u:h")), kazoo.ACL(1, kazoo.Id("world", "anyone"))]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kazoo.Create("/a", b"xy", KAZOO_ACLS, 3), Create(b"/a", b"xy", DIGEST_ACL, 3)),
        (kazoo.Create2("/a", b"", OPEN_ACL_UNSAFE, 0), Create(b"/a", b"", OPEN_ACL, 0)),
        (kazoo.Delete("/a", 7), PathVersion(b"/a", 7)),
        (kazoo.Exists("/ä", True), PathWatch("/ä".encode(), True)),
        (kazoo.GetData("/a", None), PathWatch(b"/a", False)),
        (kazoo.SetData("/a", b"xy", -1), SetData(b"/a", b"xy", -1)),
        (kazoo.GetACL("/a"), PathOnly(b"/a")),
        (kazoo.SetACL("/a", KAZOO_ACLS, 2), SetAcl(b"/a", DIGEST_ACL, 2)),
        (kazoo.GetChildren("/a", True), PathWatch(b"/a", True)),
        (kazoo.Sync("/a"), PathOnly(b"/a")),
        (kazoo.GetChildren2("/a", None), PathWatch(b"/a", False)),
        (
            kazoo.Transaction([kazoo.Create("/a", b"", KAZOO_ACLS, 0), kazoo.CheckVersion("/b", 7)]),
            Multi(((1, Create(b"/a", b"", DIGEST_ACL, 0)), (13, PathVersion(b"/b", 7)))),
        ),
        (kazoo.Reconfig("/a", None, "/b", -1), Reconfig(b"/a", None, b"/b", -1)),
        (kazoo.Auth(0, "digest", "u:h"), AddAuth(b"digest", b"u:h")),
        (kazoo.SASL(b"xy"), Sasl(b"xy")),
        (kazoo.PingInstance, NoBody()),
        (kazoo.CloseInstance, NoBody()),
    ],
)
def test_kazoo_writes_the_same_bytes(theirs, ours):
    raw = bytes(theirs.serialize())
    assert ours.encode() == raw
    assert decode(theirs.type, raw) == ours


PATHS = st.binary(min_size=0, max_size=12)
DATAS = st.none() | st.binary(max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.none() | st.binary(max_size=8)
ACLS = st.none() | st.just(OPEN_ACL) | st.lists(st.tuples(INTS, TEXTS, TEXTS), max_size=3).map(tuple)
CREATES = st.builds(Create, PATHS, DATAS, ACLS, INTS)
PART = st.one_of(
    st.tuples(st.sampled_from([1, 15, 19]), CREATES),
    st.tuples(st.just(21), st.builds(Create, PATHS, DATAS, ACLS, INTS, st.integers(0, 2**40))),
    st.tuples(st.sampled_from([2, 13]), st.builds(PathVersion, PATHS, INTS)),
    st.tuples(st.just(5), st.builds(SetData, PATHS, DATAS, INTS)),
)


@given(st.lists(PART, max_size=5).map(tuple))
def test_any_multi_reads_back(parts):
    assert decode(OpCode.MULTI, Multi(parts).encode()) == Multi(parts)


@given(st.sampled_from(sorted(DECODERS)), st.binary(max_size=120), st.integers(0, 8))
def test_arbitrary_bytes_are_decoded_or_refused_and_nothing_else(opcode, raw, offset):
    offset = min(offset, len(raw))
    try:
        record = decode(opcode, raw, offset)
    except JuteError:
        return
    # What was read means the same when it is written and read again; bools and null texts lose their spelling.
    assert decode(opcode, record.encode()) == record
