"""The commands of the admin server: the answer of each, in the form of ZooKeeper's JSON. `COMMANDS` is their table.

Each is a function from the member and the parameters of the request to the answer without `command` and `error`, made
in slices: clients are served between two slices. A list has the state at the time of each slice.

    a key of ZooKeeper that has no counterpart here              the value that means so: -1, 0, an empty list
    a number that is a session                                   signed, as ZooKeeper writes it

Not here: HTTP, permissions, and `snapshot` and `restore`, which do more than report (`zab.server.admin`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from datatree.digest import DIGEST_VERSION
from datatree.slices import NAMES
from zab.configuration.dynamic import Role, ServerLine, bracketed
from zab.member.clients.connection import ClientConnection
from zab.member.membership.reconfiguring import config_in_force, in_force
from zab.member.words.figures import MemberView, connection_figures, figures, mode
from zab.member.words.four_letter import parts_of
from zab.protocol.states import BROADCAST, LEADING
from zab.service.summary import Summary
from zab.service.version import shown

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"

Parameters: TypeAlias = Mapping[str, str]
Told: TypeAlias = Generator[None, None, dict[str, Any]]


class CommandError(Exception):
    """The error text of a command."""


def _nothing(_member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {}


def _configuration(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    config = config_in_force(member.config, member.peer)
    address = config.client_address
    told: dict[str, Any] = {
        "client_port": address[1] if address is not None else -1,
        "data_dir": f"{config.storage.data_dir}/version-1",
        "data_log_dir": f"{config.storage.data_log_dir}/version-1",
        "tick_time": config.timing.tick_time_ms,
        "max_client_cnxns": config.limits.max_connections_per_address,
        "min_session_timeout": config.timing.min_session_timeout_ms,
        "max_session_timeout": config.timing.max_session_timeout_ms,
        "server_id": config.server_id,
        "client_port_listen_backlog": config.clients.backlog_count,
    }
    own = config.ensemble.servers.get(config.server_id)
    if not member.config.is_standalone and own is not None:
        told |= {
            "election_alg": 3,
            "init_limit": config.timing.init_limit_ticks,
            "sync_limit": config.timing.sync_limit_ticks,
            "election_port": own.election_port,
            "quorum_port": own.quorum_port,
            "peer_type": 1 if own.role is Role.OBSERVER else 0,
        }
    return told


def _in_slices(found: Iterable[Any]) -> Generator[None, None, list[Any]]:
    listed = []
    for each in found:
        listed.append(each)
        if not len(listed) % NAMES:
            yield
    return listed


def _connections(member: MemberView, _parameters: Parameters) -> Told:
    shown = yield from _in_slices(map(_full, list(member.clients.all)))
    return {"connections": shown, "secure_connections": []}


def _full(connection: ClientConnection) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(connection_figures(connection)).items() if value is not None}


_BRIEF: Final = ("remote_socket_address", "interest_ops", "outstanding_requests", "packets_received", "packets_sent")


def _brief(connection: ClientConnection) -> dict[str, Any]:
    shown = connection_figures(connection)
    return {name: getattr(shown, name) for name in _BRIEF}


def _connection_stat_reset(member: MemberView, _parameters: Parameters) -> Told:
    for number, connection in enumerate(list(member.clients.all)):
        connection.forget_counts()
        if not number % NAMES:
            yield
    return {}


def _dirs(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"datadir_size": member.surroundings.data_bytes, "logdir_size": member.surroundings.log_bytes}


def _dump(member: MemberView, _parameters: Parameters) -> Told:
    tracker = member.sessions.tracker
    due = {} if tracker is None else {str(when): list(map(_signed, ids)) for when, ids in tracker.sets()}
    yield
    paths = {}
    for owner in list(member.tree.ephemerals):
        listed = yield from _in_slices(map(_text, list(member.tree.ephemerals.get(owner, ()))))
        paths[str(_signed(owner))] = listed
        yield
    return {"expiry_time_to_session_ids": due, "session_id_to_ephemeral_paths": paths}


def _environment(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"zookeeper.version": shown(), **member.surroundings.properties}


def _system_properties(member: MemberView, _parameters: Parameters) -> Told:
    """Properties of the process; not of the configuration, which may have passwords."""
    yield from ()
    return dict(member.surroundings.properties)


def _get_trace_mask(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"tracemask": member.metrics.trace_mask}


def _set_trace_mask(member: MemberView, parameters: Parameters) -> Told:
    yield from ()
    try:
        mask = int(parameters["traceMask"])
        if not -(1 << 63) <= mask < 1 << 63:
            raise ValueError
    except (KeyError, ValueError):
        raise CommandError("setTraceMask requires long traceMask argument") from None
    member.metrics.trace_mask = mask
    return {"tracemask": mask}


def _hash(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {
        "digests": [
            {"zxid": f"{zxid:x}", "digest": digest, "digestVersion": DIGEST_VERSION}
            for zxid, digest in member.digests.remembered()
        ]
    }


def _initial_configuration(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"initial_configuration": "" if member.config.is_standalone else str(member.config.ensemble)}


def _is_read_only(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"read_only": member.read_only.is_on}


def _last_snapshot(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    return {"zxid": f"{member.surroundings.snapshot_zxid:x}", "timestamp": member.surroundings.snapshot_at}


def _leader(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    leader = member.peer.leader
    if member.config.is_standalone or leader is None:
        raise CommandError("server is not initialized")
    line = in_force(member.config, member.peer).servers.get(leader)
    return {
        "is_leader": member.peer.state == LEADING,
        "leader_id": leader,
        "leader_ip": "" if line is None else line.host,
    }


def _monitor(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    told: dict[str, Any] = {}
    for figure in figures(member):
        name = f"{figure.key}_{figure.name}" if figure.key else figure.name
        if isinstance(figure.value, Summary):
            told |= {f"{part}_{name}": value for part, value in parts_of(figure.value, figure.kind).items()}
        else:
            told[name] = round(figure.value, 4) if isinstance(figure.value, float) else figure.value
    return told


def _observers(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    supplying, observers = member.peer.supplying, member.peer.memberships.in_force.observers
    handlers = [] if supplying is None else [each for each in supplying.handlers.values() if each.sid in observers]
    return {
        "synced_observers": sum(each.served for each in handlers),
        "observers": [{"sid": each.sid, "last_zxid": f"{each.acked:#x}", "synced": each.served} for each in handlers],
    }


def _server_stats(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    metrics = member.metrics
    latency = metrics.latency()
    # Sizes of answers are not recorded.
    sizes = {"last_buffer_size": -1, "min_buffer_size": -1, "max_buffer_size": -1}
    told: dict[str, Any] = {
        "version": shown(),
        "read_only": member.read_only.is_on,
        "server_stats": {
            "packets_sent": metrics.packets_sent,
            "packets_received": metrics.packets_received,
            "fsync_threshold_exceed_count": metrics.fsync_threshold_exceed_count,
            "client_response_stats": sizes,
            "data_dir_size": member.surroundings.data_bytes,
            "log_dir_size": member.surroundings.log_bytes,
            "last_processed_zxid": member.tree.applied,
            "outstanding_requests": member.processor.waiting.outstanding_count,
            "server_state": mode(member),
            "avg_latency": round(latency.average, 4),
            "max_latency": latency.largest,
            "min_latency": latency.least,
            "num_alive_client_connections": len(member.clients.all),
            "uptime": member.clock.now - member.times.started_at,
            "auth_failed_count": metrics.auth_failed_count,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "provider_null": False,
        },
        "client_response": sizes,
        "node_count": member.tree.znode_count,
    }
    if member.peer.state == LEADING and not member.config.is_standalone:
        size = metrics.proposal_size
        least, largest = (size.least, size.largest) if size.count else (-1, -1)
        told["proposal_stats"] = {
            "last_buffer_size": metrics.last_proposal_size,
            "min_buffer_size": least,
            "max_buffer_size": largest,
        }
    return told


def _stats(member: MemberView, parameters: Parameters) -> Told:
    told = yield from _server_stats(member, parameters)
    told["connections"] = yield from _in_slices(map(_brief, list(member.clients.all)))
    told["secure_connections"] = []
    return told


def _stat_reset(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    member.metrics.reset()
    return {}


def _voting_view(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    if member.config.is_standalone:
        return {"current_config": {}}
    ensemble = in_force(member.config, member.peer)
    voters = [(sid, line) for sid, line in ensemble.servers.items() if sid in ensemble.participants]
    return {"current_config": {str(sid): _view(line) for sid, line in voters}}


def _view(line: ServerLine) -> dict[str, Any]:
    client = "" if line.client_host is None else f"{bracketed(line.client_host)}:{line.client_port}"
    return {
        "serverAddresses": [f"{bracketed(each.host)}:{each.quorum_port}" for each in line.addresses],
        "electionAddresses": [f"{bracketed(each.host)}:{each.election_port}" for each in line.addresses],
        "clientAddress": client,
        "learnerType": line.role.value,
    }


def _watches(member: MemberView, _parameters: Parameters) -> Told:
    watches = member.state.watches
    told = {}
    for connection in watches.holders():
        paths = yield from _in_slices(map(_text, watches.data_paths_of(connection)))
        if paths:
            told[str(_signed(connection.session))] = paths
        yield
    return {"session_id_to_watched_paths": told}


def _watches_by_path(member: MemberView, _parameters: Parameters) -> Told:
    watches = member.state.watches
    told = {}
    for number, path in enumerate(watches.data_paths()):
        told[_text(path)] = [_signed(each.session) for each in watches.data_watchers(path)]
        if not number % NAMES:
            yield
    return {"path_to_session_ids": told}


def _watch_summary(member: MemberView, _parameters: Parameters) -> Told:
    watches = member.state.watches
    counts = []
    for connection in watches.holders():
        counts.append(len(watches.data_paths_of(connection)))
        yield
    paths = yield from _in_slices(watches.data_paths())
    return {
        "num_connections": sum(count > 0 for count in counts),
        "num_paths": len(paths),
        "num_total_watches": sum(counts),
    }


def _zabstate(member: MemberView, _parameters: Parameters) -> Told:
    yield from ()
    peer = member.peer
    config = config_in_force(member.config, peer)
    own = config.ensemble.servers.get(config.server_id)
    if member.config.is_standalone or own is None:
        return {"voting": False, "zabstate": ""}
    address = config.client_address
    return {
        "myid": config.server_id,
        "is_leader": peer.state == LEADING,
        "quorum_address": f"{bracketed(own.host)}:{own.quorum_port}",
        "election_address": f"{bracketed(own.host)}:{own.election_port}",
        "client_address": "" if address is None else f"{bracketed(address[0])}:{address[1]}",
        "voting": config.server_id in config.ensemble.participants,
        "last_zxid": f"{member.applied:#x}",
        "zab_epoch": member.applied >> 32,
        "zab_counter": member.applied & 0xFFFFFFFF,
        "zabstate": "broadcast" if peer.phase is BROADCAST else peer.phase.value,
    }


def _signed(session: int) -> int:
    return session - (1 << 64) if session >> 63 else session


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")


@attrs.frozen
class Command:
    """How a command is answered."""

    tell: Callable[[MemberView, Parameters], Told]
    aliases: tuple[str, ...] = ()
    always: bool = False
    """Whether it is answered even while no client is served."""
    asks_who: bool = False
    """Whether it needs authentication, since it names znodes, sessions or clients, or changes something."""
    hidden: tuple[str, ...] = ()
    """Keys that only authenticated clients get, since they name a znode."""


COMMANDS: Final[Mapping[str, Command]] = {
    "configuration": Command(_configuration, ("conf", "config")),
    "connection_stat_reset": Command(_connection_stat_reset, ("crst",), asks_who=True),
    "connections": Command(_connections, ("cons",), asks_who=True),
    "dirs": Command(_dirs),
    "dump": Command(_dump, asks_who=True),
    "environment": Command(_environment, ("env", "envi"), always=True),
    "get_trace_mask": Command(_get_trace_mask, ("gtmk",), always=True),
    "hash": Command(_hash),
    "initial_configuration": Command(_initial_configuration, ("icfg",)),
    "is_read_only": Command(_is_read_only, ("isro",)),
    "last_snapshot": Command(_last_snapshot, ("lsnp",)),
    "leader": Command(_leader, ("lead",)),
    "monitor": Command(_monitor, ("mntr",), always=True, hidden=("sequence_numbers_parent",)),
    "observer_connection_stat_reset": Command(_nothing, ("orst",)),
    "observers": Command(_observers, ("obsr",)),
    "ruok": Command(_nothing),
    "server_stats": Command(_server_stats, ("srvr",)),
    "set_trace_mask": Command(_set_trace_mask, ("stmk",), always=True, asks_who=True),
    "stat_reset": Command(_stat_reset, ("srst",), asks_who=True),
    "stats": Command(_stats, ("stat",), asks_who=True),
    "system_properties": Command(_system_properties, ("sysp",), always=True),
    "voting_view": Command(_voting_view),
    "watch_summary": Command(_watch_summary, ("wchs",)),
    "watches": Command(_watches, ("wchc",), asks_who=True),
    "watches_by_path": Command(_watches_by_path, ("wchp",), asks_who=True),
    "zabstate": Command(_zabstate, always=True),
}
"""The commands that only report, or reset figures, by their first name."""

NAMES_OF: Final[Mapping[str, str]] = {
    alias: name for name, command in COMMANDS.items() for alias in (name, *command.aliases)
}
"""The first name of each command, by all of its names."""
