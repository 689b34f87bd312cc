"""Empties the tree of an ensemble and ends all sessions, by the leader: between two of its turns it proposes what
clients with all rights would ask for."""

from __future__ import annotations

from typing import Final

from datatree.acl import SUPER
from datatree.opcodes import OpCode
from datatree.paths import RESERVED
from datatree.requests import CreateSession, PathVersion
from session.identity import SessionId, SessionIds
from zab.member.member import Member
from zab.quorum.ids import ServerId

_ANY_VERSION: Final = -1
_TIMEOUT_MS: Final = 60_000


def left_of(member: Member) -> int:
    """How many sessions and znodes there are, besides the permanent ones; -1 if it is unknown."""
    if member.sessions.tracker is None or not member.serving or member.is_between_states:
        return -1
    return len(member.tree.sessions) + len(_paths(member))


def clear(member: Member) -> None:
    """Propose to delete all of them; no-op if `left_of` is -1."""
    tracker = member.sessions.tracker
    if tracker is None or left_of(member) < 0:
        return
    for session in member.tree.sessions:
        if tracker.close(SessionId(session)):
            member.processor.submit(SessionId(session), 0, OpCode.CLOSE_SESSION, b"", None)
    paths = sorted(_paths(member), key=lambda path: path.count(b"/"), reverse=True)
    if not paths:
        return
    # Only sessions write: this one begins and ends with the deletes.
    session = SessionIds(member.config.server_id, member.wall).next()
    sid, processor = ServerId(member.config.server_id), member.processor
    processor.submit(session, sid, OpCode.CREATE_SESSION, CreateSession(_TIMEOUT_MS).encode(), sid)
    for path in paths:
        body = PathVersion(path, _ANY_VERSION).encode()
        processor.intake.arrived.append(((session, 0, OpCode.DELETE, body, (SUPER,)), None, sid, 0))
    processor.submit(session, 0, OpCode.CLOSE_SESSION, b"", None)


def _paths(member: Member) -> list[bytes]:
    return [path for shard in member.tree.shards for path in shard if path not in RESERVED]
