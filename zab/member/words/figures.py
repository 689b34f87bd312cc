"""The figures of a member: what it says about itself in numbers. `mntr`, `/commands/monitor` and Prometheus show these.

    figures(member)         all of them, in their order
    connection_figures      of one connection: `cons`, `/commands/connections`
    marks                   how far the log is: committed, durable, applied; on a leader, each learner's

The names are ZooKeeper's, without the prefix `zk_`, where ZooKeeper has such a number; what it has of machinery that is
not there is left out. A value of a set has a key beside its name: a member.

Pure. What only the process around the member knows are its `Surroundings`, which were looked at before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from datatree.opcodes import OpCode
from datatree.tree import DataTree
from session.identity import NO_SESSION
from zab.member.clients.connection import ClientConnection, Clients, Stage
from zab.member.membership.reconfiguring import in_force
from zab.member.requests.applying import Applier
from zab.member.requests.processor import Processor
from zab.member.requests.read_only import ReadOnlyMode
from zab.member.requests.read_state import ReadState
from zab.member.requests.serving import Serving
from zab.member.sessions.sessions import Sessions
from zab.member.settings.config import Config
from zab.member.state.digests import Digests
from zab.member.state.metrics import Metrics
from zab.member.state.sequences import nearest
from zab.member.state.state_times import Times
from zab.member.state.turn_clock import TurnClock
from zab.member.state.waiting import reason
from zab.member.words.surroundings import Surroundings
from zab.protocol.peer import Peer
from zab.protocol.states import BROADCAST, FOLLOWING, LEADING, LOOKING, OBSERVING
from zab.service.figure import Figure, Kind
from zab.service.version import shown

UNSIGNED: Final = (1 << 64) - 1

_MODES = {LEADING: "leader", FOLLOWING: "follower", OBSERVING: "observer", LOOKING: "looking"}
_ROLES = {LEADING: "leading", FOLLOWING: "following", OBSERVING: "observing", LOOKING: "looking"}
_READ_INTEREST = 1


@attrs.frozen(eq=False)
class MemberView:
    """What others may look at of a member, and what was around its process when they began to look."""

    config: Config
    metrics: Metrics
    clients: Clients
    peer: Peer
    sessions: Sessions
    state: ReadState
    processor: Processor
    applier: Applier
    service: Serving
    times: Times
    surroundings: Surroundings = attrs.Factory(Surroundings)

    def around(self, surroundings: Surroundings) -> MemberView:
        """This view with other surroundings."""
        return attrs.evolve(self, surroundings=surroundings)

    @property
    def clock(self) -> TurnClock:
        return self.state.clock

    @property
    def tree(self) -> DataTree:
        return self.state.tree

    @property
    def digests(self) -> Digests:
        return self.applier.digests

    @property
    def applied(self) -> int:
        return self.applier.applied

    @property
    def is_between_states(self) -> bool:
        return self.applier.is_between_states

    @property
    def serving(self) -> bool:
        return self.service.is_on

    @property
    def takes_clients(self) -> bool:
        return self.service.takes_clients

    @property
    def read_only(self) -> ReadOnlyMode:
        return self.service.read_only


def mode(member: MemberView) -> str:
    """leader, follower, observer or standalone; looking, or read-only, while there is no leader."""
    if member.read_only.is_on:
        return "read-only"
    return "standalone" if member.config.is_standalone else _MODES[member.peer.state]


def peer_state(member: MemberView) -> str:
    """The state in ZooKeeper's spelling: `leading - broadcast`."""
    if member.peer.state == LOOKING:
        return "looking"
    phase = "broadcast" if member.peer.phase is BROADCAST else member.peer.phase.name.lower()
    return f"{_ROLES[member.peer.state]} - {phase}"


def figures(member: MemberView) -> Iterator[Figure]:
    """All figures. Not used between two states, when the figures of the tree belong to neither."""
    yield Figure(Kind.TEXT, "version", shown())
    yield Figure(Kind.TEXT, "server_state", mode(member))
    if not member.config.is_standalone:
        yield Figure(Kind.TEXT, "peer_state", peer_state(member))
        yield Figure(Kind.TEXT, "server_id", member.config.server_id)
    if not member.serving:
        yield Figure(Kind.TEXT, "waits_for", reason(member.peer))
    if member.tree.nearing:
        yield Figure(Kind.TEXT, "sequence_numbers_parent", nearest(member.tree.nearing))
    for name, value in _gauges(member):
        yield Figure(Kind.GAUGE, name, value)
    if not member.config.is_standalone:
        yield Figure(Kind.GAUGE, "quorum_size", len(in_force(member.config, member.peer).participants))
    if member.peer.state == LEADING and not member.config.is_standalone:
        for name, value in _leader_gauges(member):
            yield Figure(Kind.GAUGE, name, value)
    elif not member.config.is_standalone:
        for name, value in _learner_gauges(member):
            yield Figure(Kind.GAUGE, name, value)
    yield from marks(member)
    metrics = member.metrics
    counted = {name: getattr(metrics, name) for name in metrics.counter_names()}
    counted["unsuccessful_handshake"] += member.surroundings.tls_handshakes_failed
    for name, count in counted.items():
        yield Figure(Kind.COUNTER, name, count)
    yield Figure(Kind.COUNTER, "tls_handshake_exceeded", member.surroundings.tls_handshakes_exceeded)
    yield Figure(Kind.COUNTER, "op_count_total", sum(metrics.op_counts.values()))
    for operation, done in operations(metrics).items():
        yield Figure(Kind.COUNTER, f"op_count_{operation}", done)
    for name in BASIC_SUMMARIES:
        yield Figure(Kind.BASIC, name, getattr(metrics, name))
    for name in ADVANCED_SUMMARIES:
        yield Figure(Kind.ADVANCED, name, getattr(metrics, name))


BASIC_SUMMARIES: Final = (
    "fsynctime",
    "snapshottime",
    "election_time",
    "unavailable_time",
    "leader_unavailable_time",
    "follower_sync_time",
    "observer_sync_time",
    "dbinittime",
    "startup_txns_loaded",
    "node_created_watch_count",
    "node_deleted_watch_count",
    "node_changed_watch_count",
    "node_children_watch_count",
    "connection_token_deficit",
)
ADVANCED_SUMMARIES: Final = ("readlatency", "updatelatency", "propagation_latency")


def _gauges(member: MemberView) -> Iterator[tuple[str, int | float]]:
    metrics, tree, surroundings = member.metrics, member.tree, member.surroundings
    latency = metrics.latency()
    yield "avg_latency", latency.average
    yield "max_latency", latency.largest
    yield "min_latency", latency.least
    yield "packets_received", metrics.packets_received
    yield "packets_sent", metrics.packets_sent
    yield "num_alive_connections", len(member.clients.all)
    yield "outstanding_requests", member.processor.waiting.outstanding_count
    yield "uptime", member.clock.now - member.times.started_at
    yield "znode_count", tree.znode_count
    yield "watch_count", member.state.watches.total_count
    yield "ephemerals_count", sum(map(len, tree.ephemerals.values()))
    yield "approximate_data_size", tree.data_bytes + tree.path_bytes
    yield "sequence_numbers_left", tree.sequence_numbers_left
    yield "global_sessions", len(tree.sessions)
    yield "local_sessions", len(member.sessions.local.timeouts)
    yield "open_file_descriptor_count", surroundings.open_descriptors
    yield "max_file_descriptor_count", surroundings.max_descriptors
    yield "outstanding_tls_handshake", surroundings.tls_handshakes
    yield "auth_failed_count", metrics.auth_failed_count
    yield "max_turn_us", metrics.longest_turn_ns // 1000
    # How near the limits are; zab only.
    yield "connection_limit", member.config.limits.max_connections
    yield "watch_limit", member.config.requests.max_watches_per_connection
    yield "most_watches", metrics.most_watches
    throttle = member.sessions.throttle
    yield "connection_drop_probability", 0.0 if throttle is None else throttle.drop_probability
    # Full disks (`zab.protocol.disk_space`); zab only.
    yield "disk_space", int(member.peer.space)
    yield "disk_reserve_given_up", int(member.peer.is_low)
    yield "writes_refused_for_room", int(member.peer.is_short)


def _leader_gauges(member: MemberView) -> Iterator[tuple[str, int]]:
    metrics, in_force = member.metrics, member.peer.memberships.in_force
    observers = in_force.observers
    learners = member.peer.learners.values()
    yield "learners", len(learners)
    yield "synced_followers", sum(sid not in observers for sid in learners)
    yield "synced_observers", sum(sid in observers for sid in learners)
    yield "synced_non_voting_followers", sum(sid not in in_force.servers for sid in learners)
    yield "members_without_room", member.peer.is_low + member.peer.low_learners_count
    yield "pending_syncs", len(member.processor.waiting.syncing)
    yield "leader_uptime", member.clock.now - member.times.served_at if member.serving else 0
    yield "last_proposal_size", metrics.last_proposal_size
    yield "max_proposal_size", metrics.proposal_size.largest if metrics.proposal_size.count else -1
    yield "min_proposal_size", metrics.proposal_size.least if metrics.proposal_size.count else -1


def _learner_gauges(member: MemberView) -> Iterator[tuple[str, int]]:
    """The gauges of observers and their masters."""
    following = member.peer.following
    if member.peer.state == OBSERVING and following is not None:
        yield "observer_master_id", following.source if following.link is not None else -1
    elif following is not None and following.mastering is not None:
        yield "synced_observers", len(member.peer.learners)


def marks(member: MemberView) -> Iterator[Figure]:
    """zab only: the zxids up to which the history is known to be committed, is on disk, and is applied; on a leader, or
    a master of observers, how many transactions each learner has not acknowledged."""
    peer = member.peer
    yield Figure(Kind.GAUGE, "committed_zxid", int(peer.committed))
    yield Figure(Kind.GAUGE, "durable_zxid", int(peer.durable))
    yield Figure(Kind.GAUGE, "applied_zxid", member.applied)
    if peer.supplying is not None:
        last = peer.supplied
        for handler in peer.supplying.handlers.values():
            lag = last - handler.acked if handler.acked >> 32 == last >> 32 else last & 0xFFFFFFFF
            yield Figure(Kind.GAUGE, "learner_lag", lag, str(handler.sid))


_OPERATIONS: Final[Mapping[str, tuple[OpCode, ...]]] = {
    "add_watch": (OpCode.ADD_WATCH,),
    "auth": (OpCode.AUTH, OpCode.SASL),
    "check": (OpCode.CHECK,),
    "check_watches": (OpCode.CHECK_WATCHES,),
    "close_session": (OpCode.CLOSE_SESSION,),
    "create": (
        *(OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL),
        OpCode.CREATE_IF_NOT_EXISTS,
    ),
    "create_session": (OpCode.CREATE_SESSION,),
    "delete": (OpCode.DELETE, OpCode.DELETE_CONTAINER, OpCode.TRY_REMOVE, OpCode.REMOVE_RECURSIVE),
    "exists": (OpCode.EXISTS,),
    "get_acl": (OpCode.GET_ACL,),
    "get_all_children_number": (OpCode.GET_ALL_CHILDREN_NUMBER,),
    "get_changes": (OpCode.GET_CHANGES,),
    "get_children": (
        *(OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2, OpCode.GET_CHILDREN_PAGE),
        *(OpCode.FILTERED_LIST, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, OpCode.LIST_RECURSIVE),
    ),
    "get_data": (OpCode.GET_DATA,),
    "get_ephemerals": (OpCode.GET_EPHEMERALS,),
    "multi": (OpCode.MULTI,),
    "multi_read": (OpCode.MULTI_READ,),
    "ping": (OpCode.PING,),
    "reconfig": (OpCode.RECONFIG,),
    "remove_watches": (OpCode.REMOVE_WATCHES,),
    "set_acl": (OpCode.SET_ACL,),
    "set_data": (OpCode.SET_DATA,),
    "set_watches": (OpCode.SET_WATCHES, OpCode.SET_WATCHES2),
    "sync": (OpCode.SYNC,),
    "who_am_i": (OpCode.WHO_AM_I,),
}
"""ZooKeeper's names of its per-operation counters, and zab's names of operations that it does not count."""


def operations(metrics: Metrics) -> dict[str, int]:
    """How many requests of each kind clients have made."""
    counts = metrics.op_counts
    return {name: sum(counts[int(opcode)] for opcode in opcodes) for name, opcodes in _OPERATIONS.items()}


def last_operation(connection: ClientConnection) -> str:
    """ZooKeeper's tag of the last answered operation; NA if there was none."""
    opcode, _, _, answered_at, _ = connection.last_answer
    return _TAGS.get(opcode, "NA") if answered_at else "NA"


_TAGS: Final[Mapping[int, str]] = {
    **dict.fromkeys(map(int, _OPERATIONS["create"]), "CREA"),
    **dict.fromkeys(map(int, _OPERATIONS["delete"]), "DELE"),
    **dict.fromkeys(map(int, _OPERATIONS["get_children"]), "GETC"),
    int(OpCode.ADD_WATCH): "ADDW",
    int(OpCode.AUTH): "AUTH",
    int(OpCode.CHECK): "CHEC",
    int(OpCode.CHECK_WATCHES): "CHKW",
    int(OpCode.CLOSE_SESSION): "CLOS",
    int(OpCode.CREATE_SESSION): "SESS",
    int(OpCode.EXISTS): "EXIS",
    int(OpCode.GET_ACL): "GETA",
    int(OpCode.GET_ALL_CHILDREN_NUMBER): "GETACN",
    int(OpCode.GET_CHANGES): "GETX",
    int(OpCode.GET_DATA): "GETD",
    int(OpCode.GET_EPHEMERALS): "GETE",
    int(OpCode.MULTI): "MULT",
    int(OpCode.MULTI_READ): "MLTR",
    int(OpCode.PING): "PING",
    int(OpCode.RECONFIG): "RECO",
    int(OpCode.REMOVE_WATCHES): "REMW",
    int(OpCode.SASL): "SASL",
    int(OpCode.SET_ACL): "SETA",
    int(OpCode.SET_DATA): "SETD",
    int(OpCode.SET_WATCHES): "SETW",
    int(OpCode.SET_WATCHES2): "STW2",
    int(OpCode.SYNC): "SYNC",
    int(OpCode.WHO_AM_I): "HOMI",
}


@attrs.frozen
class ConnectionFigures:
    """The figures of one connection, with the names of ZooKeeper's `/commands/connections`. Times are ms. Fields after
    `session_id` belong to a session, and are None without one."""

    remote_socket_address: str
    interest_ops: int
    outstanding_requests: int
    packets_received: int
    packets_sent: int
    session_id: int | None = None
    last_operation: str | None = None
    established: int | None = None
    """Wall clock."""
    session_timeout: int | None = None
    last_cxid: int | None = None
    last_zxid: int | None = None
    last_response_time: int | None = None
    """Monotonic clock."""
    last_latency: int | None = None
    min_latency: int | None = None
    avg_latency: int | None = None
    max_latency: int | None = None


def connection_figures(connection: ClientConnection) -> ConnectionFigures:
    """The figures of a connection."""
    waits = connection.paused or (connection.stage is Stage.GREETING and connection.answering is not None)
    brief = (
        f"{connection.host}:{connection.port}",
        0 if waits else _READ_INTEREST,
        len(connection.pending),
        connection.received_count,
        connection.sent_count,
    )
    if connection.session == NO_SESSION:
        return ConnectionFigures(*brief)
    _, xid, zxid, answered_at, waited_ms = connection.last_answer
    count = connection.answered_count
    return ConnectionFigures(
        *brief,
        connection.session,
        last_operation(connection),
        connection.established,
        connection.timeout_ms,
        xid,
        zxid,
        answered_at,
        waited_ms,
        connection.waited_least_ms if count else 0,
        connection.waited_ms // count if count else 0,
        connection.waited_most_ms,
    )
