"""How members greet each other: which version they speak, and what for a connection is made.

    quorum port         QUORUM      a link from here on (`zab.protocol.message`)
                        SNAPSHOT    the sender wants a snapshot, and no link (`zab.member.storage.snapshot_request`)
    election port       ELECTION    the votes of the one who dialled (`Notification`)

A member's life is from the start of its process to the end. It has a name, with which all of its nonces begin: so
whoever has two connections with one server knows whether the same process is at the other end of both.

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
"""Of what members say to each other. Version 3 is the first with handshakes that prove something."""

LIFE_BYTES: Final = 16
"""Of the name of a life; the other half of a nonce is new each time."""


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
    """The name of the life of the one whose nonce this is. Empty: not known, of a version that has none."""
    return nonce[:LIFE_BYTES] if features & LIVES else b""
