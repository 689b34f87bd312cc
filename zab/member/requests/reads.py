"""Reads, answered by a member from its tree: one function for each operation, in the table `READS`.

    function(state, connection, xid, frame) -> the frame of the reply, ready to be sent

`frame` is the payload that arrived: xid and opcode in its first 8 bytes, then the body (`datatree.requests`). A
function may raise what decoding raises; its caller then answers MARSHALLINGERROR. None of them validates a path:
an invalid one is answered as a znode that does not exist, and an empty one is an alias of the root, as in ZooKeeper.

    operation                     refused with                          watch, when asked for
    exists                        NONODE; NOAUTH without READ           set unless NOAUTH, even if the znode is missing
    getData, getChildren(2)       NONODE; NOAUTH without READ           set if the read succeeds
    getACL                        NONODE; NOAUTH without READ or ADMIN  -
    getChildrenPage               BADARGUMENTS for a count below 1; NONODE; NOAUTH without READ
    filteredList(WithStatsAnd…)   as getChildren; NOAUTH without READ of a child   set if the read succeeds
    listRecursive                 NONODE, NOAUTH without READ                      -
    getAllChildrenNumber          NONODE; NOAUTH without READ           -
    getEphemerals                 -                                     -
    multiRead                     each part by itself, in the format of    never
                                  ClickHouse Keeper for its clients

Invariants: a read and the watch that it sets see the same state; nothing is applied in between. An answer that takes
longer than a slice comes in slices (`TakesLonger`).

The zxid of a reply is that of the last transaction applied here. The two most frequent functions, getData
and exists, work on offsets; the others read their body through `datatree.requests`.

Not here: when a read may be answered (`processor`), requests about the connection itself (`connection_requests`).
"""

from __future__ import annotations

from collections.abc import Mapping

from datatree.acl import ADMIN, OPEN, READ, explicit, masked
from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.paths import ROOT
from datatree.request_decoding import decode
from datatree.requests import PathOnly
from datatree.slices import NAMES
from datatree.state import NO_CHILDREN
from datatree.znode import (
    ACL_ID,
    DATA_AT,
    HERE,
    KIND_AT,
    STAT_AT,
    stat_of,
)
from zab.jute.keeper_features import TOLD_PATHS
from zab.jute.replies import (
    acl_body,
    data_reply,
    int_body,
    listing_reply,
    reply,
    stat_reply,
)
from zab.member.clients.connection import ClientConnection
from zab.member.requests.child_lists import (
    filtered_list,
    filtered_list_with,
    get_children,
    get_children2,
    get_children_page,
    list_recursive,
)
from zab.member.requests.listings import listing
from zab.member.requests.multi_reads import multi_read
from zab.member.requests.read_state import (
    BODY_AT,
    INT,
    Answer,
    ReadState,
    Steps,
    begun,
    check_watch_limit,
    may,
    permitted_znode,
)
from zab.member.state.work import NAME_WORK


def get_data(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    tree = state.tree
    (length,) = INT.unpack_from(frame, BODY_AT)
    end = 12 + length
    path = frame[12:end] if length > 0 else _alias(length)
    watched = frame[end]
    znode = tree.get(path)
    if znode is None:
        return reply(xid, tree.applied, ErrorCode.NONODE)
    (acl_id,) = ACL_ID.unpack_from(znode)
    if path in TOLD_PATHS:
        connection.is_of_keeper = True
    if acl_id != OPEN and not may(state, connection, znode, READ):
        return reply(xid, tree.applied, ErrorCode.NOAUTH)
    if watched:
        watch_data(state, connection, path)
    data = znode[DATA_AT:] if znode[KIND_AT] == HERE else tree.data_of(path, znode)
    return data_reply(xid, tree.applied, data, znode[STAT_AT:DATA_AT])


def exists(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    tree = state.tree
    (length,) = INT.unpack_from(frame, BODY_AT)
    end = 12 + length
    path = frame[12:end] if length > 0 else _alias(length)
    watched = frame[end]
    znode = tree.get(path)
    if znode is None and b"\x00" in path:
        return reply(xid, tree.applied, ErrorCode.BADARGUMENTS)
    if znode is not None and not may(state, connection, znode, READ):
        return reply(xid, tree.applied, ErrorCode.NOAUTH)
    if watched:
        watch_data(state, connection, path)
    if znode is None:
        return reply(xid, tree.applied, ErrorCode.NONODE)
    return stat_reply(xid, tree.applied, stat_of(znode))


def get_acl(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The ACL of a znode; hashes are masked for clients without the permission ADMIN."""
    tree = state.tree
    znode, error = permitted_znode(state, connection, _path_only(frame, OpCode.GET_ACL), READ | ADMIN)
    if znode is None:
        return reply(xid, tree.applied, error)
    acl = explicit(tree.acl(znode))
    if not may(state, connection, znode, ADMIN):
        acl = masked(acl)
    return reply(xid, tree.applied, 0, acl_body(acl, stat_of(znode)))


def get_all_children_number(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """How many znodes are below a path, at any depth. Changes during the count, which takes slices, may be counted or
    not, as in ZooKeeper."""
    tree = state.tree
    path = _path_only(frame, OpCode.GET_ALL_CHILDREN_NUMBER)
    znode, error = permitted_znode(state, connection, path, READ)
    if znode is None:
        return reply(xid, tree.applied, error)
    if path == ROOT:
        return reply(xid, tree.applied, 0, int_body(tree.znode_count - 1))
    return begun(_counted(state, xid, path))


def _counted(state: ReadState, xid: int, path: bytes) -> Steps:
    tree = state.tree
    count = looked_at = 0
    pending = [path]
    while pending:
        below = tree.children.get(pending.pop(), NO_CHILDREN)
        count += len(below)
        pending += below
        looked_at += 1
        state.spent += NAME_WORK
        if not looked_at % NAMES:
            yield
    return reply(xid, tree.applied, 0, int_body(count))


def get_ephemerals(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The ephemerals of the calling session whose path begins with the prefix, a plain string; in no order."""
    body = decode(OpCode.GET_EPHEMERALS, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    owned = list(state.tree.ephemerals.get(connection.session, ()))
    return begun(_owned(state, xid, owned, body.path), state.tree.applied)


def _owned(state: ReadState, xid: int, owned: list[bytes], prefix: bytes) -> Steps:
    zxid, paths = state.tree.applied, list[bytes]()
    for first in range(0, len(owned), NAMES):
        state.spent += NAME_WORK * min(NAMES, len(owned) - first)
        paths += [path for path in owned[first : first + NAMES] if path.startswith(prefix)]
        if first + NAMES < len(owned):
            yield
    return listing_reply(xid, zxid, (yield from listing(paths, 0)))


def watch_data(state: ReadState, connection: ClientConnection, path: bytes) -> None:
    state.watches.add_data(connection, path)
    check_watch_limit(state, connection)


def _alias(length: int) -> bytes:
    """The path for an empty path; a negative length is an error."""
    if length < 0:
        raise JuteError(f"null or negative length {length} of the path")
    return ROOT


def _path_only(frame: bytes, opcode: OpCode) -> bytes:
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    return body.path or ROOT


READS: Mapping[int, Answer] = {
    int(opcode): answer
    for opcode, answer in {
        OpCode.EXISTS: exists,
        OpCode.GET_DATA: get_data,
        OpCode.GET_ACL: get_acl,
        OpCode.GET_CHILDREN: get_children,
        OpCode.GET_CHILDREN2: get_children2,
        OpCode.GET_CHILDREN_PAGE: get_children_page,
        OpCode.FILTERED_LIST: filtered_list,
        OpCode.FILTERED_LIST_WITH_STATS_AND_DATA: filtered_list_with,
        OpCode.LIST_RECURSIVE: list_recursive,
        OpCode.MULTI_READ: multi_read,
        OpCode.GET_EPHEMERALS: get_ephemerals,
        OpCode.GET_ALL_CHILDREN_NUMBER: get_all_children_number,
    }.items()
}
