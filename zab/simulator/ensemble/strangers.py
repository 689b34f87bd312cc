"""What somebody who is no member says at a quorum port: bytes, of which the production decoders decide what they are.

    nonsense            bytes, or frames of bytes
    a wrong greeting    of another version, of a server that is none, of the member itself; half of one; a request for a
                        snapshot that nobody has
    a stolen greeting   that of another member, whose link it replaces; and then frames with a length that cannot be,
                        frames that are no message, and messages that make no sense there, with any values in them

Links have no keys yet, so whoever greets as a member and then speaks as one is one, as far as anybody can tell. So a
stranger who has stolen a greeting does not introduce itself (FOLLOWERINFO): the protocol takes nothing from a learner
that has not. Nor does it vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import attrs

from zab.ids import ServerId
from zab.member.greeting import GREETINGS
from zab.member.snapshot_request import VERSION, SnapshotRequest
from zab.message import MESSAGES, PROTOCOL_VERSION, FollowerInfo, Hello, decode, encode
from zab.wire.frames import LENGTH, frame
from zab.wire.records import MessageError

FRAMES_MAX: Final = 4
NOBODY: Final = 99
_KINDS: Final[list[Any]] = [kind for kind in MESSAGES if kind is not FollowerInfo]


def said(rng: Random, sid: ServerId, others: Sequence[ServerId]) -> bytes:
    """All that one stranger says to the member `sid`."""
    if rng.random() < 0.15:
        return rng.randbytes(rng.randrange(40))
    if rng.random() < 0.25:
        return frame(_wrong_greeting(rng, sid)) + _frames(rng)
    return frame(GREETINGS.encode(Hello(PROTOCOL_VERSION, rng.choice(others)))) + _frames(rng)


def _wrong_greeting(rng: Random, sid: ServerId) -> bytes:
    wrong: tuple[Hello | SnapshotRequest, ...] = (
        Hello(PROTOCOL_VERSION + 1, sid),
        Hello(PROTOCOL_VERSION, ServerId(NOBODY)),
        Hello(PROTOCOL_VERSION, sid),
        SnapshotRequest(VERSION, NOBODY, rng.randbytes(16), rng.getrandbits(40), rng.randbytes(16), 0),
    )
    greeting = GREETINGS.encode(rng.choice(wrong))
    return greeting[: rng.randrange(len(greeting))] if rng.random() < 0.3 else greeting


def _frames(rng: Random) -> bytes:
    return b"".join(_frame(rng) for _ in range(rng.randrange(FRAMES_MAX)))


def _frame(rng: Random) -> bytes:
    choice = rng.randrange(6)
    if choice == 0:
        return LENGTH.pack(rng.choice((-1, -(1 << 31), (1 << 31) - 1))) + rng.randbytes(8)
    if choice == 1:
        return frame(rng.randbytes(rng.randrange(64)))
    payload = bytearray(encode(_message(rng)))
    if choice == 2:
        at = rng.randrange(len(payload))
        payload[at] ^= 1 << rng.randrange(8)
        if _introduces(bytes(payload)):
            payload.clear()
    return frame(bytes(payload))


def _introduces(payload: bytes) -> bool:
    try:
        return isinstance(decode(payload), FollowerInfo)
    except MessageError:
        return False


def _message(rng: Random) -> Any:
    """Any message but an introduction, with values that its decoder lets through."""
    kind = rng.choice(_KINDS)
    values: list[Any] = []
    for field in attrs.fields(kind):
        possible = [value for value in _values(rng) if field.metadata["check"](value)]
        values.append(rng.choice(possible))
    return kind(*values)


def _values(rng: Random) -> list[object]:
    zxid = rng.randrange(1, 8) << 32 | rng.randrange(64)
    numbers = [0, 1, rng.randrange(8), zxid, rng.getrandbits(62)]
    rows = [[], [rng.randbytes(20)], [[rng.getrandbits(40), 1000]], [[[], [rng.randbytes(40)]]]]
    return [*numbers, True, False, b"", rng.randbytes(16), rng.randbytes(30), "a stranger's reason", *rows]
