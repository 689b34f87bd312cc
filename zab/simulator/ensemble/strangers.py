"""What somebody who is no member says at a quorum or an election port: bytes, of which the production decoders decide
what they are.

    nonsense            bytes, or frames of bytes
    a wrong greeting    of another version, of a server that is none, of the member itself; half of one; a request for a
                        snapshot that nobody has
    a stolen greeting   that of another member, whose link it replaces; and then frames with a length that cannot be,
                        frames that are no message, and messages that make no sense there, with any values in them; at
                        an election port also votes for a server that is none, and of another lineage

At an election port it says that in pieces, and falls silent anywhere.

Links have no keys yet, so whoever greets as a member and then speaks as one is one, as far as anybody can tell. So a
stranger who has stolen a greeting does not introduce itself (FOLLOWERINFO): the protocol takes nothing from a learner
that has not. Nor does it vote with the lineage of the ensemble for one of its servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import attrs

from datatree.log.zxid import Epoch, Zxid
from zab.ids import ServerId
from zab.member.greeting import GREETINGS
from zab.member.snapshot_request import VERSION, SnapshotRequest
from zab.message import MESSAGES, PROTOCOL_VERSION, FollowerInfo, Hello, Notification, decode, encode
from zab.states import BATCHES, State
from zab.wire.frames import LENGTH, frame
from zab.wire.records import MessageError

FRAMES_MAX: Final = 4
_HUGE_TYPE: Final = b"\x81\xc2\x59\x09\xc4" + bytes(range(1, 251)) * 10
"""A message whose type is a number of 6,000 digits."""
NOBODY: Final = 99
_KINDS: Final[list[Any]] = [kind for kind in MESSAGES if kind is not FollowerInfo]
_KINDS_BUT_VOTES: Final[list[Any]] = [kind for kind in _KINDS if kind is not Notification]


def said(rng: Random, sid: ServerId, others: Sequence[ServerId], kinds: Sequence[Any] = _KINDS) -> bytes:
    """All that one stranger says at the quorum port of the member `sid`, with messages of these kinds."""
    if rng.random() < 0.15:
        return rng.randbytes(rng.randrange(40))
    if rng.random() < 0.25:
        return frame(_wrong_greeting(rng, sid)) + _frames(rng, kinds)
    return frame(GREETINGS.encode(Hello(PROTOCOL_VERSION, rng.choice(others)))) + _frames(rng, kinds)


def _wrong_greeting(rng: Random, sid: ServerId) -> bytes:
    wrong: tuple[Hello | SnapshotRequest, ...] = (
        Hello(PROTOCOL_VERSION + 1, sid),
        Hello(PROTOCOL_VERSION, ServerId(NOBODY)),
        Hello(PROTOCOL_VERSION, sid),
        SnapshotRequest(VERSION, NOBODY, rng.randbytes(16), rng.getrandbits(40), rng.randbytes(16), 0),
    )
    greeting = GREETINGS.encode(rng.choice(wrong))
    return greeting[: rng.randrange(len(greeting))] if rng.random() < 0.3 else greeting


def voted(rng: Random, sid: ServerId, others: Sequence[ServerId]) -> list[bytes]:
    """All that one stranger says at the election port of the member `sid`, in the pieces in which it arrives."""
    said_there = bytearray(said(rng, sid, others, _KINDS_BUT_VOTES))
    for _ in range(rng.randrange(FRAMES_MAX)):
        vote = bytearray(encode(_vote(rng, sid, others)))
        if rng.random() < 0.3:
            vote[rng.randrange(len(vote))] = rng.randrange(256)
            if _is_a(Notification, bytes(vote)):
                vote.clear()
        said_there += frame(bytes(vote) if rng.random() < 0.9 else _HUGE_TYPE)
    if rng.random() < 0.3:
        del said_there[rng.randrange(len(said_there) + 1) :]
    pieces = []
    while said_there:
        size = rng.randrange(1, len(said_there) + 1)
        pieces.append(bytes(said_there[:size]))
        del said_there[:size]
    return pieces


def _vote(rng: Random, sid: ServerId, others: Sequence[ServerId]) -> Notification:
    return Notification(
        rng.choice(list(State)),
        rng.choice((ServerId(NOBODY), sid, *others)),
        Zxid(rng.randrange(1, 1 << 40)),
        Epoch(rng.randrange(1, 1 << 8)),
        rng.randrange(1 << 8),
        rng.randbytes(16),
        amnesiac=rng.random() < 0.2,
        holds=BATCHES,
        marked=False,
        leader_marked=False,
        doubted=rng.random() < 0.2,
    )


def _frames(rng: Random, kinds: Sequence[Any]) -> bytes:
    return b"".join(_frame(rng, kinds) for _ in range(rng.randrange(FRAMES_MAX)))


def _frame(rng: Random, kinds: Sequence[Any]) -> bytes:
    choice = rng.randrange(6)
    if choice == 0:
        return LENGTH.pack(rng.choice((-1, -(1 << 31), (1 << 31) - 1))) + rng.randbytes(8)
    if choice == 1:
        return frame(rng.randbytes(rng.randrange(64)))
    payload = bytearray(encode(_message(rng, kinds)))
    if choice == 2:
        at = rng.randrange(len(payload))
        payload[at] ^= 1 << rng.randrange(8)
        if _is_a(FollowerInfo, bytes(payload)):
            payload.clear()
    return frame(bytes(payload))


def _is_a(kind: type[Any], payload: bytes) -> bool:
    try:
        return isinstance(decode(payload), kind)
    except MessageError:
        return False


def _message(rng: Random, kinds: Sequence[Any]) -> Any:
    """A message of one of these kinds, with values that its decoder lets through."""
    kind = rng.choice(kinds)
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
