"""Watch events: notify every connection that watches a changed znode and may read it.

Events are appended to outputs before the reply of the transaction (A1 output order), in slices, since ten thousand
connections may watch one znode (H5 slices). They wait for an answer from an older state that is still being made.

One transaction may change thousands of znodes that the same thousand connections watch. So consecutive changes with the
same watchers are handled together: each watcher is looked up once for all of them, and its output gets their frames as
one piece, which all watchers share.

Not here: the watches (`datatree.watches`), when connections are notified (`processor`), and when events are sent
(`event_sending`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from operator import attrgetter
from typing import Final

from datatree.acl import READ, AclList, permits
from datatree.outcome import NODE_CHILDREN_CHANGED, NODE_CREATED, NODE_DATA_CHANGED, NODE_DELETED, Trigger
from datatree.slices import CONSUMED, PATH_BYTES, TOLD, TOLD_FOR_ONE, WATCHES
from datatree.watches import WatchTable
from zab.jute.replies import notification
from zab.member.clients.connection import ClientConnection
from zab.member.requests.read_state import ReadState


def notify(state: ReadState, triggers: Iterable[Trigger], zxid: int) -> Generator[None, None, int]:
    """Notify all watchers. Yields after each slice; returns how many watchers were notified since the last one."""

    def may_read(connection: ClientConnection, acl: AclList) -> bool:
        return state.config.access.skip_acl or permits(acl, READ, connection.identities)

    work = 0
    watchers: Iterable[ClientConnection] = ()
    frames: list[bytes] = []
    kinds: list[int] = []
    for trigger in triggers:
        work += 1 + TOLD_FOR_ONE * len(trigger[1]) // PATH_BYTES
        told = state.watches.trigger(trigger, may_read)
        if told:
            _, path, kind, _ = trigger
            if told is not watchers and frames:
                work = yield from _tell(state, watchers, frames, kinds, work)
                frames, kinds = [], []
            watchers = told
            frames.append(notification(kind, path, zxid))
            kinds.append(kind)
        if work >= TOLD or (frames and not isinstance(watchers, Mapping)):
            work = yield from _tell(state, watchers, frames, kinds, work)
            watchers, frames, kinds = (), [], []
            if work >= TOLD:
                work = 0
                yield
    if frames:
        work = yield from _tell(state, watchers, frames, kinds, work)
    return work


def _tell(
    state: ReadState, watchers: Iterable[ClientConnection], frames: list[bytes], kinds: list[int], work: int
) -> Generator[None, None, int]:
    """Send all frames to all watchers; `kinds` has the kind of change of each frame."""
    piece = frames[0] if len(frames) == 1 else b"".join(frames)
    size, more = len(piece), len(frames) - 1
    each = 1 if isinstance(watchers, Mapping) else CONSUMED
    sender = state.event_sender
    waiting = sender.waiting
    told_count = 0
    for connection in watchers:
        if connection.answering_zxid:
            _tell_later(state, connection, piece)
        elif not connection.closing:
            connection.out.append(piece)
            connection.out_bytes += size
            connection.sent_count += more
            waiting[connection] = waiting.get(connection, 0) + size
            sender.bytes += size
        told_count += 1
        work += each
        if work >= TOLD:
            work = 0
            yield
    if told_count:
        state.metrics.watch_bytes += told_count * size
        state.metrics.packets_sent += told_count * more
        for kind in kinds:
            _COUNTED[kind](state.metrics).add(told_count)
    return work


_COUNTED: Final = {
    NODE_CREATED: attrgetter("node_created_watch_count"),
    NODE_DELETED: attrgetter("node_deleted_watch_count"),
    NODE_DATA_CHANGED: attrgetter("node_changed_watch_count"),
    NODE_CHILDREN_CHANGED: attrgetter("node_children_watch_count"),
}


def forget_some(watches: WatchTable, leaving: dict[ClientConnection, None]) -> None:
    """Remove a slice of the watches of connections that are gone. Until then they have no effect, since nothing is sent
    to such a connection."""
    room = WATCHES
    while leaving and room:
        connection = next(iter(leaving))
        room -= watches.close(connection, room)
        if not watches.count(connection):
            del leaving[connection]


def _tell_later(state: ReadState, connection: ClientConnection, piece: bytes) -> None:
    """Keep events until the answer that is being made is sent, since it tells an older state."""
    connection.later.append(piece)
    connection.later_bytes += len(piece)
    if connection.later_bytes > state.config.limits.output_limit_bytes:
        state.clients.close(connection)
