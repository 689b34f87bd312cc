"""Messages between members that say anything: every kind, each field as it should be, near to that, or extreme."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs

from datatree.opcodes import OpCode
from tests.protocol.example_messages import EXAMPLES
from tests.rigs.direct.members import Ensemble, Server
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.wire.records import MessageError

_POWERS = [1 << bits for bits in (0, 1, 31, 32, 62, 63, 64)]
NUMBERS = sorted({sign * (power + by) for power in _POWERS for by in (-1, 0, 1) for sign in (1, -1)})
BYTES = (b"", bytes(8), bytes(16), b"\xff" * 16, bytes(32))
BODIES = (b"", bytes(4), bytes(30), b"\0\0\0\2/a\0\0\0\1x" + bytes(12), b"\x7f\xff\xff\xff", b"\xff" * 12)
IDENTITIES: tuple[list[list[bytes]], ...] = ([], [[b"ip", b"127.0.0.1"]], [[b"super", b""]], [[b"", b""]] * 3)


def lie(rng: Random, ensemble: Ensemble) -> msg.Message:
    """One that can be said in this ensemble."""
    while True:
        example = rng.choice(EXAMPLES)
        fields = [_field(rng, ensemble, example, each.name) for each in attrs.fields(type(example))]
        try:
            return msg.decode(msg.encode(type(example)(*fields)))
        except (MessageError, ValueError):
            continue  # this one cannot be said


def _field(rng: Random, ensemble: Ensemble, example: msg.Message, name: str) -> Any:
    value = getattr(example, name)
    if rng.random() < 0.3:
        return value
    if isinstance(value, bool):
        return rng.random() < 0.5
    peer = rng.choice(list(ensemble.servers.values())).member.peer
    if isinstance(value, int):
        zxid, epoch = peer.history.last[0], peer.epoch
        near = (zxid - 1, zxid, zxid + 1, epoch, epoch + 1, epoch << 32, (epoch + 1) << 32, 1, 2, 3)
        return rng.choice((*NUMBERS, *near))
    if isinstance(value, bytes):
        return rng.choice((*BYTES, peer.lineage, peer.history.last[1]))
    if isinstance(value, str):
        return rng.choice(("", "x" * 200))
    assert isinstance(value, list), value
    return rng.choice(([], value, value * 2, _rows(rng, ensemble, example)))


def _rows(rng: Random, ensemble: Ensemble, example: msg.Message) -> list[Any]:
    server = rng.choice(list(ensemble.servers.values()))
    if isinstance(example, msg.Proposal):
        history = server.member.peer.history
        batches = history.after(history.base[0], 1 << 20) if history.last[0] > history.base[0] else []
        return [rng.choice(batches).raw for _ in range(2) if batches]
    sessions = [*server.member.tree.sessions, 0, -1, 1]
    if isinstance(example, msg.Ping):
        return [[rng.choice(sessions), rng.choice((-1, 0, 4000, (1 << 31) - 1))] for _ in range(3)]
    if isinstance(example, mmsg.Request):
        writes = [_write(rng, sessions) for _ in range(rng.randrange(1, 4))]
        return [[rng.choice(IDENTITIES), writes]]
    return []


def _write(rng: Random, sessions: list[int]) -> bytes:
    opcode = rng.choice((*map(int, OpCode), 0, 77, -77))
    head = mmsg.WRITE_HEAD.pack(rng.choice(sessions), rng.choice((0, 1, 2, 3, -1)), opcode)
    return head + rng.choice(BODIES)


def session_of(server: Server) -> int:
    """One that a member serves."""
    return next(iter(server.member.clients.by_session))
