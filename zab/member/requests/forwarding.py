"""Writes that learners forward: those under way (`Forwarded`), and those that the leader accepts (`writes_of`).

Not here: when a learner forwards them (`turn_end`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

from datatree.opcodes import WRITES, OpCode
from session.identity import SessionId, is_of_server
from zab.member.clients.connection import Identity
from zab.member.requests.intake import Intake
from zab.member.requests.under_way import Write, size_of_run
from zab.member.state.work import LARGE_BYTES, LARGE_UNDER_WAY_BYTES_MAX
from zab.protocol import member_message as mmsg
from zab.protocol.features import KEEPER, KEEPER_REMOVALS, RECONFIGURATION
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX
from zab.protocol.member_message import WRITE_HEAD
from zab.quorum.ids import ServerId

FORWARDED_BYTES_MAX: Final = 2 << 20
"""The limit on writes, with their identities, that a learner has forwarded and that have not come back as transactions:
further writes wait. A leader always reads its links, so learners have to bound what it keeps."""

_CREATE_SESSION: Final = int(OpCode.CREATE_SESSION)
_FORWARDED: Final = frozenset(int(opcode) for opcode in WRITES) | {_CREATE_SESSION}
_LOCAL: Final = 1 << 30
"""A flag in the opcode of a write of a local session; no opcode is so large."""
_BODY_AT: Final = WRITE_HEAD.size


_SINCE: Final = {
    RECONFIGURATION: frozenset({int(OpCode.RECONFIG), int(OpCode.HAND_OVER)}),
    KEEPER: frozenset({int(OpCode.TRY_REMOVE)}),
    KEEPER_REMOVALS: frozenset({int(OpCode.REMOVE_RECURSIVE)}),
}


def unknown_to(features: int) -> frozenset[int]:
    """Writes that a leader with these features (`zab.protocol.features`) does not know, and that are not forwarded to
    it."""
    return frozenset().union(*(opcodes for feature, opcodes in _SINCE.items() if not features & feature))


class Refusal(Protocol):
    """The type of `zab.member.sessions.sessions.Sessions.refusal`."""

    def __call__(self, session: SessionId, owner: ServerId, *, is_local: bool) -> int: ...


class Forwarded:
    """The writes that a learner has forwarded."""

    def __init__(self) -> None:
        self.writes: dict[int, deque[tuple[int, int]]] = {}
        """Writes that have not come back from the leader, by session: cxid, and bytes, including identities if they
        differ from those before. The writes of a session come back in this order, each as one transaction. If the
        session was on another server before and used the same cxids, another write may be taken for the first of them:
        then a write is counted too briefly, but none for ever."""
        self.bytes = 0
        self.passes_small = True
        """Whether the writes that the last turn left wait only because they are large."""

    def clear(self) -> None:
        """The role is over."""
        self.writes.clear()
        self.bytes = 0
        self.passes_small = True

    def came_back(self, count: int) -> None:
        """Subtract bytes that have come back as transactions."""
        self.bytes -= count

    def take(self, intake: Intake) -> Iterator[mmsg.Request]:
        """Take the writes of the turn for the leader, up to the limit, in as few messages as their size allows."""
        rows: list[list[Any]] = []
        identities: tuple[Identity, ...] | None = None
        size = 0
        if intake.turns:
            intake.sort()
        queue, arrived, passed = intake.queue, intake.arrived, 0
        while queue and self.bytes < FORWARDED_BYTES_MAX:
            (session, cxid, opcode, body, proven), connection, _, _ = queue[0]
            if self.bytes >= LARGE_UNDER_WAY_BYTES_MAX and len(body) >= LARGE_BYTES:
                break
            if queue is arrived:
                queue.popleft()
                passed += 1
            else:
                queue = intake.take()
            if connection is not None and connection.is_local:
                opcode += _LOCAL
            row = WRITE_HEAD.pack(session, cxid, opcode) + body
            goes_on = proven == identities
            taken = len(row) + (0 if goes_on else size_of_run(proven))
            if rows and size + taken > DATA_FRAME_BYTES_MAX:
                yield mmsg.Request(rows)
                rows, size = [], 0
                goes_on, taken = False, len(row) + size_of_run(proven)
            if not goes_on:
                identities = proven
                rows.append([[list(pair) for pair in identities], []])
            rows[-1][1].append(row)
            size += taken
            self.writes.setdefault(session, deque()).append((cxid, taken))
            self.bytes += taken
        if passed:
            intake.passed(passed)
        self.passes_small = self.bytes < FORWARDED_BYTES_MAX
        if intake.queue:
            intake.stay()
        if rows:
            yield mmsg.Request(rows)


def writes_of(request: mmsg.Request, owner: ServerId, refusal: Refusal) -> list[Write] | None:
    """The writes in a message of this learner. None: it may not send one of them, or it begins a session in the name of
    another server. `refusal` gives the error for a session that may not write through this server, or 0."""
    refusals: dict[tuple[int, bool], int] = {}  # the sessions do not change between these writes
    writes: list[Write] = []
    for identities, rows in request.rows:
        proven = tuple(map(tuple, identities))
        for row in rows:
            session, cxid, opcode = WRITE_HEAD.unpack_from(row)
            is_local = opcode >= _LOCAL
            if is_local:
                opcode -= _LOCAL
            if opcode not in _FORWARDED or (opcode == _CREATE_SESSION and not is_of_server(session, owner)):
                return None
            refused = 0 if opcode == _CREATE_SESSION else refusals.get((session, is_local))
            if refused is None:
                refused = refusals[session, is_local] = refusal(session, owner, is_local=is_local)
            writes.append(((session, cxid, opcode, row[_BODY_AT:], proven), None, owner, refused))
    return writes
