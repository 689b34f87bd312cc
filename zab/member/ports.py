"""What a turn needs of the world around its member: ports, which the server, the simulator and the tests implement.

None of them waits. What takes time is begun here and answered later: an answer is one of the next turns' inputs.

A port with nothing to do is not called: it says so in plain attributes, which cost a turn nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from datatree.log.zxid import Zxid
from zab.member.clients.audit import Record
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
from zab.service.spans import Span


class Clock(Protocol):
    """The two clocks, and what turns cost."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment; never falls."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def processor_ns(self) -> int:
        """Nanoseconds of processor time that the thread of the turns has had; where nobody counts it, 0."""
        ...


class Links(Protocol):
    """The quorum links. A link is a number that is never reused."""

    has_news: bool
    """`receive` has something to do; after a turn: in the next one, at once."""
    has_unsent: bool
    """`flush` has something to do."""
    has_knocks: bool
    """`accept` has something to do."""

    def receive(self, inputs: list[Input]) -> None:
        """Append what happened on all links since the last turn, in the order of arrival on each."""
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
        """The same, for the links that this member dialled to a server."""
        ...

    def unsent_bytes(self, link: Link) -> int:
        """How much waits on a link; 0 when it is gone."""
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
        """Send a vote, and the configurations before it; it takes the place of one to that server that still waits."""
        ...


class Addresses(Protocol):
    """Where the servers of the ensemble are."""

    def changed(self, effect: fx.MembershipsChanged) -> None:
        """Others belong to it than before: reach them."""
        ...


class Clients(Protocol):
    """The connections of clients."""

    has_news: bool
    has_unsent: bool
    """`flush` has something to do beside what the member has marked."""
    has_knocks: bool

    def receive(self, inputs: list[Input], until_ns: int) -> None:
        """Append what clients sent, until the budget is used up or the monotonic clock says `until_ns`."""
        ...

    def notice_ends(self, inputs: list[Input]) -> None:
        """Append newcomers, and connections that ended with nothing said that was not read; read nobody."""
        ...

    def flush(self, dirty: Iterable[ClientConnection], now: int) -> None:
        """Send, pause, and close what the member has marked."""
        ...

    def accept(self, now: int) -> None:
        """Accept new connections."""
        ...

    def adapt_budget(self, turn_ns: int) -> None:
        """Adapt the budget to how long a turn took in which clients were read."""
        ...


class StorageQueue(Protocol):
    """The queue in front of the member's `Storage`, first in first out; its answers come with those of the tasks."""

    waits: Waits

    def put(self, effect: StorageEffect) -> None: ...

    def mark_moved(self, zxid: Zxid) -> None:
        """The high-water mark is here now: written down when the log is idle."""
        ...


class Tasks(Protocol):
    """The work done beside the turns, by tasks and threads."""

    answers: deque[Answer]
    """Those of tasks and storage since the last turn, in the order in which they came. The turn takes them."""

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        """Open a quorum link to a server; to the port where it is a master of observers, as one of these. What comes of
        it, the links report. What is fetched from this server comes through the same port."""
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
        """Have removed what retention lets go, but not the snapshots that were offered on these links, nor the log
        after them. Answered by `SnapshotWithdrawn` for each that cannot be held any more."""
        ...


class Operator(Protocol):
    """The operator, who runs this member and reads its journal."""

    def trace(self, text: str) -> None:
        """What happened and why."""
        ...

    def warn(self, text: str) -> None:
        """Something that the operator has to see to."""
        ...

    def error(self, sentence: str, **pairs: object) -> None:
        """Something that the operator has to know."""
        ...

    def role_changed(self, effect: fx.RoleChanged) -> None: ...

    def stop(self, reason: str) -> None:
        """This member must not go on: the process ends."""
        ...


class Audit(Protocol):
    """The audit log."""

    def write(self, records: Iterable[Record]) -> None:
        """Have them written, in their order; what cannot be is counted and said."""
        ...


class Tracing(Protocol):
    """Who collects spans."""

    def export(self, spans: Sequence[Span]) -> None:
        """Tell him of these, at once or never."""
        ...


@attrs.frozen
class Ports:
    """All of them."""

    clock: Clock
    links: Links
    election: Election | None
    """None: a standalone server."""
    clients: Clients
    storage: StorageQueue
    tasks: Tasks
    operator: Operator
    audit: Audit | None = None
    """None: its configuration has none, so that nothing comes."""
    addresses: Addresses | None = None
    """None: a standalone server."""
    tracing: Tracing | None = None
    """None: its configuration has none."""
