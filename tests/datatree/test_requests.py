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
    CheckStat,
    Create,
    CreateSession,
    FilteredList,
    GetChanges,
    GetChildrenPage,
    HandOver,
    Multi,
    NoBody,
    PathKind,
    PathLimit,
    PathOnly,
    PathVersion,
    PathWatch,
    Reconfig,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
)

OPEN = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
DIGEST_ACL = ((31, b"digest", b"u:h"), (1, b"world", b"anyone"))
DIGEST = "00000002 0000001f 00000006 646967657374 00000003 753a68 00000001 00000005 776f726c64 00000006 616e796f6e65"
LONGS = " ".join(f"{number:016x}" for number in (1, 2, 3, 4))
A = "00000002 2f61"
B = "00000002 2f62"
DATA = "00000002 7879"
NULL = "ffffffff"
VERSION = "00000007"
END = "ffffffff 01 ffffffff"

TABLE = [
    (OpCode.CREATE, Create(b"/a", b"xy", OPEN_ACL, 3), f"{A} {DATA} {OPEN} 00000003"),
    (OpCode.CREATE, Create(b"/a", None, None, 0), f"{A} {NULL} {NULL} 00000000"),
    (OpCode.CREATE2, Create(b"/a", b"", DIGEST_ACL, 1), f"{A} 00000000 {DIGEST} 00000001"),
    (
        OpCode.CREATE_CONTAINER,
        Create(b"/a", b"xy", ((1, None, None),), 4),
        f"{A} {DATA} 00000001 00000001 {NULL} {NULL} 00000004",
    ),
    (
        OpCode.CREATE_TTL,
        Create(b"/a", b"xy", OPEN_ACL, 5, 1000),
        f"{A} {DATA} {OPEN} 00000005 00000000000003e8",
    ),
    (OpCode.CREATE_IF_NOT_EXISTS, Create(b"/a", b"xy", OPEN_ACL, 1), f"{A} {DATA} {OPEN} 00000001"),
    (OpCode.DELETE, PathVersion(b"/a", -1), f"{A} ffffffff"),
    (OpCode.CHECK, PathVersion(b"/a", 7), f"{A} {VERSION}"),
    (OpCode.EXISTS, PathWatch(b"/a", True), f"{A} 01"),
    (OpCode.GET_DATA, PathWatch(b"/a", False), f"{A} 00"),
    (OpCode.GET_DATA, PathWatch(b"", False), "00000000 00"),
    (OpCode.GET_CHILDREN, PathWatch(b"/a", True), f"{A} 01"),
    (OpCode.GET_CHILDREN2, PathWatch(b"/\xc3\xa4", False), "00000003 2fc3a4 00"),
    (OpCode.SET_DATA, SetData(b"/a", b"xy", 7), f"{A} {DATA} {VERSION}"),
    (OpCode.SET_DATA, SetData(b"/a", None, -1), f"{A} {NULL} ffffffff"),
    (OpCode.SET_DATA, SetData(b"/a", b"", -1), f"{A} 00000000 ffffffff"),
    (OpCode.GET_ACL, PathOnly(b"/a"), A),
    (OpCode.SET_ACL, SetAcl(b"/a", DIGEST_ACL, 7), f"{A} {DIGEST} {VERSION}"),
    (OpCode.SYNC, PathOnly(b"/a"), A),
    (OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(b"/a"), A),
    (OpCode.DELETE_CONTAINER, PathOnly(b"/a"), A),
    (OpCode.GET_EPHEMERALS, PathOnly(b"/a"), A),
    (OpCode.CHECK_WATCHES, PathKind(b"/a", 3), f"{A} 00000003"),
    (OpCode.REMOVE_WATCHES, PathKind(b"/a", 3), f"{A} 00000003"),
    (OpCode.ADD_WATCH, PathKind(b"/a", 1), f"{A} 00000001"),
    (OpCode.RECONFIG, Reconfig(b"/a", None, b"/b", 5), f"{A} {NULL} {B} 0000000000000005"),
    (OpCode.AUTH, AddAuth(b"digest", b"u:h"), "00000000 00000006 646967657374 00000003 753a68"),
    (OpCode.SASL, Sasl(b"xy"), DATA),
    (
        OpCode.SET_WATCHES,
        SetWatches(9, (b"/a", b"/b"), (), (b"/b",)),
        f"0000000000000009 00000002 {A} {B} 00000000 00000001 {B}",
    ),
    (
        OpCode.SET_WATCHES2,
        SetWatches(9, (), (b"/a",), (), (b"/b",), (b"/a",)),
        f"0000000000000009 00000000 00000001 {A} 00000000 00000001 {B} 00000001 {A}",
    ),
    (OpCode.CREATE_SESSION, CreateSession(4000), "00000fa0"),
    (
        OpCode.GET_CHANGES,
        GetChanges(0x100000002, 3, b"xy", b"/a", 258, 7),
        f"0000000100000002 00000003 {DATA} {A} 00000102 {VERSION}",
    ),
    (
        OpCode.GET_CHANGES,
        GetChanges(0, 0x7FFFFFFF, b"", b"/b", 1, 0),
        f"0000000000000000 7fffffff 00000000 {B} 00000001 00000000",
    ),
    (OpCode.FILTERED_LIST, FilteredList(b"/a", True, 2), f"{A} 01 02"),
    (
        OpCode.FILTERED_LIST_WITH_STATS_AND_DATA,
        FilteredList(b"/a", False, 1, True, False),
        f"{A} 00 01 01 00",
    ),
    (OpCode.CHECK_NOT_EXISTS, PathVersion(b"/a", 7), f"{A} {VERSION}"),
    (OpCode.REMOVE_RECURSIVE, PathLimit(b"/a", 0xFFFF_FFFE), f"{A} fffffffe"),
    (
        OpCode.CHECK_STAT,
        CheckStat(b"/a", -1, (1, 2, 3, 4, 5, 6, 7, -1, 8, 9, 10)),
        f"{A} ffffffff {LONGS} 00000005 00000006 00000007 ffffffffffffffff 00000008 00000009 000000000000000a",
    ),
    (OpCode.LIST_RECURSIVE, PathLimit(b"/a", 3), f"{A} 00000003"),
    (OpCode.TRY_REMOVE, PathVersion(b"/a", -1), f"{A} ffffffff"),
    (OpCode.HAND_OVER, HandOver(258), "0000000000000102"),
    (
        OpCode.GET_CHILDREN_PAGE,
        GetChildrenPage(b"/a", b"/b", b"xy", 7),
        f"{A} {B} {DATA} {VERSION}",
    ),
    (OpCode.PING, NoBody(), ""),
    (OpCode.WHO_AM_I, NoBody(), ""),
    (OpCode.CLOSE_SESSION, NoBody(), ""),
    (OpCode.MULTI, Multi(()), END),
    (
        OpCode.MULTI,
        Multi(
            (
                (1, Create(b"/a", b"xy", OPEN_ACL, 0)),
                (13, PathVersion(b"/b", 7)),
                (5, SetData(b"/a", b"xy", 7)),
                (2, PathVersion(b"/a", 7)),
                (21, Create(b"/b", None, OPEN_ACL, 6, 1)),
            )
        ),
        (
            f"00000001 00 ffffffff {A} {DATA} {OPEN} 00000000"
            f"0000000d 00 ffffffff {B} {VERSION}"
            f"00000005 00 ffffffff {A} {DATA} {VERSION}"
            f"00000002 00 ffffffff {A} {VERSION}"
            f"00000015 00 ffffffff {B} {NULL} {OPEN} 00000006 0000000000000001 {END}"
        ),
    ),
    (
        OpCode.MULTI_READ,
        Multi(((4, PathWatch(b"/a", False)), (8, PathWatch(b"/b", False)))),
        f"00000004 00 ffffffff {A} 00 00000008 00 ffffffff {B} 00 {END}",
    ),
]
TABLE = [
    pytest.param(opcode, record, bytes.fromhex(raw), id=f"{opcode.name}-{i}")
    for i, (opcode, record, raw) in enumerate(TABLE)
]


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
