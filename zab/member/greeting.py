"""How members greet each other: which version they speak, and what for a connection is made.

    quorum port         QUORUM      a link from here on (`zab.message`)
                        SNAPSHOT    the sender wants a snapshot, and no link (`zab.member.snapshot_request`)
    election port       ELECTION    the votes of the one who dialled (`Notification`)

Not here: the handshake itself (`zab.wire.handshake`).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Final

from zab.features import ALL
from zab.wire.handshake import Party, Secret

VERSION_MIN: Final = 3
VERSION: Final = 3
"""Of what members say to each other. Version 3 is the first with handshakes that prove something."""


class Purpose(IntEnum):
    """What for a member dials another one."""

    QUORUM = 1
    SNAPSHOT = 2
    ELECTION = 3


AT_QUORUM_PORT: Final = frozenset({Purpose.QUORUM, Purpose.SNAPSHOT})
AT_ELECTION_PORT: Final = frozenset({Purpose.ELECTION})


def party(sid: int, secrets: Collection[Secret], *, is_open: bool) -> Party:
    """A member, as it takes part in handshakes."""
    return Party(sid, VERSION_MIN, VERSION, ALL, secrets=tuple(secrets), is_open=is_open)
