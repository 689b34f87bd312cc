"""How members greet each other: their versions, and the purpose of a connection.

    quorum port         QUORUM      a link from here on (`zab.protocol.message`)
                        SNAPSHOT    the sender wants a snapshot instead of a link
                        (`zab.member.storage.snapshot_request`)
    election port       ELECTION    the votes of the one who dialled (`Notification`)

A member's life is from the start of its process to the end. It has a name, with which all of its nonces begin: so
a server that has two connections with one server knows whether the same process is at the other end of both.

Not here: the handshake itself (`zab.wire.handshake`).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Final

from zab.protocol.features import ALL, LIVES
from zab.wire.handshake import Party, Purposes, Secret

VERSION_MIN: Final = 3
VERSION: Final = 3
"""The version of the protocol between members. Version 3 is the first with handshakes that prove something."""

LIFE_BYTES: Final = 16
"""The length of the name of a life; the rest of a nonce is new each time."""


class Purpose(IntEnum):
    """What for a member dials another one."""

    QUORUM = 1
    SNAPSHOT = 2
    ELECTION = 3


AT_QUORUM_PORT: Final = frozenset({Purpose.QUORUM, Purpose.SNAPSHOT})
AT_ELECTION_PORT: Final = frozenset({Purpose.ELECTION})
PURPOSES: Final = Purposes(Purpose.QUORUM, AT_QUORUM_PORT, LIFE_BYTES)


def party(sid: int, secrets: Collection[Secret], *, is_open: bool) -> Party:
    """A member, as it takes part in handshakes."""
    return Party(sid, VERSION_MIN, VERSION, ALL, secrets=tuple(secrets), is_open=is_open)


def life_of(nonce: bytes, features: int) -> bytes:
    """The life (process) that the nonce belongs to; empty if the version has none."""
    return nonce[:LIFE_BYTES] if features & LIVES else b""
