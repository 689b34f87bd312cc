"""Whether another server knows a session."""

from __future__ import annotations

from tests.conformance.wire import Wire, connect_request
from tests.rigs.zookeeper_server import ZooKeeperMember

EPHEMERAL, EPHEMERAL_SEQUENTIAL = 1, 3


def reattached(member: ZooKeeperMember, wire: Wire) -> tuple[int, bool]:
    """The timeout that the session has there, 0 if it is over; whether it is the same one."""
    with Wire(member.client_port, greet=False) as other:
        _, timeout_ms, _, _ = other.greet(connect_request(session=wire.session, password=wire.password))
        return timeout_ms, other.session == wire.session
