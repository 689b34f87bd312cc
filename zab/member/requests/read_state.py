"""The state that answers use (`ReadState`), and how answers end: at once, in slices (`TakesLonger`), or as the last one
of their connection (`ConnectionEnds`).

Not here: the answers (`reads`, `child_lists`, `multi_reads`, `connection_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import TypeAlias

import attrs

from datatree.acl import OPEN, permits
from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.tree import DataTree
from datatree.watches import WatchTable
from datatree.znode import (
    Znode,
    acl_id_of,
)
from zab.member.clients.audit import Auditor
from zab.member.clients.authentication import Authentication
from zab.member.clients.connection import ClientConnection, Clients
from zab.member.requests.event_sending import EventSender
from zab.member.requests.listings import Listings
from zab.member.sessions.local_sessions import LocalSessions
from zab.member.settings.config import Config
from zab.member.state.metrics import Metrics
from zab.member.state.turn_clock import TurnClock
from zab.service.spans import Spans

BODY_AT = 8

INT = Struct(">i")

UNDECODABLE = (JuteError, StructError, IndexError)
"""Exceptions that answers raise for malformed requests."""


class ConnectionEnds(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer is the last one: the connection is closed once it is sent."""

    def __init__(self, last: bytes = b"") -> None:
        super().__init__(last)
        self.last = last


Steps: TypeAlias = Generator[None, None, bytes]
"""An answer in slices: yields after each slice, and returns the frame of the reply."""


class TakesLonger(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer takes more than one slice; `steps` are the rest. It tells the state at `zxid`; 0: at its end."""

    def __init__(self, steps: Steps, zxid: int) -> None:
        super().__init__(steps, zxid)
        self.steps = steps
        self.zxid = zxid


def begun(steps: Steps, zxid: int = 0) -> bytes:
    """The reply, if one slice was enough. Raises TakesLonger."""
    try:
        next(steps)
    except StopIteration as end:
        answered: bytes = end.value
        return answered
    raise TakesLonger(steps, zxid)


@attrs.define(eq=False)
class ReadState:
    """The state that answers use."""

    config: Config
    tree: DataTree
    watches: WatchTable
    clients: Clients
    metrics: Metrics
    authentication: Authentication
    clock: TurnClock
    local_sessions: LocalSessions
    auditor: Auditor | None = None
    """None if the audit log is off."""
    spans: Spans | None = attrs.field(init=False)
    """None if tracing is off."""
    spent: int = 0
    """Bytes of answers in this turn, including the work that counts as bytes (`work`)."""
    listings: Listings = attrs.field(factory=Listings)
    event_sender: EventSender = attrs.field(init=False)

    @event_sender.default
    def _event_sender_of_config(self) -> EventSender:
        return EventSender(self.config.limits.total_output_limit_bytes // 2)

    @spans.default
    def _spans_of_config(self) -> Spans | None:
        return Spans.of(self.config.tracing.sample_ratio)

    def take_tree(self, tree: DataTree) -> None:
        """Replace the tree."""
        self.tree = tree
        self.listings.clear()

    def login_refused(
        self, connection: ClientConnection, operation: str, scheme: bytes = b"", user: bytes = b""
    ) -> None:
        """Count and record a refused login. `user` is the name that the client sent, never its password."""
        self.metrics.auth_failed_count += 1
        if self.auditor is not None:
            self.auditor.login_refused(connection, operation, scheme, user)


Answer: TypeAlias = Callable[[ReadState, ClientConnection, int, bytes], bytes]


def may(state: ReadState, connection: ClientConnection, znode: Znode, mask: int) -> bool:
    """Whether some identity of the connection has a permission of `mask` on the znode."""
    acl_id = acl_id_of(znode)
    if acl_id == OPEN or state.config.access.skip_acl:
        return True
    return permits(state.tree.acl(znode), mask, connection.identities)


def check_watch_limit(state: ReadState, connection: ClientConnection) -> None:
    """Close the connection above maxWatchesPerConnection or watchLimitBytes: the protocol has no error for this."""
    limits, metrics, count = state.config.requests, state.metrics, state.watches.count(connection)
    metrics.most_watches = max(metrics.most_watches, count)
    if count > limits.max_watches_per_connection or state.watches.bytes_of(connection) > limits.watch_limit_bytes:
        metrics.connections_closed_for_watches += 1
        metrics.connection_drop_count += 1
        raise ConnectionEnds


def permitted_znode(
    state: ReadState, connection: ClientConnection, path: bytes, mask: int
) -> tuple[Znode | None, ErrorCode]:
    """The znode, or the error why it is not available."""
    znode = state.tree.get(path)
    if znode is None:
        return None, ErrorCode.NONODE
    if not may(state, connection, znode, mask):
        return None, ErrorCode.NOAUTH
    return znode, ErrorCode.OK
