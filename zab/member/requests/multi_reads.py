"""multiRead: many reads in one request. Each part succeeds or fails by itself, and all see the same state.

The results are found in one slice, and encoded in several (`_PartFound`). An answer larger than jute.maxbuffer is
refused before it is encoded.

Not here: single reads (`reads`, `child_lists`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from datatree.acl import OPEN, READ
from datatree.errors import ErrorCode
from datatree.opcodes import KEEPERS_MULTI_READS, MULTI_READS, OpCode
from datatree.paths import ROOT
from datatree.request_decoding import parts_of
from datatree.requests import FilteredList, PathWatch
from datatree.slices import PATHS
from datatree.state import NO_CHILDREN
from datatree.znode import (
    KIND_AT,
    LARGE,
    Znode,
    acl_id_of,
    data_of,
    length_of,
    stat_of,
)
from zab.jute.replies import (
    children_body,
    data_body,
    keepers_refused_part,
    multi_body,
    part,
    refused_part,
    reply,
)
from zab.member.clients.connection import ClientConnection
from zab.member.requests.child_lists import FILTERED_COUNT_MAX, filtered_of
from zab.member.requests.filtered_lists import Filtered
from zab.member.requests.read_state import BODY_AT, ReadState, Steps, begun, may
from zab.member.state.work import NAME_WORK

_GET_DATA = int(OpCode.GET_DATA)

_OF_CHILDREN = (int(OpCode.GET_CHILDREN), int(OpCode.GET_CHILDREN2))

_NAME_BYTES_MIN = 5
"""The least size of a name in an answer: its length, and one character."""


def multi_read(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Read all parts from the state of one slice. Refuses more parts than a multi may have, and answers above
    jute.maxbuffer."""
    return begun(_read_parts(state, connection, xid, frame))


def _read_parts(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> Steps:
    asked: list[tuple[int, PathWatch | FilteredList]] = []
    reads = KEEPERS_MULTI_READS if state.config.tree.keeper_extensions_enabled else MULTI_READS
    for opcode, wanted, _ in parts_of(OpCode.MULTI_READ, frame, BODY_AT, reads):
        if not opcode:
            break
        if len(asked) == state.config.requests.multi_max_parts:
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
    room, told_count = state.config.requests.jute_max_buffer_bytes, 0
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
"""The result of a part: encoded; or the operation and the result of a filteredList; or the operation, path, znode, its
children, and its data if that is stored separately. A znode is immutable: a change replaces it."""


def _parts_found(
    state: ReadState, connection: ClientConnection, asked: list[tuple[int, PathWatch | FilteredList]]
) -> list[_PartFound] | None:
    """The results of all parts in one state, found in one slice and not encoded yet. None: they are too large for one
    answer."""
    tree, room, children_left = state.tree, state.config.requests.jute_max_buffer_bytes, FILTERED_COUNT_MAX
    found: list[_PartFound] = []
    for opcode, wanted in asked:
        path = wanted.path or ROOT
        if isinstance(wanted, FilteredList):
            children_left -= len(tree.children.get(path, NO_CHILDREN))
            listed = filtered_of(state, connection, wanted, room) if children_left >= 0 else ErrorCode.BADARGUMENTS
            if listed is ErrorCode.BADARGUMENTS:
                return None
            # In Keeper, the answer to a filteredList has the type of getChildren2.
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
    """A failed part. ClickHouse understands only Keeper's format, clients of ZooKeeper only ZooKeeper's."""
    if connection.is_of_keeper and state.config.tree.keeper_extensions_enabled:
        return keepers_refused_part(opcode, error)
    return refused_part(error)
