"""The requests of clients with local sessions, which only their server knows (`local_sessions`).

    closeSession          answered here, after the earlier requests of the client; then the session is over
    read-only mode        NOTREADONLY for all but reads of this tree: writes, sync, getChanges
    an ephemeral,         first the session becomes global, by a createSession with its id; later requests wait
    also in a multi       meanwhile. Without localSessionsUpgradingEnabled: EPHEMERALONLOCALSESSION; in a multi
                          the leader gives this error for its parts
    another write         handled as every write, with a flag that its session is local (`forwarding`): the leader
                          accepts it only from the server that gives out such ids. If the leader does not support local
                          sessions: as an ephemeral

All other requests are handled as for every client.

Not here: the sessions themselves (`sessions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Final

from datatree.create_flags import EPHEMERAL
from datatree.jute import JuteError
from datatree.opcodes import WRITES, OpCode
from datatree.request_decoding import decode, parts_of
from datatree.requests import Create
from zab.member.clients.connection import ClientConnection, Stage
from zab.member.clients.long_requests import Cut
from zab.member.requests.connection_requests import EPHEMERAL_REFUSED, LOCAL_CLOSE, NOT_READ_ONLY
from zab.member.sessions.sessions import Sessions

PARTS_MAX: Final = 250
"""A longer multi counts as one that makes ephemerals, without a look at its parts."""

_HEADER: Final = Struct(">ii")
_CREATES: Final = frozenset(map(int, (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_IF_NOT_EXISTS)))
_CREATES_OF_PARTS: Final = _CREATES | {int(OpCode.CREATE_TTL)}
"""In a multi, a createTTL with the flags of a create counts as a create (`datatree.create_flags`)."""
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
_MULTI: Final = int(OpCode.MULTI)
_REFUSED: Final = frozenset(map(int, (*WRITES, OpCode.SYNC, OpCode.GET_CHANGES, OpCode.CHECK, OpCode.RECONFIG)))
"""The requests that are refused in read-only mode."""


def apart(
    connection: ClientConnection,
    frames: Iterable[bytes],
    sessions: Sessions,
    op_counts: MutableMapping[int, int],
    place: Callable[[ClientConnection, int, int, bytes], None],
) -> Iterator[bytes]:
    """Yield the frames that are handled as for every client. The others are placed (`Processor.place`), or wait, before
    the next frame is yielded."""
    for frame in frames:
        if connection.closing:
            return
        if connection.stage is Stage.CONNECTING:
            connection.held.append(frame)
            continue
        xid, opcode = _HEADER.unpack_from(frame)
        stand_in = 0
        if type(frame) is Cut:
            pass
        elif opcode == _CLOSE_SESSION:
            stand_in = LOCAL_CLOSE
        elif sessions.is_read_only:
            stand_in = NOT_READ_ONLY if opcode in _REFUSED else 0
        elif makes_ephemerals(opcode, frame) or (opcode in WRITES and not sessions.may_be_local):
            if sessions.upgrades:
                sessions.upgrade(connection)
                connection.held.append(frame)
                continue
            stand_in = 0 if opcode == _MULTI else EPHEMERAL_REFUSED
        if not stand_in:
            yield frame
            continue
        if opcode in op_counts:
            op_counts[opcode] += 1
        place(connection, xid, stand_in, frame)


def makes_ephemerals(opcode: int, frame: bytes) -> bool:
    """Whether a request asks for an ephemeral. A malformed one does not: it is refused anyway."""
    try:
        if opcode in _CREATES:
            body = decode(opcode, frame, _HEADER.size)
            return isinstance(body, Create) and body.flags in EPHEMERAL
        if opcode == _MULTI:
            for count, (kind, body, _) in enumerate(parts_of(OpCode.MULTI, frame, _HEADER.size)):
                if count > PARTS_MAX:
                    return True
                if kind in _CREATES_OF_PARTS and isinstance(body, Create) and body.flags in EPHEMERAL:
                    return True
    except (JuteError, StructError, IndexError):
        pass
    return False
