"""Replies and notifications: each body against its bytes, and against what kazoo reads out of it."""

import kazoo.exceptions
import pytest
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat

from datatree.errors import ErrorCode
from datatree.jute import NULL, JuteError
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL
from zab.jute.change_pages import ChangePage, PageStatus, change_bytes, page_body
from zab.jute.replies import (
    _DECODERS,
    STAT_BYTES,
    MultiResult,
    ReplyHeader,
    WatcherEvent,
    acl_body,
    children_body,
    children_page_body,
    data_body,
    data_reply,
    decode_body,
    failed_multi_body,
    identities_body,
    int_body,
    keepers_refused_part,
    multi_body,
    notification,
    part,
    path_body,
    refused_part,
    reply,
    stat_reply,
)

KAZOO_STAT = ZnodeStat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
STAT = serialization.stat_struct.pack(*KAZOO_STAT)
S = STAT.hex()
A = "00000002 2f61"
ONE = bytes.fromhex("00000001")
OPEN = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
END = "ffffffff 01 ffffffff"

# Opcode, what the server encodes, its bytes, what the client decodes.
BODIES = [
    (OpCode.CREATE, path_body(b"/a"), A, b"/a"),
    (OpCode.SYNC, path_body(b"/a"), A, b"/a"),
    (OpCode.CREATE2, path_body(b"/a", STAT), A + S, (b"/a", STAT)),
    (OpCode.CREATE_CONTAINER, path_body(b"/a", STAT), A + S, (b"/a", STAT)),
    (OpCode.CREATE_TTL, path_body(b"/a", STAT), A + S, (b"/a", STAT)),
    (OpCode.CREATE_IF_NOT_EXISTS, path_body(b"/a"), A, b"/a"),
    (OpCode.EXISTS, STAT, S, STAT),
    (OpCode.SET_DATA, STAT, S, STAT),
    (OpCode.SET_ACL, STAT, S, STAT),
    (OpCode.GET_DATA, data_body(b"xy", STAT), "00000002 7879" + S, (b"xy", STAT)),
    (OpCode.GET_DATA, data_body(b"", STAT), "00000000" + S, (b"", STAT)),
    (OpCode.GET_DATA, data_body(None, STAT), "ffffffff" + S, (None, STAT)),
    (OpCode.RECONFIG, data_body(b"xy", STAT), "00000002 7879" + S, (b"xy", STAT)),
    (OpCode.GET_ACL, acl_body(OPEN_ACL, STAT), OPEN + S, (OPEN_ACL, STAT)),
    (OpCode.GET_CHILDREN, children_body([b"/a", b""]), f"00000002 {A} 00000000", [b"/a", b""]),
    (OpCode.GET_CHILDREN, children_body([]), "00000000", []),
    (OpCode.GET_CHILDREN2, children_body({b"/a"}, STAT), f"00000001 {A} {S}", ([b"/a"], STAT)),
    (OpCode.GET_EPHEMERALS, children_body([b"/a"]), f"00000001 {A}", [b"/a"]),
    (OpCode.GET_ALL_CHILDREN_NUMBER, int_body(258), "00000102", 258),
    (OpCode.ADD_WATCH, int_body(0), "00000000", 0),
    (OpCode.WHO_AM_I, identities_body([(b"ip", b"1")]), "00000001 00000002 6970 00000001 31", [(b"ip", b"1")]),
    (OpCode.MULTI, multi_body([]), END, []),
    (
        OpCode.MULTI,
        multi_body(
            [
                part(OpCode.CREATE, path_body(b"/a")),
                part(OpCode.CREATE2, path_body(b"/a", STAT)),
                part(OpCode.CREATE_CONTAINER, path_body(b"/a", STAT)),
                part(OpCode.CREATE_TTL, path_body(b"/a", STAT)),
                part(OpCode.DELETE),
                part(OpCode.CHECK),
                part(OpCode.SET_DATA, STAT),
            ]
        ),
        f"00000001 00 00000000 {A}"
        + f"0000000f 00 00000000 {A} {S}" * 3
        + f"00000002 00 00000000 0000000d 00 00000000 00000005 00 00000000 {S} {END}",
        [
            MultiResult(1, 0, b"/a"),
            MultiResult(15, 0, (b"/a", STAT)),
            MultiResult(15, 0, (b"/a", STAT)),
            MultiResult(15, 0, (b"/a", STAT)),
            MultiResult(2, 0),
            MultiResult(13, 0),
            MultiResult(5, 0, STAT),
        ],
    ),
    (
        OpCode.MULTI,
        failed_multi_body([0, 0, ErrorCode.NONODE, ErrorCode.RUNTIMEINCONSISTENCY]),
        "ffffffff 00 00000000 00000000" * 2 + "ffffffff 00 ffffff9b ffffff9b" + f"ffffffff 00 fffffffe fffffffe {END}",
        [MultiResult(-1, 0), MultiResult(-1, 0), MultiResult(-1, -101), MultiResult(-1, -2)],
    ),
    (
        OpCode.MULTI_READ,
        multi_body(
            [
                part(OpCode.GET_DATA, data_body(b"xy", STAT)),
                refused_part(ErrorCode.NOAUTH),
                part(OpCode.GET_CHILDREN, children_body([b"/a"])),
                keepers_refused_part(OpCode.EXISTS, ErrorCode.NONODE),
            ]
        ),
        (
            f"00000004 00 00000000 00000002 7879 {S} ffffffff 00 ffffff9a ffffff9a"
            f"00000008 00 00000000 00000001 {A} 00000003 00 ffffff9b {END}"
        ),
        [
            MultiResult(4, 0, (b"xy", STAT)),
            MultiResult(-1, -102),
            MultiResult(8, 0, [b"/a"]),
            MultiResult(3, -101),
        ],
    ),
    (
        OpCode.GET_CHANGES,
        page_body(
            PageStatus.GIVEN,
            258,
            0x100000003,
            5,
            b"xy",
            [
                change_bytes(0x100000002, 9, -1, (1, 0, b"/a", b"xy", 0, 7)),
                change_bytes(0x100000003, 9, 8, (2, 5, b"/a", None, -1, 0)),
            ],
        ),
        (
            "00000000 0000000000000102 0000000100000003 00000005 00000002 7879 00000002"
            f"0000000100000002 00000000 0000000000000009 ffffffffffffffff 00000001 {A} 00000002 7879 00000000"
            f"0000000000000007 0000000100000003 00000005 0000000000000009 0000000000000008 00000002 {A} ffffffff"
            "ffffffff 0000000000000000"
        ),
        ChangePage(
            PageStatus.GIVEN,
            258,
            0x100000003,
            5,
            b"xy",
            [(0x100000002, 0, 9, -1, 1, b"/a", b"xy", 0, 7), (0x100000003, 5, 9, 8, 2, b"/a", None, -1, 0)],
        ),
    ),
    (
        OpCode.GET_CHANGES,
        page_body(PageStatus.OLDER, 7, 8, 0, b""),
        "00000001 0000000000000007 0000000000000008 00000000 00000000 00000000",
        ChangePage(PageStatus.OLDER, 7, 8, 0, b"", []),
    ),
    (
        OpCode.GET_CHILDREN_PAGE,
        children_page_body([b"/a"], True, STAT),
        f"00000001 {A} 01 {S}",
        ([b"/a"], True, STAT),
    ),
    (OpCode.LIST_RECURSIVE, children_body([b"/a"]), f"00000001 {A}", [b"/a"]),
    (OpCode.FILTERED_LIST, children_body([b"/a"], STAT), f"00000001 {A} {S}", ([b"/a"], STAT)),
    (
        OpCode.FILTERED_LIST_WITH_STATS_AND_DATA,
        children_body([b"/a"], STAT) + ONE + STAT + ONE + NULL,
        f"00000001 {A} {S} 00000001 {S} 00000001 ffffffff",
        ([b"/a"], STAT, [STAT], [None]),
    ),
    (
        OpCode.FILTERED_LIST_WITH_STATS_AND_DATA,
        children_body([b"/a"], STAT) + bytes(4) + ONE + bytes.fromhex("000000027879"),
        f"00000001 {A} {S} 00000000 00000001 00000002 7879",
        ([b"/a"], STAT, [], [b"xy"]),
    ),
    (OpCode.SASL, bytes.fromhex("000000027879"), "00000002 7879", b"xy"),
    (OpCode.DELETE, b"", "", None),
    (OpCode.PING, b"", "", None),
    (OpCode.CLOSE_SESSION, b"", "", None),
]
IDS = [f"{row[0].name}-{index}" for index, row in enumerate(BODIES)]


def test_the_table_has_every_body():
    assert {int(row[0]) for row in BODIES} >= set(_DECODERS)


@pytest.mark.parametrize(("opcode", "body", "raw", "value"), BODIES, ids=IDS)
def test_a_body_is_encoded_as_its_bytes(opcode, body, raw, value):
    assert body == bytes.fromhex(raw)


@pytest.mark.parametrize(("opcode", "body", "raw", "value"), BODIES, ids=IDS)
def test_a_body_is_decoded_behind_the_header_and_what_follows_is_ignored(opcode, body, raw, value):
    assert decode_body(opcode, reply(1, 2, 0, body)[4:]) == value
    assert decode_body(opcode, bytes.fromhex(raw) + b"more", 0) == value


@pytest.mark.parametrize(("opcode", "body", "raw", "value"), BODIES, ids=IDS)
def test_every_prefix_of_a_body_is_refused(opcode, body, raw, value):
    for length in range(len(body)):
        with pytest.raises(JuteError):
            decode_body(opcode, body[:length], 0)


def test_a_reply_has_length_xid_zxid_and_error():
    assert reply(1, 258, -101) == bytes.fromhex("00000010 00000001 0000000000000102 ffffff9b")
    assert reply(-2, -1) == bytes.fromhex("00000010 fffffffe ffffffffffffffff 00000000")


@pytest.mark.parametrize("data", [None, b"", b"xy"])
def test_the_frequent_replies_are_what_the_general_one_makes(data):
    assert stat_reply(3, 4, STAT) == reply(3, 4, 0, STAT)
    assert data_reply(3, 4, data, STAT) == reply(3, 4, 0, data_body(data, STAT))


def test_a_stat_of_another_width_never_leaves():
    for cut in (STAT[1:], STAT + b"x"):
        with pytest.raises(AssertionError):
            stat_reply(1, 1, cut)
        with pytest.raises(AssertionError):
            data_reply(1, 1, b"", cut)
    assert len(STAT) == STAT_BYTES


def test_a_notification_has_xid_minus_one_and_the_connected_state():
    raw = bytes.fromhex("0000001e ffffffff 0000000000000009 00000000 00000004 00000003 00000002 2f61")
    assert notification(4, b"/a", 9) == raw
    assert ReplyHeader.decode(raw[4:]) == ReplyHeader(-1, 9, 0)
    assert WatcherEvent.decode(raw[4:], ReplyHeader.BYTES) == WatcherEvent(4, 3, b"/a")
    assert ReplyHeader(-1, 9, 0).encode() + WatcherEvent(4, 3, b"/a").encode() == raw[4:]
    for length in range(len(raw) - 4):
        with pytest.raises(JuteError):
            WatcherEvent.decode(raw[4:][:length], min(length, ReplyHeader.BYTES))


def test_headers_that_are_too_short_and_events_without_a_path_are_refused():
    for length in range(ReplyHeader.BYTES):
        with pytest.raises(JuteError):
            ReplyHeader.decode(bytes(length))
    with pytest.raises(JuteError, match="without a path"):
        WatcherEvent.decode(bytes(8) + b"\xff" * 4, 0)


def test_a_multi_with_a_part_of_unknown_type_is_refused():
    with pytest.raises(JuteError, match="part of type 7"):
        decode_body(OpCode.MULTI, part(7, STAT), 0)


def test_kazoo_reads_the_same_out_of_the_bodies():
    assert serialization.GetData.deserialize(data_body(b"xy", STAT), 0) == (b"xy", KAZOO_STAT)
    assert serialization.GetChildren2.deserialize(children_body([b"a", b"b"], STAT), 0) == (["a", "b"], KAZOO_STAT)
    acls, stat = serialization.GetACL.deserialize(acl_body(OPEN_ACL, STAT), 0)
    assert [(acl.perms, acl.id.scheme, acl.id.id) for acl in acls] == [(31, "world", "anyone")]
    assert stat == KAZOO_STAT
    assert serialization.Create2.deserialize(path_body(b"/a", STAT), 0) == ("/a", KAZOO_STAT)
    header, offset = serialization.ReplyHeader.deserialize(notification(1, b"/a", 9), 4)
    assert header == (-1, 9, 0)
    assert serialization.Watch.deserialize(notification(1, b"/a", 9), offset)[0] == (1, 3, "/a")


def test_kazoo_reads_the_same_out_of_a_multi():
    done = multi_body([part(1, path_body(b"/a")), part(2), part(5, STAT), part(13)])
    assert serialization.Transaction.deserialize(done, 0) == ["/a", True, KAZOO_STAT, True]
    refused = serialization.Transaction.deserialize(failed_multi_body([0, -101, -2]), 0)
    assert [type(result) for result in refused] == [
        kazoo.exceptions.RolledBackError,
        kazoo.exceptions.NoNodeError,
        kazoo.exceptions.RuntimeInconsistency,
    ]


@pytest.mark.parametrize(
    "raw",
    [
        "00000009 0000000000000007 0000000000000008 00000000 00000000 00000000",
        "00000000 0000000000000007 0000000000000008 00000000 00000000 7fffffff" + "00" * 64,
        "00000000 0000000000000007 0000000000000008 00000000 00000000 00000001"
        "0000000100000002 00000000 0000000000000009 ffffffffffffffff 00000001 ffffffff" + "00" * 64,
        "00000000 0000000000000007 0000000000000008 00000000 00000000 00000001"
        "0000000100000002 00000000 0000000000000009 ffffffffffffffff 00000003 00000000" + "00" * 64,
    ],
    ids=["status", "count", "path", "kind"],
)
def test_a_page_of_changes_that_means_nothing_is_refused(raw):
    with pytest.raises(JuteError):
        decode_body(OpCode.GET_CHANGES, bytes.fromhex(raw), 0)
