"""Ends a session before its timeout: the leader proposes the end, as for a silent session; a local session is ended by
its member.

The effects are those of an expiry: the end is committed, its ephemerals are deleted, its connection is closed, and its
client learns that the session is over when it connects again.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from datatree.opcodes import OpCode
from session.identity import SessionId
from zab.member.member import Member


class Expiry(Enum):
    """The progress of the end of a session."""

    UNKNOWN = "there is no such session"
    UNDER_WAY = "its end is proposed"
    NOT_HERE = "this member cannot end it: it does not lead"


def end_session(member: Member, session: int) -> Expiry:
    """Have the leader propose the end of a session, between two of its turns."""
    tracker = member.sessions.tracker
    if tracker is None or not member.serving:
        return Expiry.NOT_HERE
    if session not in member.tree.sessions and not tracker.is_alive(SessionId(session)):
        return Expiry.UNKNOWN
    if tracker.close(SessionId(session)):
        member.processor.submit(SessionId(session), 0, OpCode.CLOSE_SESSION, b"", None)
    return Expiry.UNDER_WAY


def end_local_session(member: Member, session: int) -> bool:
    """End a local session, between two turns; the caller has to break its connection. False: the member knows no such
    session."""
    is_known = SessionId(session) in member.sessions.local.timeouts
    member.sessions.local.end(SessionId(session))
    return is_known


def session_of(client: Any) -> int:
    """The id of a session, given by id or by a client of zab or kazoo. Raises ValueError if there is none."""
    found = client
    if not isinstance(client, int):
        found = getattr(client, "session_id", None)
        if found is None:
            pair = getattr(client, "client_id", None)
            found = pair[0] if isinstance(pair, tuple) and pair else None
    if not isinstance(found, int) or isinstance(found, bool) or not found:
        raise ValueError(f"{client!r} is no session: give its id, or a client that has one now")
    # Kazoo reads ids as signed numbers, and so does the wire.
    return found - (1 << 64) if found >= 1 << 63 else found
