"""Four-letter words: commands on the client port that are answered in plain text. `WORDS` is their table.

A word that `4lw.commands.whitelist` does not list is refused with a message; by default it lists only `srvr`. Answers
have the format of ZooKeeper 3.9, so that existing parsers work.

A word comes instead of a connection's first frame: read as a length, it is larger than any frame. Bytes after it are
ignored, except for the eight bytes that `stmk` needs.

Pure: the text is made from the member's figures and its surroundings, which some words have looked at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from struct import Struct
from typing import Any, Final, TypeAlias

import attrs

from datatree.slices import NAMES
from session.identity import SessionId
from zab.member.clients.connection import ClientConnection, Stage
from zab.member.membership.reconfiguring import config_in_force
from zab.member.requests.read_state import ConnectionEnds, Steps
from zab.member.state.outbox import Outbox
from zab.member.state.waiting import why_not_serving
from zab.member.words.events import LookAround, LookedAround
from zab.member.words.figures import UNSIGNED, MemberView, connection_figures, figures, mode
from zab.protocol.states import LEADING
from zab.service.figure import Kind
from zab.service.summary import Summary
from zab.service.version import shown
from zab.wire.visible import in_line

NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"

QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""The names of quantiles in `mntr`."""

_STMK: Final = b"stmk"
_MASK: Final = Struct(">q")

_PATHS_A_LINE: Final = 8
"""How many paths, collected but not shown, take as long as a line."""

Lines: TypeAlias = Iterator[str]
"""The text of an answer, line by line or in larger pieces. A list has the state at the time of each piece."""


class FourLetterWords:
    """Answers the words for one member."""

    def __init__(self, view: MemberView, outbox: Outbox[LookAround]) -> None:
        self._view = view
        self._outbox = outbox

    def on_word(self, connection: ClientConnection, word: bytes) -> bool:
        """Begin to answer the first bytes of a connection. False: they are no word."""
        found = WORDS.get(word)
        if found is None:
            return False
        rest = connection.frames.rest()[len(word) :]
        if word == _STMK and len(rest) < _MASK.size:
            return True  # the mask is still to come
        member = self._view
        member.metrics.packets_received += 1
        connection.received_count += 1
        name = word.decode("ascii")
        text = found.text
        if not member.config.allows_word(name):
            text = partial(_only, f"{name} is not executed because it is not in the whitelist.\n")
        elif not (member.serving or member.read_only.is_on or found.always):
            text = partial(_only, NOT_SERVING, f"{why_not_serving(member.peer)}\n")
        else:
            if word == _STMK:
                (member.metrics.trace_mask,) = _MASK.unpack_from(rest)
            if found.looks_around:
                connection.answering = self._said(text)
                member.clients.waiting_words.append(connection)
                if len(member.clients.waiting_words) == 1:
                    self._outbox.want(LookAround())
                return True
        member.processor.waiting.answer_in_slices(connection, self._said(text))
        return True

    def on_looked_around(self, event: LookedAround) -> None:
        """Answer the words that waited for the surroundings."""
        member = self._view = self._view.around(event.surroundings)
        for connection in member.clients.waiting_words:
            if connection.answering is not None and not connection.closing:
                member.processor.waiting.answer_in_slices(connection, connection.answering)
        member.clients.waiting_words.clear()

    def _said(self, text: Callable[[MemberView], Lines]) -> Steps:
        """The answer, in slices."""
        said: list[str] = []
        for line in text(self._view):
            said.append(line)
            if not len(said) % NAMES:
                yield
        raise ConnectionEnds("".join(said).encode())


def _only(*lines_and_member: Any) -> Lines:
    """These lines, for any member."""
    yield from lines_and_member[:-1]


def _ruok(_member: MemberView) -> Lines:
    """`imok`, the answer to "are you OK?"."""
    yield "imok"


def _isro(member: MemberView) -> Lines:
    """Whether the member is read-only; `null` while no client is served."""
    yield "ro" if member.read_only.is_on else "rw" if member.takes_clients else "null"


def _envi(member: MemberView) -> Lines:
    """The version, which some clients look for here, and properties of the machine."""
    yield f"Environment:\nzookeeper.version={shown()}\n"
    for name, value in member.surroundings.properties.items():
        yield f"{name}={value}\n"


def _dirs(member: MemberView) -> Lines:
    """The sizes of the two directories."""
    yield f"datadir_size: {member.surroundings.data_bytes}\nlogdir_size: {member.surroundings.log_bytes}\n"


def _hash(member: MemberView) -> Lines:
    """The digests of the tree at the last batch ends."""
    for zxid, digest in member.digests.remembered():
        yield f"{zxid:x}: {digest}\n"


def _mask(member: MemberView) -> Lines:
    """The trace mask, which has no effect."""
    yield str(member.metrics.trace_mask)


def _srvr(member: MemberView) -> Lines:
    """Version, latencies, counts, zxid, mode, number of znodes; in read-only mode also the reason."""
    yield _version(member) + _numbers(member)
    if member.read_only.is_on:
        yield f"{why_not_serving(member.peer, reads=True)}\n"


def _stat(member: MemberView) -> Lines:
    """The lines of `srvr`, and a line for each connection."""
    yield f"{_version(member)}Clients:\n"
    for connection in list(member.clients.all):
        yield f" {_brief(connection)})\n"
    yield "\n" + _numbers(member)


def _version(member: MemberView) -> str:
    mode = "READ-ONLY mode; serving only read-only clients\n" if member.read_only.is_on else ""
    return f"Zookeeper version: {shown()}\n{mode}"


def _numbers(member: MemberView) -> str:
    metrics = member.metrics
    latency = metrics.latency()
    text = (
        f"Latency min/avg/max: {latency.least}/{_double(latency.average)}/{latency.largest}\n"
        f"Received: {metrics.packets_received}\n"
        f"Sent: {metrics.packets_sent}\n"
        f"Connections: {len(member.clients.all)}\n"
        f"Outstanding: {member.processor.waiting.outstanding_count}\n"
        f"Zxid: {member.tree.applied:#x}\n"
        f"Mode: {mode(member)}\n"
        f"Node count: {member.tree.znode_count}\n"
    )
    if member.peer.state == LEADING and not member.config.is_standalone:
        size = metrics.proposal_size
        least, largest = (size.least, size.largest) if size.count else (-1, -1)
        text += f"Proposal sizes last/min/max: {metrics.last_proposal_size}/{least}/{largest}\n"
    return text


def _brief(connection: ClientConnection) -> str:
    shown = connection_figures(connection)
    return (
        f"/{shown.remote_socket_address}[{shown.interest_ops:x}](queued={shown.outstanding_requests},"
        f"recved={shown.packets_received},sent={shown.packets_sent}"
    )


def _cons(member: MemberView) -> Lines:
    """A line for each connection, with its session and its last operation."""
    for connection in list(member.clients.all):
        text = _brief(connection)
        shown = connection_figures(connection)
        if shown.session_id is not None and shown.last_cxid is not None and shown.last_zxid is not None:
            cxid = f"lcxid={shown.last_cxid:#x}," if shown.last_cxid >= 0 else ""
            text += (
                f",sid={shown.session_id & UNSIGNED:#x},lop={shown.last_operation},est={shown.established},"
                f"to={shown.session_timeout},{cxid}lzxid={shown.last_zxid & UNSIGNED:#x},"
                f"lresp={shown.last_response_time},llat={shown.last_latency},minlat={shown.min_latency},"
                f"avglat={shown.avg_latency},maxlat={shown.max_latency}"
            )
        yield f" {text})\n"
    yield "\n"


def _crst(member: MemberView) -> Lines:
    """Reset the connections' counts."""
    for connection in member.clients.all:
        connection.forget_counts()
    yield "Connection stats reset.\n"


def _srst(member: MemberView) -> Lines:
    """Reset the server's counts."""
    member.metrics.reset()
    yield "Server stats reset.\n"


def _wchs(member: MemberView) -> Lines:
    """The number of data watches. A path that a connection watches in several ways counts once."""
    watches = member.state.watches
    connections = watches_count = paths_count = 0
    for connection in watches.holders():
        count = len(watches.data_paths_of(connection))
        connections += count > 0
        watches_count += count
        yield from [""] * (1 + count // _PATHS_A_LINE)
    for _ in watches.data_paths():
        paths_count += 1
        yield ""
    yield f"{connections} connections watching {paths_count} paths\nTotal watches:{watches_count}\n"


def _wchc(member: MemberView) -> Lines:
    """The watches, by connection."""
    watches = member.state.watches
    for connection in watches.holders():
        paths = watches.data_paths_of(connection)
        if paths:
            yield f"{connection.session & UNSIGNED:#x}\n"
        for path in paths:
            yield f"\t{_text(path)}\n"
    yield "\n"


def _wchp(member: MemberView) -> Lines:
    """The watches, by path."""
    watches = member.state.watches
    for path in watches.data_paths():
        yield f"{_text(path)}\n"
        for each in watches.data_watchers(path):
            yield f"\t{each.session & UNSIGNED:#x}\n"
    yield "\n"


def _dump(member: MemberView) -> Lines:
    """Sessions, their ephemerals, and connections."""
    tree, tracker = member.tree, member.sessions.tracker
    has_local = member.config.has_local_sessions or member.read_only.is_on
    yield "SessionTracker dump:\n"
    if has_local:
        yield "Local "
        yield from _dump_sessions(member, member.sessions.local.sets())
    if tracker is not None:
        yield "Global " if has_local else ""
        yield from _dump_sessions(member, tracker.sets())
    else:
        yield f"Global Sessions({len(tree.sessions)}):\n"
        for session, ms in list(tree.sessions.items()):
            yield f"{session & UNSIGNED:#x}\t{ms}ms\n"
    owners = list(tree.ephemerals)
    yield f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owners)}):\n"
    for owner in owners:
        yield f"{owner & UNSIGNED:#x}:\n"
        for path in list(tree.ephemerals.get(owner, ())):
            yield f"\t{_text(path)}\n"
    yield from _dump_connections(member)


def _dump_sessions(member: MemberView, due: Iterable[tuple[int, list[SessionId]]]) -> Lines:
    sets = list(due)
    yield f"Session Sets ({len(sets)})/({sum(len(ids) for _, ids in sets)}):\n"
    for when, ids in sets:
        yield f"{len(ids)} expire at {date(member, when)}:\n"
        for id_ in ids:
            yield f"\t{id_ & UNSIGNED:#x}\n"


def _dump_connections(member: MemberView) -> Lines:
    due: dict[int, list[ClientConnection]] = {}
    for connection in list(member.clients.all):
        due.setdefault(silent_until(member, connection), []).append(connection)
        yield ""
    yield f"Connections dump:\nConnections Sets ({len(due)})/({sum(map(len, due.values()))}):\n"
    for when, connections in sorted(due.items()):
        yield f"{len(connections)} expire at {date(member, when)}:\n"
        for connection in connections:
            address = f"/{connection.host}:{connection.port}"
            yield f"\tip: {address} sessionId: {connection.session & UNSIGNED:#x}\n"


def silent_until(member: MemberView, connection: ClientConnection) -> int:
    """When a connection is closed if it stays silent (monotonic ms, a multiple of the tick)."""
    config = member.config
    is_served = connection.stage is Stage.SERVED
    limit_ms = connection.timeout_ms if is_served else config.sessions.sessionless_timeout_ms
    ticks = member.clock.now // config.timing.tick_time_ms + 2 - connection.idle_ticks
    return (ticks + -(-limit_ms // config.timing.tick_time_ms)) * config.timing.tick_time_ms


def date(member: MemberView, when: int) -> str:
    """A moment of the monotonic clock (ms), as Java prints a date in UTC."""
    moment = datetime.fromtimestamp((member.clock.wall + when - member.clock.now) // 1000, UTC)
    return f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment:%d %H:%M:%S} UTC {moment.year}"


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""Java's English names, for any locale."""


def _conf(member: MemberView) -> Lines:
    """The configuration, and the ensemble."""
    config = config_in_force(member.config, member.peer)
    host_port = config.client_address
    values: dict[str, object] = {
        "clientPort": host_port[1] if host_port is not None else -1,
        "secureClientPort": config.clients.secure_port or -1,
        "dataDir": f"{config.storage.data_dir}/version-1",
        "dataDirSize": member.surroundings.data_bytes,
        "dataLogDir": f"{config.storage.data_log_dir}/version-1",
        "dataLogSize": member.surroundings.log_bytes,
        "tickTime": config.timing.tick_time_ms,
        "maxClientCnxns": config.limits.max_connections_per_address,
        "minSessionTimeout": config.timing.min_session_timeout_ms,
        "maxSessionTimeout": config.timing.max_session_timeout_ms,
        "clientPortListenBacklog": config.clients.backlog_count,
        "serverId": config.server_id,
    }
    own = config.ensemble.servers.get(config.server_id)
    if not member.config.is_standalone and own is not None:
        values |= {
            "initLimit": config.timing.init_limit_ticks,
            "syncLimit": config.timing.sync_limit_ticks,
            "electionAlg": 3,
            "electionPort": own.election_port,
            "quorumPort": own.quorum_port,
            "peerType": 1 if own.role.value == "observer" else 0,
        }
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    yield text if member.config.is_standalone else f"{text}membership: \n{config.ensemble}"


def _mntr(member: MemberView) -> Lines:
    """All figures: `zk_<name>` TAB value."""
    for figure in figures(member):
        key = f"{figure.key}_" if figure.key else ""
        if isinstance(figure.value, Summary):
            for part, value in parts_of(figure.value, figure.kind).items():
                yield f"zk_{part}_{key}{figure.name}\t{_double(value)}\n"
        else:
            yield f"zk_{key}{figure.name}\t{_double(figure.value)}\n"


def parts_of(summary: Summary, kind: Kind) -> dict[str, int | float]:
    """The shown parts of a summary, in ZooKeeper's order."""
    parts: dict[str, int | float] = {
        "avg": round(summary.average, 4),
        "min": summary.least,
        "max": summary.largest,
        "cnt": summary.count,
        "sum": summary.total,
    }
    if kind is Kind.ADVANCED:
        parts |= zip(QUANTILES, summary.quantiles(*QUANTILES.values()), strict=True)
    return parts


def _double(value: str | float) -> str:
    """A number as Java prints it: an average has one to four decimals."""
    return str(round(value, 4)) if isinstance(value, float) else str(value)


def _text(path: bytes) -> str:
    """A path that cannot end a line or control a terminal."""
    return in_line(path.decode("utf-8", "replace"))


@attrs.frozen
class Word:
    """A word and its answer."""

    text: Callable[[MemberView], Lines]
    always: bool = False
    """Also while no client is served."""
    looks_around: bool = False
    """Whether the answer needs the member's surroundings."""


WORDS: dict[bytes, Word] = {
    b"ruok": Word(_ruok, always=True),
    b"isro": Word(_isro, always=True),
    b"envi": Word(_envi, always=True, looks_around=True),
    b"srvr": Word(_srvr),
    b"stat": Word(_stat),
    b"mntr": Word(_mntr, looks_around=True),
    b"conf": Word(_conf, looks_around=True),
    b"cons": Word(_cons),
    b"crst": Word(_crst),
    b"srst": Word(_srst),
    b"wchs": Word(_wchs),
    b"wchc": Word(_wchc),
    b"wchp": Word(_wchp),
    b"dump": Word(_dump),
    b"dirs": Word(_dirs, looks_around=True),
    b"hash": Word(_hash),
    b"gtmk": Word(_mask, always=True),
    b"stmk": Word(_mask, always=True),
}
