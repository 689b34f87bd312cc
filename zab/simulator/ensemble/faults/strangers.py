"""The bytes that a process without a secret of the ensemble sends to a port of a member, in pieces.

    nonsense            random bytes, frames of random bytes, or an invalid frame length
    a wrong greeting    another version, an unknown server, a greeting to another server, or an unknown purpose
    overheard bytes     parts of handshakes of members, unchanged or changed, in any order

None of them must pass the handshake: `hear` fails the run if one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

from zab.member.membership.greeting import VERSION, Purpose
from zab.quorum.ids import ServerId
from zab.simulator.world.verdict import SafetyError
from zab.wire.frames import GREETING_BYTES_MAX, LENGTH, FrameError, FrameReader, frame
from zab.wire.handshake import NONCE_BYTES, Dialling, Listening, Party, Secret
from zab.wire.records import MessageError

PARTS_MAX: Final = 4
NOBODY: Final = 99
_PURPOSES: Final = (*Purpose, 7)


def said(rng: Random, sid: ServerId, others: Sequence[ServerId], overheard: Sequence[bytes]) -> list[bytes]:
    """The bytes that one stranger sends to the member `sid`, in pieces."""
    parts = [_part(rng, sid, others, overheard) for _ in range(rng.randrange(1, PARTS_MAX))]
    left = bytearray(b"".join(parts))
    if rng.random() < 0.3:
        del left[rng.randrange(len(left) + 1) :]
    pieces = []
    while left:
        size = rng.randrange(1, len(left) + 1)
        pieces.append(bytes(left[:size]))
        del left[:size]
    return pieces


def _part(rng: Random, sid: ServerId, others: Sequence[ServerId], overheard: Sequence[bytes]) -> bytes:
    choice = rng.randrange(8)
    if choice == 0:
        return LENGTH.pack(rng.choice((-1, -(1 << 31), (1 << 31) - 1))) + rng.randbytes(8)
    if choice == 1:
        return rng.randbytes(rng.randrange(40))
    if choice == 2:
        return frame(rng.randbytes(rng.randrange(64)))
    if choice <= 4 or not overheard:
        return frame(_greeting(rng, sid, others))
    payload = bytearray(rng.choice(overheard))
    if choice == 5:
        payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    return frame(bytes(payload))


def _greeting(rng: Random, sid: ServerId, others: Sequence[ServerId]) -> bytes:
    """A greeting like that of a member, or nearly; with other secrets."""
    me = Party(rng.choice((sid, NOBODY, *others)), VERSION, VERSION, secrets=(Secret(rng.randbytes(32)),))
    if rng.random() < 0.3:
        me = attrs.evolve(me, least_version=VERSION + 1, version=VERSION + rng.randrange(1, 3))
    if rng.random() < 0.3:
        me = attrs.evolve(me, secrets=())
    other = rng.choice((sid, sid, sid, *others))
    return Dialling(me, other, rng.choice(_PURPOSES), rng.randbytes(NONCE_BYTES)).hello()


def hear(listening: Listening, pieces: Sequence[bytes]) -> str:
    """Hand the bytes of a stranger to a handshake; returns how it ended. Raises SafetyError if it has proven
    anything."""
    frames = FrameReader(GREETING_BYTES_MAX)
    try:
        for piece in pieces:
            payload = frames.feed_one(piece)
            while payload is not None:
                if listening.has_welcomed:
                    agreed = listening.proven(payload)
                    raise SafetyError("who has no secret proves nothing", f"a stranger is server {agreed.sid}")
                listening.welcome(payload)
                payload = frames.feed_one(b"")
    except (FrameError, MessageError) as error:
        return str(error)
    return "it says no more"
