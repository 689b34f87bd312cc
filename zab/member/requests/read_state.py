"""What an answer may look at (`ReadState`), and how it ends: at once, in slices (`TakesLonger`), or as the last one of
its connection (`ConnectionEnds`).

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
"""What a function of this module, or of `local`, may raise because of the bytes of the request."""


class ConnectionEnds(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer is the last one: the connection is closed once it is sent."""

    def __init__(self, last: bytes = b"") -> None:
        super().__init__(last)
        self.last = last


Steps: TypeAlias = Generator[None, None, bytes]
"""An answer in slices: it yields after each of them, and returns the frame of the reply."""


class TakesLonger(Exception):  # noqa: N818  (it is an answer, not a failure)
    """The answer takes more than one slice: these are the rest of them. It tells the state at `zxid`; 0: the one at its
    end."""

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
    """What an answer may look at."""

    config: Config
    tree: DataTree
    watches: WatchTable
    clients: Clients
    metrics: Metrics
    authentication: Authentication
    clock: TurnClock
    local_sessions: LocalSessions
    auditor: Auditor | None = None
    """None: nothing is audited."""
    spans: Spans | None = attrs.field(init=False)
    """None: nothing is traced."""
    spent: int = 0
    """Of this turn: bytes of answers, and the work that counts as such (`work`)."""
    listings: Listings = attrs.field(factory=Listings)
    event_sender: EventSender = attrs.field(init=False)

    @event_sender.default
    def _event_sender_of_config(self) -> EventSender:
        return EventSender(self.config.limits.total_output_limit_bytes // 2)

    @spans.default
    def _spans_of_config(self) -> Spans | None:
        return Spans.of(self.config.tracing.sample_ratio)

    def take_tree(self, tree: DataTree) -> None:
        """Another state takes the place of this one."""
        self.tree = tree
        self.listings.clear()

    def login_refused(
        self, connection: ClientConnection, operation: str, scheme: bytes = b"", user: bytes = b""
    ) -> None:
        """Somebody could not prove who he is; `user` is whom he named, never with what he tried to prove it."""
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
    """Beyond maxWatchesPerConnection or watchLimitBytes the connection is closed: its client cannot be told
    otherwise."""
    limits, metrics, count = state.config.requests, state.metrics, state.watches.count(connection)
    metrics.most_watches = max(metrics.most_watches, count)
    if count > limits.max_watches_per_connection or state.watches.bytes_of(connection) > limits.watch_limit_bytes:
        metrics.connections_closed_for_watches += 1
        metrics.connection_drop_count += 1
        raise ConnectionEnds


def permitted_znode(
    state: ReadState, connection: ClientConnection, path: bytes, mask: int
) -> tuple[Znode | None, ErrorCode]:
    """The znode, or why it is not to be had."""
    znode = state.tree.get(path)
    if znode is None:
        return None, ErrorCode.NONODE
    if not may(state, connection, znode, mask):
        return None, ErrorCode.NOAUTH
    return znode, ErrorCode.OK
