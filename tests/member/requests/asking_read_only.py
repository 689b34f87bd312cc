"""Sessions that ask a server without a quorum."""

import pytest

from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.jute.handshake import ConnectRequest
from zab.wire.frames import frame

LINES = {"readonlymode__enabled": "true", "4lw__commands__whitelist": "*"}


def asking(ensemble: Ensemble, server: Server, *, read_only: bool = True, **wishes: object) -> Client:
    """A client that has asked for a session, one that may be read-only unless said otherwise."""
    client = ensemble.client(server)
    wanted = {"last_zxid": 0, "timeout_ms": 10_000, "session_id": 0, "password": bytes(16), **wishes}
    client.say(frame(ConnectRequest(**wanted, read_only=read_only).encode()))
    ensemble.settle()
    return client


@pytest.fixture
def ensemble() -> Ensemble:
    ensemble = Ensemble(3, **LINES)
    client = ensemble.session(ensemble.follower)
    assert ensemble.do(client, client.create(b"/a", b"kept")) == [(1, 0, b"/a")]
    return ensemble
