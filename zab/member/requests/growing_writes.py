"""Which writes need disk space: those that make the state larger (`zab.protocol.disk_space`).

Reads, deletes, checks, and the beginnings and ends of sessions go on while no quorum has room: a client that makes room
has to be able to connect, to look, and to delete.
"""

from __future__ import annotations

from typing import Final

from datatree.jute import JuteError
from datatree.opcodes import Effect, OpCode, types_with
from datatree.request_decoding import parts_of

PARTS_MAX: Final = 250
"""A longer multi counts as one that needs room, without a look at its parts."""

_GROWING: Final = types_with(Effect.CREATE, Effect.SET_DATA, Effect.SET_ACL) | {int(OpCode.CREATE_IF_NOT_EXISTS)}
_MULTI: Final = int(OpCode.MULTI)


def needs_room(opcode: int, buffer: bytes, at: int = 0) -> bool:
    """Whether a write needs room. Its body begins at `at`."""
    return opcode in _GROWING or (opcode == _MULTI and _is_any_growing(buffer, at))


def _is_any_growing(buffer: bytes, at: int) -> bool:
    try:
        for count, (opcode, _, _) in enumerate(parts_of(OpCode.MULTI, buffer, at)):
            if opcode in _GROWING or count > PARTS_MAX:
                return True
    except JuteError:
        return False  # it will be refused as malformed
    return False
