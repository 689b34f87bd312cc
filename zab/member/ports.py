"""The ports through which a turn reaches the world around its member; server, simulator and tests implement them.

No port waits. Work that takes time is started here and answered later: an answer is an input of a later turn.

A port with nothing to do is not called: it says so in plain attributes, which cost a turn nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import attrs

from datatree.log.zxid import Zxid
from zab.member.clients.connection import ClientConnection
from zab.member.events import Answer, Input
from zab.member.storage.events import (
    ChooseSnapshot,
    FetchTree,
    LookBackSlice,
    ReadChanges,
    StorageEffect,
    TakeSnapshot,
    Waits,
)
from zab.member.trees.events import KeepSnapshot, RebuildTree
from zab.protocol import effects as fx
from zab.protocol.message import Message
from zab.quorum.ids import Link, ServerId
from zab.service.ports import Audit, Clock, Operator, Tracing
from zab.wire.link_protocol import TakeAtOnce


class Links(Protocol):
    """The quorum links. A link is a number that is never reused."""

    has_news: bool
    """`receive` has something to do; after a turn: in the next one, at once."""
    has_unsent: bool
    """`flush` has something to do."""
    has_knocks: bool
    """`accept` has something to do."""

    def receive(self, inputs: list[Input], take_at_once: TakeAtOnce) -> None:
        """Append what happened on all links since the last turn, in the order of arrival on each. As long as there are
        no inputs, each payload is offered to `take_at_once` first."""
        ...

    def send(self, links: Iterable[Link], message: Message) -> None:
        """Queue one message on each of these links; those that are gone are skipped."""
        ...

    def close(self, link: Link, reason: str) -> None:
        """Close a link once what was queued on it is sent; nothing is reported."""
        ...

    def break_off(self, link: Link, reason: str) -> None:
        """Close a link at once, as if it had broken."""
        ...

    def break_off_dialled(self, sid: ServerId, reason: str) -> None:
        """Break off the links that this member dialled to a server."""
        ...

    def unsent_bytes(self, link: Link) -> int:
        """How many bytes wait on a link; 0 when it is gone."""
        ...

    def flush(self) -> None:
        """Send what is queued, once for each link."""
        ...

    def accept(self, now: int) -> None:
        """Accept new connections."""
        ...


class Election(Protocol):
    """The election links."""

    def send(self, effect: fx.SendNotification) -> None:
        """Send a vote, after the configurations that come with it. It replaces a vote to that server that still
        waits."""
        ...


class Addresses(Protocol):
    """Where the servers of the ensemble are."""

    def changed(self, effect: fx.MembershipsChanged) -> None:
        """Take the addresses of a changed membership."""
        ...


class Clients(Protocol):
    """The connections of clients."""

    has_news: bool
    has_unsent: bool
    """`flush` has something to do besides the connections that the member has marked."""
    has_knocks: bool

    def receive(self, inputs: list[Input], until_ns: int) -> None:
        """Append what clients sent, until the budget is used up or the monotonic clock says `until_ns`."""
        ...

    def notice_ends(self, inputs: list[Input]) -> None:
        """Append new connections, and those that ended with no unread bytes; read from none."""
        ...

    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None:
        """Send on, pause and close the connections that the member has marked."""
        ...

    def accept(self, now: int) -> None:
        """Accept new connections."""
        ...

    def adapt_budget(self, turn_ns: int) -> None:
        """Adapt the budget to the duration of a turn that read from clients."""
        ...


class StorageQueue(Protocol):
    """The queue in front of the member's `Storage`, first in first out; its answers come with those of the tasks."""

    waits: Waits

    def put(self, effect: StorageEffect) -> None: ...

    def mark_moved(self, zxid: Zxid) -> None:
        """Note the new high-water mark, which is written when the log is idle."""
        ...


class Tasks(Protocol):
    """The work done beside the turns, by tasks and threads."""

    answers: deque[Answer]
    """Answers of tasks and storage since the last turn, in the order of arrival. The turn takes them."""

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        """Open a quorum link to a server; `as_observer`: to its port for observers. The links report the outcome.
        Snapshots of this server are fetched through the same port."""
        ...

    def read_log(self, effect: fx.ReadLog) -> None: ...

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None: ...

    def offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        """Answered by `SnapshotOffered` or `NothingToOffer`."""
        ...

    def choose_snapshot(self, effect: ChooseSnapshot) -> None:
        """Answered by `SnapshotChosen`."""
        ...

    def fetch(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        """Answered by `SnapshotFetched` or `FetchFailed`, unless it is stopped before. One at a time."""
        ...

    def stop_fetching(self) -> None: ...

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        """Answered by `SnapshotTaken` or `SnapshotFailed`; afterwards a log file is preallocated."""
        ...

    def rebuild_tree(self, effect: RebuildTree) -> None:
        """Answered by `TreeRebuilt` or `RebuildFailed`."""
        ...

    def keep_snapshot(self, effect: KeepSnapshot) -> None: ...

    def look_around(self) -> None:
        """Answered by `LookedAround`."""
        ...

    def purge(self, offered: Mapping[Link, Zxid]) -> None:
        """Remove the files that retention does not need, except the snapshots that were offered on these links and the
        log after them. Answered by `SnapshotWithdrawn` for each snapshot that can no longer be held."""
        ...


@attrs.frozen
class Ports:
    """All ports of a member."""

    clock: Clock
    links: Links
    election: Election | None
    """None on a standalone server."""
    clients: Clients
    storage: StorageQueue
    tasks: Tasks
    operator: Operator
    role_changed: Callable[[fx.RoleChanged], None]
    """Told of each new role of this member."""
    audit: Audit | None = None
    """None if the audit log is off: then nothing is written to it."""
    addresses: Addresses | None = None
    """None on a standalone server."""
    tracing: Tracing | None = None
    """None if tracing is off."""
