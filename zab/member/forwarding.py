"""Writes that learners forward to the leader: what it takes of them.

Not here: which of them a learner forwards, and when (`processor`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from datatree.opcodes import WRITES, OpCode
from session.identity import SessionId
from zab import message as msg
from zab.ids import ServerId
from zab.member.under_way import Write
from zab.message import WRITE_HEAD

_CREATE_SESSION: Final = int(OpCode.CREATE_SESSION)
_FORWARDED: Final = frozenset(int(opcode) for opcode in WRITES) | {_CREATE_SESSION}
_BODY_AT: Final = WRITE_HEAD.size


def writes_of(
    request: msg.Request, owner: ServerId, refusal: Callable[[SessionId, ServerId], int]
) -> list[Write] | None:
    """The writes in a message of this learner. None: one is of a kind that it may not send, or a session that another
    server begins. `refusal` says why a session may not write by this server; 0: it may."""
    refusals: dict[int, int] = {}  # by session: nothing changes between these writes
    writes: list[Write] = []
    for identities, rows in request.rows:
        proven = tuple([(scheme, name) for scheme, name in identities])
        for row in rows:
            session, cxid, opcode = WRITE_HEAD.unpack_from(row)
            if opcode not in _FORWARDED or (opcode == _CREATE_SESSION and cxid != owner):
                return None
            refused = 0 if opcode == _CREATE_SESSION else refusals.get(session)
            if refused is None:
                refused = refusals[session] = refusal(session, owner)
            writes.append(((session, cxid, opcode, row[_BODY_AT:], proven), None, owner, refused))
    return writes
