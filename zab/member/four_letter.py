"""Four-letter words: what a member says about itself, in plain text, on the client port. `WORDS` is the table of them.

A word that `4lw.commands.whitelist` does not list is refused in words; by default it lists only `srvr`. Shapes are
those of ZooKeeper 3.9, so that what parses its answers parses these.

A word comes instead of a connection's first frame: read as the length of a frame it is one that no frame has.

Pure: the text is made of the member's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

import attrs

from datatree.slices import NAMES
from datatree.tree import DataTree
from zab.member.connection import ClientConnection, Clients
from zab.member.metrics import Metrics, Summary
from zab.member.processor import Processor
from zab.member.reads import ConnectionEnds, ReadState, Steps
from zab.member.sessions import Sessions
from zab.member.settings import Config
from zab.peer import Peer
from zab.states import FOLLOWING, LEADING, OBSERVING

VERSION = "3.9.5-zab, built on 2026-01-01 00:00 UTC"
"""Tools compare the number, so it is the one of the ZooKeeper whose protocol this is."""

NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"

_MODES = {LEADING: "leader", FOLLOWING: "follower", OBSERVING: "observer"}
_PEER_STATES = {
    LEADING: "leading - broadcast",
    FOLLOWING: "following - broadcast",
    OBSERVING: "observing - broadcast",
}
_READ_INTEREST = 1
_UNSIGNED = (1 << 64) - 1


Lines: TypeAlias = Iterator[str]
"""The text of an answer, line by line or in larger pieces. What is listed is what there was when its turn came."""


class Inspected(Protocol):
    """A member, as far as the words look at it."""

    config: Config
    metrics: Metrics
    clients: Clients
    peer: Peer
    sessions: Sessions
    state: ReadState
    processor: Processor
    serving: bool
    now: int
    started_at: int

    @property
    def tree(self) -> DataTree: ...


def answer(member: Inspected, word: bytes) -> Steps | None:
    """What to do for one of the words, slice by slice: at the end it raises `ConnectionEnds` with the text. None when
    it is none of them."""
    found = WORDS.get(word)
    if found is None:
        return None
    name = word.decode("ascii")
    if not member.config.allows_word(name):
        return _said((f"{name} is not executed because it is not in the whitelist.\n",))
    return _said(found.text(member) if member.serving or found.always else (NOT_SERVING,))


def _said(lines: Iterable[str]) -> Steps:
    said: list[str] = []
    for line in lines:
        said.append(line)
        if not len(said) % NAMES:
            yield
    raise ConnectionEnds("".join(said).encode())


def mode(member: Inspected) -> str:
    """leader, follower, observer or standalone."""
    return "standalone" if member.config.is_standalone else _MODES[member.peer.state]


def _ruok(_member: Inspected) -> Lines:
    """Are you OK?"""
    yield "imok"


def _isro(member: Inspected) -> Lines:
    """Are you read-only? `null` while no client is served."""
    yield "rw" if member.serving else "null"


def _envi(_member: Inspected) -> Lines:
    """The version, which some clients look for here."""
    yield f"Environment:\nzookeeper.version={VERSION}\n"


def _srvr(member: Inspected) -> Lines:
    """Version, latencies, counts, zxid, mode, number of znodes."""
    yield f"Zookeeper version: {VERSION}\n" + _numbers(member)


def _stat(member: Inspected) -> Lines:
    """As `srvr`, with a line for each connection."""
    yield f"Zookeeper version: {VERSION}\nClients:\n"
    for connection in list(member.clients.all):
        yield f" {_connection(connection)}\n"
    yield "\n" + _numbers(member)


def _numbers(member: Inspected) -> str:
    metrics = member.metrics
    latency = metrics.latency()
    text = (
        f"Latency min/avg/max: {latency.least}/{_double(latency.average)}/{latency.largest}\n"
        f"Received: {metrics.packets_received}\n"
        f"Sent: {metrics.packets_sent}\n"
        f"Connections: {len(member.clients.all)}\n"
        f"Outstanding: {member.processor.outstanding_count}\n"
        f"Zxid: {member.tree.applied:#x}\n"
        f"Mode: {mode(member)}\n"
        f"Node count: {member.tree.znode_count}\n"
    )
    if member.peer.state == LEADING and not member.config.is_standalone:
        size = metrics.proposal_size
        least, largest = (size.least, size.largest) if size.count else (-1, -1)
        text += f"Proposal sizes last/min/max: {metrics.last_proposal_size}/{least}/{largest}\n"
    return text


def _connection(connection: ClientConnection) -> str:
    interest = 0 if connection.paused else _READ_INTEREST
    return (
        f"/{connection.host}:{connection.port}[{interest:x}]"
        f"(queued={len(connection.pending)},recved={connection.received_count},sent={connection.sent_count})"
    )


def _cons(member: Inspected) -> Lines:
    """A line for each connection, with its session."""
    for connection in list(member.clients.all):
        text = _connection(connection)
        if connection.session:
            text = f"{text[:-1]},sid={connection.session & _UNSIGNED:#x},to={connection.timeout_ms})"
        yield f" {text}\n"
    yield "\n"


def _crst(member: Inspected) -> Lines:
    """Reset the connections' counts."""
    for connection in member.clients.all:
        connection.received_count = connection.sent_count = 0
    yield "Connection stats reset.\n"


def _srst(member: Inspected) -> Lines:
    """Reset the server's counts."""
    member.metrics.reset()
    yield "Server stats reset.\n"


def _wchs(member: Inspected) -> Lines:
    """How many watches there are."""
    watches = member.state.watches
    connections = watches_count = paths_count = 0
    for connection in watches.holders():
        count = watches.data_watches_count(connection)
        connections += count > 0
        watches_count += count
        yield ""
    for _ in watches.data_paths():
        paths_count += 1
        yield ""
    yield f"{connections} connections watching {paths_count} paths\nTotal watches:{watches_count}\n"


def _wchc(member: Inspected) -> Lines:
    """The watches, by connection."""
    watches = member.state.watches
    for connection in watches.holders():
        paths = watches.data_paths_of(connection)
        if paths:
            yield f"{connection.session & _UNSIGNED:#x}\n"
        for path in paths:
            yield f"\t{_text(path)}\n"
    yield "\n"


def _wchp(member: Inspected) -> Lines:
    """The watches, by path."""
    watches = member.state.watches
    for path in watches.data_paths():
        yield f"{_text(path)}\n"
        for each in watches.data_watchers(path):
            yield f"\t{each.session & _UNSIGNED:#x}\n"
    yield "\n"


def _dump(member: Inspected) -> Lines:
    """Sessions, and their ephemerals."""
    tree, tracker = member.tree, member.sessions.tracker
    yield "SessionTracker dump:\n"
    if tracker is not None:
        sets = list(tracker.sets())
        yield f"Session Sets ({len(sets)})/({sum(len(ids) for _, ids in sets)}):\n"
        for due, ids in sets:
            yield f"{len(ids)} expire in {max(0, due - member.now)} ms:\n"
            for id_ in ids:
                yield f"\t{id_ & _UNSIGNED:#x}\n"
    else:
        yield f"Global Sessions({len(tree.sessions)}):\n"
        for session, ms in list(tree.sessions.items()):
            yield f"{session & _UNSIGNED:#x}\t{ms}ms\n"
    owners = list(tree.ephemerals)
    yield f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owners)}):\n"
    for owner in owners:
        yield f"{owner & _UNSIGNED:#x}:\n"
        for path in list(tree.ephemerals.get(owner, ())):
            yield f"\t{_text(path)}\n"


def _conf(member: Inspected) -> Lines:
    """The configuration, and the ensemble."""
    config = member.config
    host_port = config.client_address
    values: dict[str, object] = {
        "clientPort": host_port[1] if host_port is not None else -1,
        "secureClientPort": config.secure_client_port or -1,
        "dataDir": f"{config.data_dir}/version-1",
        "dataLogDir": f"{config.data_log_dir}/version-1",
        "tickTime": config.tick_time_ms,
        "maxClientCnxns": config.max_client_connections,
        "minSessionTimeout": config.min_session_timeout_ms,
        "maxSessionTimeout": config.max_session_timeout_ms,
        "clientPortListenBacklog": config.client_port_backlog_count,
        "serverId": config.server_id,
    }
    own = config.own_line
    if not config.is_standalone and own is not None:
        values |= {
            "initLimit": config.init_limit_ticks,
            "syncLimit": config.sync_limit_ticks,
            "electionAlg": 3,
            "electionPort": own.election_port,
            "quorumPort": own.quorum_port,
            "peerType": 1 if config.role.value == "observer" else 0,
        }
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    yield text if config.is_standalone else f"{text}membership: \n{config.ensemble}"


def _mntr(member: Inspected) -> Lines:
    """All numbers: `zk_<name>` TAB value."""
    for name, value in numbers(member):
        yield f"zk_{name}\t{_double(value)}\n"


def numbers(member: Inspected) -> Iterator[tuple[str, str | int | float]]:
    """Everything that `mntr` and the admin server show, name and value, in their order."""
    yield "version", VERSION
    yield "server_state", mode(member)
    if not member.config.is_standalone:
        yield "peer_state", _PEER_STATES[member.peer.state]
        yield "quorum_size", len(member.config.ensemble.participants)
    yield from _gauges(member)
    if member.peer.state == LEADING:
        yield from _leader_gauges(member)
    yield from _counters(member.metrics)
    for name in ("readlatency", "updatelatency", "connection_token_deficit"):
        yield from _summary(name, getattr(member.metrics, name))


def _gauges(member: Inspected) -> Iterator[tuple[str, int | float]]:
    metrics, tree = member.metrics, member.tree
    latency = metrics.latency()
    yield "avg_latency", latency.average
    yield "max_latency", latency.largest
    yield "min_latency", latency.least
    yield "packets_received", metrics.packets_received
    yield "packets_sent", metrics.packets_sent
    yield "num_alive_connections", len(member.clients.all)
    yield "outstanding_requests", member.processor.outstanding_count
    yield "uptime", member.now - member.started_at
    yield "znode_count", tree.znode_count
    yield "watch_count", member.state.watches.total_count
    yield "ephemerals_count", sum(len(paths) for paths in tree.ephemerals.values())
    yield "approximate_data_size", tree.data_bytes + tree.path_bytes
    yield "global_sessions", len(tree.sessions)
    yield "local_sessions", 0
    yield "auth_failed_count", metrics.auth_failed_count
    yield "max_turn_us", metrics.longest_turn_ns // 1000
    throttle = member.sessions.throttle
    yield "connection_drop_probability", 0.0 if throttle is None else throttle.drop_probability
    # Full disks (`zab.disk_space`); ours.
    yield "disk_space", int(member.peer.space)
    yield "disk_reserve_given_up", int(member.peer.is_low)
    yield "writes_refused_for_room", int(member.peer.is_short)


def _leader_gauges(member: Inspected) -> Iterator[tuple[str, int]]:
    metrics, observers = member.metrics, member.config.ensemble.observers
    learners = member.peer.learners.values()
    yield "learners", len(learners)
    yield "synced_followers", sum(sid not in observers for sid in learners)
    yield "synced_observers", sum(sid in observers for sid in learners)
    yield "members_without_room", member.peer.is_low + member.peer.low_learners_count
    yield "pending_syncs", len(member.processor.syncing)
    yield "last_proposal_size", metrics.last_proposal_size
    yield "max_proposal_size", metrics.proposal_size.largest if metrics.proposal_size.count else -1
    yield "min_proposal_size", metrics.proposal_size.least if metrics.proposal_size.count else -1


def _counters(metrics: Metrics) -> Iterator[tuple[str, int]]:
    for name in metrics.counter_names():
        yield name, getattr(metrics, name)


def _summary(name: str, summary: Summary) -> Iterator[tuple[str, int | float]]:
    yield f"avg_{name}", summary.average
    yield f"min_{name}", summary.least
    yield f"max_{name}", summary.largest
    yield f"cnt_{name}", summary.count
    yield f"sum_{name}", summary.total


def _double(value: str | float) -> str:
    """As Java prints it: an average has up to four decimals, and at least one."""
    return str(round(value, 4)) if isinstance(value, float) else str(value)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def _nothing(_member: Inspected) -> Lines:
    """A word of ZooKeeper that is not built."""
    return iter(())


@attrs.frozen
class Word:
    """How a word is answered."""

    text: Callable[[Inspected], Lines]
    always: bool = False
    """Also while no client is served."""


WORDS: dict[bytes, Word] = {
    b"ruok": Word(_ruok, always=True),
    b"isro": Word(_isro, always=True),
    b"envi": Word(_envi, always=True),
    b"srvr": Word(_srvr),
    b"stat": Word(_stat),
    b"mntr": Word(_mntr),
    b"conf": Word(_conf),
    b"cons": Word(_cons),
    b"crst": Word(_crst),
    b"srst": Word(_srst),
    b"wchs": Word(_wchs),
    b"wchc": Word(_wchc),
    b"wchp": Word(_wchp),
    b"dump": Word(_dump),
    b"dirs": Word(_nothing),
    b"hash": Word(_nothing),
    b"gtmk": Word(_nothing),
    b"stmk": Word(_nothing),
}
