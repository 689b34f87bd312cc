"""The handshakes of a simulated member (`zab.simulator.world.links`). Strangers overhear them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from zab.member.membership.greeting import AT_ELECTION_PORT, AT_QUORUM_PORT, Purpose, party
from zab.quorum.ids import ServerId
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Secret

OVERHEARD_MAX: Final = 64
"""How many of the newest parts of handshakes the strangers of a run know."""


class Greeter:
    """The handshakes of one process."""

    def __init__(
        self, sid: ServerId, others: Sequence[ServerId], secret: Secret, rng: Random, overheard: deque[bytes]
    ) -> None:
        self._party = party(sid, [secret], is_open=False)
        self.secret_name: Final = secret.name
        self._others = others
        self._rng = rng
        self._overheard = overheard

    def dialling(self, sid: int) -> Dialling:
        return Dialling(self._party, sid, Purpose.QUORUM, self._rng.randbytes(NONCE_BYTES))

    def listening(self) -> Listening:
        return Listening(self._party, self._others, AT_QUORUM_PORT, self._rng.randbytes(NONCE_BYTES))

    def listening_for_votes(self) -> Listening:
        return Listening(self._party, self._others, AT_ELECTION_PORT, self._rng.randbytes(NONCE_BYTES))

    def overhear(self, payload: bytes) -> None:
        self._overheard.append(payload)
