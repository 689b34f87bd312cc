"""Reads, answered by the serving member from its tree: one function for each operation, found through `READS`.

    function(state, connection, xid, frame) -> the frame of the reply, ready to be sent

`frame` is the payload that arrived: xid and opcode in its first 8 bytes, then the body (`datatree.requests`). A
function may raise what decoding raises; whoever calls it answers MARSHALLINGERROR then. None of them validates a path:
an invalid one is answered as a znode that does not exist, and an empty one is an alias of the root, as in ZooKeeper.

    operation                     refused with                          watch, when asked for
    exists                        NONODE; NOAUTH without READ           set unless NOAUTH: on what is not there, too
    getData, getChildren(2)       NONODE; NOAUTH without READ           set if the read succeeds
    getACL                        NONODE; NOAUTH without READ or ADMIN  -
    getChildrenPage               BADARGUMENTS for a count below 1; NONODE; NOAUTH without READ
    filteredList(WithStatsAnd…)   as getChildren; NOAUTH without READ of a child   set if the read succeeds
    listRecursive                 NONODE, NOAUTH without READ                      -
    getAllChildrenNumber          NONODE; NOAUTH without READ           -
    getEphemerals                 -                                     -
    multiRead                     each part for itself, in the shape of    never
                                  ClickHouse Keeper for its clients

Invariants: a read and the watch that it sets see the same state; nothing is applied in between. An answer that takes
longer than a slice comes in slices (`TakesLonger`).

The zxid of a reply is that of the last transaction applied here. The two functions that a busy client calls, getData
and exists, work on offsets; the others read their body through `datatree.requests`.

Not here: when a read may be answered (`processor`), what only concerns the connection (`local`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import TypeAlias

import attrs

from datatree.acl import ADMIN, OPEN, READ, explicit, masked, permits
from datatree.crowd import Crowd, page_of
from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import KEEPERS_MULTI_READS, MULTI_READS, OpCode
from datatree.paths import ROOT
from datatree.requests import FilteredList, GetChildrenPage, PathLimit, PathOnly, PathWatch, decode, parts_of
from datatree.slices import NAMES, PATHS
from datatree.state import NO_CHILDREN
from datatree.tree import DataTree
from datatree.watches import WatchTable
from datatree.znode import (
    ACL_ID,
    DATA_AT,
    HEAD,
    HERE,
    KIND_AT,
    LARGE,
    PZXID_AT,
    STAT_AT,
    STAT_BYTES,
    Znode,
    acl_id_of,
    data_of,
    is_ephemeral,
    length_of,
    stat_of,
)
from zab.jute.keeper_features import TOLD_PATHS
from zab.jute.replies import (
    acl_body,
    children_body,
    children_page_body,
    data_body,
    data_reply,
    int_body,
    keepers_refused_part,
    listing_reply,
    multi_body,
    part,
    refused_part,
    reply,
    stat_reply,
)
from zab.member.clients.audit import Auditor
from zab.member.clients.authentication import Authentication
from zab.member.clients.connection import ClientConnection, Clients
from zab.member.requests.event_sending import EventSender
from zab.member.requests.filtered_lists import Filtered
from zab.member.requests.listings import LISTING_COUNT_MIN, Listings, first_page, listing
from zab.member.sessions.local_sessions import LocalSessions
from zab.member.settings.config import Config
from zab.member.state.metrics import Metrics
from zab.member.state.work import NAME_WORK
from zab.service.spans import Spans

BODY_AT = 8

INT = Struct(">i")

FILTERED_COUNT_MAX = 20_000
"""Of the children that a filteredList, all of those in a multiRead, or a listRecursive looks at; more are refused with
BADARGUMENTS."""
ALL, EPHEMERALS = 0, 2
_GET_DATA = int(OpCode.GET_DATA)
_OF_CHILDREN = (int(OpCode.GET_CHILDREN), int(OpCode.GET_CHILDREN2))
_NAME_BYTES_MIN = 5
"""Of a name in an answer: its length, and one character."""

UNDECODABLE = (JuteError, StructError, IndexError)
"""What a function of this module, or of `local`, may raise because of the bytes of the request."""


class ConnectionEnds(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer is the last one: the connection is closed once it is sent."""

    def __init__(self, last: bytes = b"") -> None:
        super().__init__(last)
        self.last = last


Steps: TypeAlias = Generator[None, None, bytes]
"""An answer in slices: it yields after each of them, and returns the frame of the reply."""


class TakesLonger(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer takes more than one slice: these are the rest of them. It tells the state at `zxid`; 0: the one at its
    end."""

    def __init__(self, steps: Steps, zxid: int) -> None:
        super().__init__(steps, zxid)
        self.steps = steps
        self.zxid = zxid


def begun(steps: Steps, zxid: int = 0) -> bytes:
    """The reply, if one slice was enough. Raises TakesLonger."""
    try:
        next(steps)
    except StopIteration as end:
        answered: bytes = end.value
        return answered
    raise TakesLonger(steps, zxid)


@attrs.define(eq=False)
class ReadState:
    """What an answer may look at."""

    config: Config
    tree: DataTree
    watches: WatchTable
    clients: Clients
    metrics: Metrics
    authentication: Authentication
    auditor: Auditor | None = None
    """None: nothing is audited."""
    spans: Spans | None = attrs.field(init=False)
    """None: nothing is traced."""
    spent: int = 0
    """Of this turn: bytes of answers, and the work that counts as such (`work`)."""
    listings: Listings = attrs.field(factory=Listings)
    local_sessions: LocalSessions = attrs.field(factory=LocalSessions)
    event_sender: EventSender = attrs.field(init=False)

    @event_sender.default
    def _event_sender_of_config(self) -> EventSender:
        return EventSender(self.config.total_output_limit_bytes // 2)

    @spans.default
    def _spans_of_config(self) -> Spans | None:
        return Spans.of(self.config.tracing_sample_ratio)

    def login_refused(
        self, connection: ClientConnection, operation: str, scheme: bytes = b"", user: bytes = b""
    ) -> None:
        """Somebody could not prove who he is; `user` is whom he named, never with what he tried to prove it."""
        self.metrics.auth_failed_count += 1
        if self.auditor is not None:
            self.auditor.login_refused(connection, operation, scheme, user)


Answer: TypeAlias = Callable[[ReadState, ClientConnection, int, bytes], bytes]


def may(state: ReadState, connection: ClientConnection, znode: Znode, mask: int) -> bool:
    """Whether some identity of the connection has a permission of `mask` on the znode."""
    acl_id = acl_id_of(znode)
    if acl_id == OPEN or state.config.skip_acl:
        return True
    return permits(state.tree.acl(znode), mask, connection.identities)


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
    znode, error = _permitted(state, connection, path, READ)
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
    """The children are those of this zxid, which is also that of the reply."""
    tree, zxid = state.tree, state.tree.applied
    names = yield from listing(below, 1 if path == ROOT else len(path) + 1)
    if state.tree is tree:
        state.listings.keep(path, pzxid, names)
    return listing_reply(xid, zxid, names, shown)


def get_children_page(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Names in their order, at most as many as are asked for and as one slice may take, and at most `PAGE_BYTES`; with
    the stat. All of it is of one state."""
    body = decode(OpCode.GET_CHILDREN_PAGE, frame, BODY_AT)
    assert isinstance(body, GetChildrenPage)
    if body.count <= 0:
        return reply(xid, state.tree.applied, ErrorCode.BADARGUMENTS)
    return begun(_paged(state, connection, xid, body))


def _paged(state: ReadState, connection: ClientConnection, xid: int, body: GetChildrenPage) -> Steps:
    path = body.path or ROOT
    while True:
        # The tree changes between the slices, and may be another one.
        tree = state.tree
        znode, error = _permitted(state, connection, path, READ)
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
    """Children of one kind, with their stats and data where these are asked for, as they are together in one state;
    `FILTERED_COUNT_MAX` children at most. Names alone of all children are what getChildren2 gives."""
    connection.is_of_keeper = True
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, FilteredList)
    if opcode == OpCode.FILTERED_LIST and body.which == ALL:
        return _listed(state, connection, xid, PathWatch(body.path, body.watch), OpCode.GET_CHILDREN2)
    zxid = state.tree.applied
    found = _filtered(state, connection, body, state.config.jute_max_buffer_bytes)
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


def _filtered(state: ReadState, connection: ClientConnection, body: FilteredList, room: int) -> Filtered | ErrorCode:
    """What is to be told, in one slice: none of it is written down yet. BADARGUMENTS if that is more than `room` bytes,
    or if there are too many children."""
    tree, path, which = state.tree, body.path or ROOT, body.which
    znode, error = _permitted(state, connection, path, READ)
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
    """The paths of what is below a znode, as they are in one state, those nearer to it first; as many as are asked for.
    What may not be read is left out, with all below it."""
    connection.is_of_keeper = True
    tree = state.tree
    body = decode(OpCode.LIST_RECURSIVE, frame, BODY_AT)
    assert isinstance(body, PathLimit)
    path = body.path or ROOT
    znode, error = _permitted(state, connection, path, READ)
    if znode is None:
        return reply(xid, tree.applied, error)
    paths, looked_at, room = [path], 0, state.config.jute_max_buffer_bytes
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


def get_acl(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Hashes are masked for clients without the permission ADMIN."""
    tree = state.tree
    znode, error = _permitted(state, connection, _path_only(frame, OpCode.GET_ACL), READ | ADMIN)
    if znode is None:
        return reply(xid, tree.applied, error)
    acl = explicit(tree.acl(znode))
    if not may(state, connection, znode, ADMIN):
        acl = masked(acl)
    return reply(xid, tree.applied, 0, acl_body(acl, stat_of(znode)))


def get_all_children_number(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """How many znodes are below a path, at any depth. What changes while that is counted, slice by slice, may be
    counted or not, as in ZooKeeper."""
    tree = state.tree
    path = _path_only(frame, OpCode.GET_ALL_CHILDREN_NUMBER)
    znode, error = _permitted(state, connection, path, READ)
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
    """Those of the calling session whose path begins with the prefix, a plain string; in no order."""
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


def multi_read(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Each part succeeds or fails for itself, and all see the same state, that of one slice. Asking for more parts than
    a multi may have, or for more than any client takes (jute.maxbuffer), is refused."""
    return begun(_read_parts(state, connection, xid, frame))


def _read_parts(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> Steps:
    asked: list[tuple[int, PathWatch | FilteredList]] = []
    reads = KEEPERS_MULTI_READS if state.config.keeper_extensions_enabled else MULTI_READS
    for opcode, wanted, _ in parts_of(OpCode.MULTI_READ, frame, BODY_AT, reads):
        if not opcode:
            break
        if len(asked) == state.config.multi_max_parts:
            return reply(xid, state.tree.applied, ErrorCode.BADARGUMENTS)
        assert isinstance(wanted, PathWatch | FilteredList)
        asked.append((opcode, wanted))
        state.spent += NAME_WORK
        if not len(asked) % PATHS:
            yield
    if any(opcode not in MULTI_READS for opcode, _ in asked):
        connection.is_of_keeper = True
    children = state.tree.children
    name_count = sum(
        len(children.get(wanted.path or ROOT, NO_CHILDREN))
        for opcode, wanted in asked
        if opcode in _OF_CHILDREN or isinstance(wanted, FilteredList)
    )
    is_long = len(asked) + name_count >= PATHS
    if is_long:
        yield
    zxid = state.tree.applied
    found = _parts_found(state, connection, asked)
    if found is None:
        return reply(xid, zxid, ErrorCode.BADARGUMENTS)
    if is_long:
        connection.answering_zxid = zxid
    pieces: list[bytes] = []
    room, told_count = state.config.jute_max_buffer_bytes, 0
    for part_found in found:
        if isinstance(part_found, bytes):
            piece = part_found
        elif isinstance(part_found[1], Filtered):
            opcode, filtered = part_found
            piece = part(opcode, (yield from filtered.written()))
            told_count += len(filtered.children)
        else:
            piece = _part_told(*part_found)
            told_count += len(part_found[3])
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            state.spent += sum(map(len, pieces))
            return reply(xid, zxid, ErrorCode.BADARGUMENTS)
        told_count += 1
        if told_count >= PATHS:
            told_count = 0
            yield
    return reply(xid, zxid, 0, multi_body(pieces))


_PartFound: TypeAlias = bytes | tuple[int, Filtered] | tuple[int, bytes, Znode, Sequence[bytes], bytes | None]
"""What a part of a multiRead tells: all of it; or the operation, and what a filteredList has found, or the path, the
znode, its children, and its data, if that is kept apart. A znode never changes: another one takes its place."""


def _parts_found(
    state: ReadState, connection: ClientConnection, asked: list[tuple[int, PathWatch | FilteredList]]
) -> list[_PartFound] | None:
    """All parts as they are in one state, in one slice: none of it is written down yet. None: it is too much for one
    answer, which is known before any of it is made."""
    tree, room, children_left = state.tree, state.config.jute_max_buffer_bytes, FILTERED_COUNT_MAX
    found: list[_PartFound] = []
    for opcode, wanted in asked:
        path = wanted.path or ROOT
        if isinstance(wanted, FilteredList):
            children_left -= len(tree.children.get(path, NO_CHILDREN))
            listed = _filtered(state, connection, wanted, room) if children_left >= 0 else ErrorCode.BADARGUMENTS
            if listed is ErrorCode.BADARGUMENTS:
                return None
            # In Keeper the type of a filteredList's answer is that of a getChildren2.
            said_as = OpCode.GET_CHILDREN2 if opcode == OpCode.FILTERED_LIST else opcode
            if isinstance(listed, ErrorCode):
                found.append(_refused(state, connection, said_as, listed))
            else:
                room -= listed.told_bytes
                found.append((said_as, listed))
            continue
        znode = tree.get(path)
        if znode is None:
            found.append(_refused(state, connection, opcode, ErrorCode.NONODE))
            continue
        if acl_id_of(znode) != OPEN and not may(state, connection, znode, READ):
            found.append(_refused(state, connection, opcode, ErrorCode.NOAUTH))
            continue
        below: Sequence[bytes] = ()
        data = None
        if opcode in _OF_CHILDREN:
            children = tree.children.get(path, NO_CHILDREN)
            room -= _NAME_BYTES_MIN * len(children)
            state.spent += NAME_WORK * len(children)
            below = list(children) if room >= 0 else ()
        elif opcode == _GET_DATA:
            room -= length_of(znode)
            data = tree.large.get(path) if znode[KIND_AT] == LARGE else None
        if room < 0:
            return None
        found.append((opcode, path, znode, below, data))
    return found


def _part_told(opcode: int, path: bytes, znode: Znode, below: Sequence[bytes], data: bytes | None) -> bytes:
    if opcode == _GET_DATA:
        return part(opcode, data_body(data_of(path, znode, {path: data or b""}), stat_of(znode)))
    if opcode not in _OF_CHILDREN:
        return part(opcode, stat_of(znode))
    start = 1 if path == ROOT else len(path) + 1
    stat = stat_of(znode) if opcode == OpCode.GET_CHILDREN2 else b""
    return part(opcode, children_body([child[start:] for child in below], stat))


def _refused(state: ReadState, connection: ClientConnection, opcode: int, error: int) -> bytes:
    """A part that was not done. ClickHouse takes Keeper's shape alone, clients of ZooKeeper its own alone."""
    if connection.is_of_keeper and state.config.keeper_extensions_enabled:
        return keepers_refused_part(opcode, error)
    return refused_part(error)


def watch_data(state: ReadState, connection: ClientConnection, path: bytes) -> None:
    state.watches.add_data(connection, path)
    check_watch_limit(state, connection)


def check_watch_limit(state: ReadState, connection: ClientConnection) -> None:
    """Beyond maxWatchesPerConnection or watchLimitBytes the connection is closed: its client cannot be told
    otherwise."""
    config, metrics, count = state.config, state.metrics, state.watches.count(connection)
    metrics.most_watches = max(metrics.most_watches, count)
    if count > config.max_watches_per_connection or state.watches.bytes_of(connection) > config.watch_limit_bytes:
        metrics.connections_closed_for_watches += 1
        metrics.connection_drop_count += 1
        raise ConnectionEnds


def _alias(length: int) -> bytes:
    """What a path of no length stands for; a negative length is no path."""
    if length < 0:
        raise JuteError(f"null or negative length {length} of the path")
    return ROOT


def _path_only(frame: bytes, opcode: OpCode) -> bytes:
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    return body.path or ROOT


def _permitted(
    state: ReadState, connection: ClientConnection, path: bytes, mask: int
) -> tuple[Znode | None, ErrorCode]:
    """The znode, or why it is not to be had."""
    znode = state.tree.get(path)
    if znode is None:
        return None, ErrorCode.NONODE
    if not may(state, connection, znode, mask):
        return None, ErrorCode.NOAUTH
    return znode, ErrorCode.OK


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
