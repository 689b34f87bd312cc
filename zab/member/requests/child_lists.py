"""Reads that list what is below a znode: its children, or all descendants.

    getChildren(2)              names in no order; the answer for a large znode is cached (`listings`)
    getChildrenPage             names in order, a page at a time
    filteredList(WithStatsAnd…) children of one kind, as ClickHouse Keeper has it (`filtered_lists`)
    listRecursive               paths of descendants, as ClickHouse Keeper has it

Not here: the errors of each (`reads`).
"""

from __future__ import annotations

from datatree.acl import OPEN, READ
from datatree.crowd import Crowd, page_of
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.paths import ROOT
from datatree.request_decoding import decode
from datatree.requests import FilteredList, GetChildrenPage, PathLimit, PathWatch
from datatree.slices import NAMES
from datatree.state import NO_CHILDREN
from datatree.znode import (
    HEAD,
    LARGE,
    PZXID_AT,
    STAT_BYTES,
    is_ephemeral,
    length_of,
    stat_of,
)
from zab.jute.replies import (
    children_body,
    children_page_body,
    listing_reply,
    reply,
)
from zab.member.clients.connection import ClientConnection
from zab.member.requests.filtered_lists import Filtered
from zab.member.requests.listings import LISTING_COUNT_MIN, first_page, listing
from zab.member.requests.read_state import BODY_AT, ReadState, Steps, begun, check_watch_limit, may, permitted_znode
from zab.member.state.work import NAME_WORK

FILTERED_COUNT_MAX = 20_000
"""How many children a filteredList, a listRecursive, or all filteredLists of a multiRead look at; more are refused with
BADARGUMENTS."""

ALL, EPHEMERALS = 0, 2


def get_children(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _get_children(state, connection, xid, frame, OpCode.GET_CHILDREN)


def get_children2(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _get_children(state, connection, xid, frame, OpCode.GET_CHILDREN2)


def _get_children(state: ReadState, connection: ClientConnection, xid: int, frame: bytes, opcode: OpCode) -> bytes:
    """The names, in no order; getChildren2 adds the stat."""
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, PathWatch)
    return _listed(state, connection, xid, body, opcode)


def _listed(state: ReadState, connection: ClientConnection, xid: int, body: PathWatch, opcode: OpCode) -> bytes:
    tree = state.tree
    path = body.path or ROOT
    znode, error = permitted_znode(state, connection, path, READ)
    if znode is None:
        return reply(xid, tree.applied, error)
    if body.watch:
        state.watches.add_child(connection, path)
        check_watch_limit(state, connection)
    stat = stat_of(znode)
    shown = stat if opcode == OpCode.GET_CHILDREN2 else b""
    below = tree.children.get(path, NO_CHILDREN)
    if len(below) < LISTING_COUNT_MIN:
        state.spent += NAME_WORK * len(below)
        return reply(xid, tree.applied, 0, children_body(tree.child_names(path), shown))
    pzxid = stat[PZXID_AT:]
    names = state.listings.get(path, pzxid)
    if names is not None:
        return listing_reply(xid, tree.applied, names, shown)
    state.spent += NAME_WORK * min(len(below), NAMES)
    return begun(_listed_children(state, xid, path, list(below), pzxid, shown), tree.applied)


def _listed_children(state: ReadState, xid: int, path: bytes, below: list[bytes], pzxid: bytes, shown: bytes) -> Steps:
    """The children at one zxid, which is also the zxid of the reply."""
    tree, zxid = state.tree, state.tree.applied
    names = yield from listing(below, 1 if path == ROOT else len(path) + 1)
    if state.tree is tree:
        state.listings.keep(path, pzxid, names)
    return listing_reply(xid, zxid, names, shown)


def get_children_page(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """A page of names in order, with the stat, all from one state: at most as many as were asked for and one slice may
    take, and at most `PAGE_BYTES`."""
    body = decode(OpCode.GET_CHILDREN_PAGE, frame, BODY_AT)
    assert isinstance(body, GetChildrenPage)
    if body.count <= 0:
        return reply(xid, state.tree.applied, ErrorCode.BADARGUMENTS)
    return begun(_paged(state, connection, xid, body))


def _paged(state: ReadState, connection: ClientConnection, xid: int, body: GetChildrenPage) -> Steps:
    path = body.path or ROOT
    while True:
        # The tree changes between the slices, and may be replaced.
        tree = state.tree
        znode, error = permitted_znode(state, connection, path, READ)
        if znode is None:
            return reply(xid, tree.applied, error)
        below = tree.paged_children(path)
        if not isinstance(below, Crowd) or not below.sort_some():
            break
        state.spent += NAME_WORK * NAMES
        yield
    above = path if path == ROOT else path + b"/"
    count = min(body.count, NAMES)
    paths, looked_at = page_of(below, above + body.after, above + body.prefix, count + 1)
    state.spent += NAME_WORK * looked_at
    names, has_more = first_page([child[len(above) :] for child in paths], count)
    return reply(xid, tree.applied, 0, children_page_body(names, has_more, stat_of(znode)))


def filtered_list(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _filtered_list(state, connection, xid, frame, OpCode.FILTERED_LIST)


def filtered_list_with(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _filtered_list(state, connection, xid, frame, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA)


def _filtered_list(state: ReadState, connection: ClientConnection, xid: int, frame: bytes, opcode: OpCode) -> bytes:
    """Children of one kind, with stats and data if asked for, all from one state; at most `FILTERED_COUNT_MAX`
    children. If only the names of all children are asked for, the answer is that of getChildren2."""
    connection.is_of_keeper = True
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, FilteredList)
    if opcode == OpCode.FILTERED_LIST and body.which == ALL:
        return _listed(state, connection, xid, PathWatch(body.path, body.watch), OpCode.GET_CHILDREN2)
    zxid = state.tree.applied
    found = filtered_of(state, connection, body, state.config.requests.jute_max_buffer_bytes)
    if isinstance(found, ErrorCode):
        return reply(xid, zxid, found)
    if body.watch:
        state.watches.add_child(connection, body.path or ROOT)
        check_watch_limit(state, connection)
    return begun(_filtered_reply(xid, zxid, found), zxid)


def _filtered_reply(xid: int, zxid: int, found: Filtered) -> Steps:
    if len(found.children) > NAMES:
        yield
    return reply(xid, zxid, 0, (yield from found.written()))


def filtered_of(state: ReadState, connection: ClientConnection, body: FilteredList, room: int) -> Filtered | ErrorCode:
    """Find the children in one slice, without encoding them. BADARGUMENTS if they take more than `room` bytes, or if
    there are too many."""
    tree, path, which = state.tree, body.path or ROOT, body.which
    znode, error = permitted_znode(state, connection, path, READ)
    if znode is None:
        return error
    below = tree.children.get(path, NO_CHILDREN)
    if len(below) > FILTERED_COUNT_MAX:
        return ErrorCode.BADARGUMENTS
    state.spent += NAME_WORK * len(below)
    is_secret = which != ALL or body.stats or body.data
    start = 1 if path == ROOT else len(path) + 1
    each = 4 - start + (STAT_BYTES if body.stats else 0) + (4 if body.data else 0)
    children, left, permitted, get = [], room, {OPEN: True}, tree.get
    for child in below:
        found = get(child)
        assert found is not None, "a child is a znode"
        acl_id, owner, _, _, kind = HEAD.unpack_from(found)
        if which != ALL and is_ephemeral(owner) != (which == EPHEMERALS):
            continue
        if is_secret and acl_id not in permitted:
            permitted[acl_id] = may(state, connection, found, READ)
        if is_secret and not permitted[acl_id]:
            return ErrorCode.NOAUTH
        left -= each + len(child)
        if body.data:
            left -= length_of(found)
        if left < 0:
            return ErrorCode.BADARGUMENTS
        children.append((child, found, tree.large[child] if kind == LARGE and body.data else None))
    return Filtered(body, stat_of(znode), start, children, room - left)


def list_recursive(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The paths of the descendants of a znode in one state, the nearest first; at most as many as were asked for.
    Unreadable znodes are left out, with all of their descendants."""
    connection.is_of_keeper = True
    tree = state.tree
    body = decode(OpCode.LIST_RECURSIVE, frame, BODY_AT)
    assert isinstance(body, PathLimit)
    path = body.path or ROOT
    znode, error = permitted_znode(state, connection, path, READ)
    if znode is None:
        return reply(xid, tree.applied, error)
    paths, looked_at, room = [path], 0, state.config.requests.jute_max_buffer_bytes
    for above in paths:
        below = tree.children.get(above, NO_CHILDREN) if len(paths) <= body.limit else ()
        looked_at += len(below)
        state.spent += NAME_WORK * len(below)
        for child in below if looked_at <= FILTERED_COUNT_MAX else ():
            found = tree.get(child)
            assert found is not None, "a child is a znode"
            if may(state, connection, found, READ) and len(paths) <= body.limit:
                paths.append(child)
                room -= 4 + len(child)
        if room < 0 or looked_at > FILTERED_COUNT_MAX:
            return reply(xid, tree.applied, ErrorCode.BADARGUMENTS)
    return reply(xid, tree.applied, 0, children_body(paths[1:]))
