"""The first frame of a connection to a quorum port, in both directions.

    Hello               this is server so-and-so: a quorum link from here on
    SnapshotRequest     the sender wants a snapshot, and no link (`zab.member.snapshot_request`)

Not here: connections to an election port, which say only `Hello` (`zab.member.election_receiver`); who serves a
snapshot (`zab.server`).
"""

from __future__ import annotations

from collections.abc import Collection

from zab.ids import ServerId
from zab.member.snapshot_request import SnapshotRequest
from zab.message import PROTOCOL_VERSION, Hello
from zab.wire.records import Codec, MessageError

GREETINGS: Codec[Hello | SnapshotRequest] = Codec((Hello, SnapshotRequest))


def greeted(payload: bytes, others: Collection[int]) -> ServerId | SnapshotRequest:
    """Which of the other servers of the ensemble speaks, or what it wants. Raises `MessageError`."""
    first = GREETINGS.decode(payload)
    return first if isinstance(first, SnapshotRequest) else other_server(first, others)


def other_server(hello: Hello, others: Collection[int]) -> ServerId:
    """Which of these servers says that. Raises `MessageError`."""
    if hello.version != PROTOCOL_VERSION:
        raise MessageError(f"server {hello.sid} speaks version {hello.version}, not {PROTOCOL_VERSION}")
    if hello.sid not in others:
        raise MessageError(f"server {hello.sid} is no other server of this ensemble")
    return hello.sid
