"""The leader of a running ensemble, and a handshake with a member of it."""

from __future__ import annotations

import socket

from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.wire.frames import frame


def handshake(member: ZooKeeperMember, session: int = 0, password: bytes = bytes(16)) -> ConnectResponse:
    """The session of a client that disconnects without closing it."""
    with socket.create_connection(("127.0.0.1", member.client_port)) as sock:
        sock.settimeout(60)
        sock.sendall(frame(ConnectRequest(0, 40_000, session, password).encode()))
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            piece = sock.recv(1000)
            assert piece, "closed"
            data += piece
        return ConnectResponse.decode(data[4:])


def leader_of(ensemble: ZooKeeperEnsemble) -> ZooKeeperMember:
    """Links that a secret proved end with it: there is a leader once they are made again."""
    while True:
        ensemble.wait()
        leaders: list[ZooKeeperMember] = ensemble.with_mode("leader")
        if len(leaders) == 1:
            return leaders[0]
