"""Watch events: what a transaction has changed, told to every connection that watches it and may read it.

They go out before the reply of the transaction (A1 output order), in slices, since ten thousand may watch one znode (H5
slices). Where an answer is being made of an older state they wait for it.

Not here: who watches what (`datatree.watches`), and when this is done (`processor`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from datatree.acl import READ, AclList, permits
from datatree.outcome import NODE_CHILDREN_CHANGED, NODE_CREATED, NODE_DATA_CHANGED, NODE_DELETED, Trigger
from datatree.slices import TOLD
from zab.jute.replies import notification
from zab.member.connection import ClientConnection
from zab.member.reads import ReadState


def notify(state: ReadState, triggers: Iterable[Trigger], zxid: int) -> Iterator[None]:
    """Tell all whom they concern. It yields after each slice."""

    def may_read(connection: ClientConnection, acl: AclList) -> bool:
        return state.config.skip_acl or permits(acl, READ, connection.identities)

    count = 0
    for trigger in triggers:
        count += 1
        frame, told_count = b"", 0
        for connection, kind, path in state.watches.trigger(trigger, may_read):
            frame = frame or notification(kind, path, zxid)
            if connection.answering_zxid:
                _tell_later(state, connection, frame)
            else:
                state.clients.send(connection, frame)
            told_count += 1
            count += 1
            if count >= TOLD:
                count = 0
                yield
        if told_count:
            state.metrics.watch_bytes += told_count * len(frame)
            _COUNTED[trigger[2]](state.metrics).add(told_count)
        if count >= TOLD:
            count = 0
            yield


_COUNTED: Final = {
    NODE_CREATED: attrgetter("node_created_watch_count"),
    NODE_DELETED: attrgetter("node_deleted_watch_count"),
    NODE_DATA_CHANGED: attrgetter("node_changed_watch_count"),
    NODE_CHILDREN_CHANGED: attrgetter("node_children_watch_count"),
}


def _tell_later(state: ReadState, connection: ClientConnection, frame: bytes) -> None:
    """The answer that is being made tells an older state: what happened after that waits for it."""
    connection.later.append(frame)
    connection.later_bytes += len(frame)
    if connection.later_bytes > state.config.output_limit_bytes:
        state.clients.close(connection)
