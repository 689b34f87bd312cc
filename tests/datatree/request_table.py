"""Every request, and its bytes."""

import pytest

from datatree.opcodes import OpCode
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
