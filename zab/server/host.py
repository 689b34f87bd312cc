"""The host of a member: one turn of the loop, and what becomes of each effect.

A turn, in this order (H2):

    1  quorum links are read, all of them; answers of the threads and tasks are taken
    2  clients are read, round robin, within the budget
    3  the member takes one step with all of it
    4  its effects are carried out: messages are queued, storage effects are collected
    5  everything is sent, once for each socket. With something to store: quorum links, then the log thread gets its
       work, then clients; followers write while this member does. With nothing to store: clients first
    6  whoever knocked is accepted; what was discarded is closed (by the loop)

| effect | carried out by |
|---|---|
| SendNotification | `election_links` |
| ConnectQuorum | a task that dials and hands the socket to `links` |
| Send, CloseLink | `links` |
| AppendBatches … DrainLog | `log_thread`, in order |
| FetchSnapshot | a task (`snapshot_transfer`), then `log_thread` |
| ReadLog, OfferSnapshot | a worker thread, when the link has room |
| ReadChanges, LookBackSlice | a worker thread |
| TakeSnapshot | `snapshotter`, and the log begins a new file |
| MarkMoved | `storage`, written down when the log is idle |
| Halt | `ServerFailedError`: the process ends |
| Trace, RoleChanged | the journal |

The others were the member's own and are done when they come out.

A snapshot on its way holds the place of a storage effect: one that comes behind it means that the role it was
fetched for is over, so the transfer is given up. A transfer that fails breaks the link to that leader, as if it had
gone.

Not here: opening and closing of what a server has (`server`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from zab import events as ev
from zab.host.journal import Journal
from zab.host.log_thread import LogThread, LogThreadFailed
from zab.host.loop import Loop, Posts, wall_ms
from zab.member.inputs import Input, LookBackSlice, ReadChanges, SnapshotTaken, TakeSnapshot
from zab.member.member import Member
from zab.member.storage import InstallSnapshot, RollLog, SnapshotUnusable, Storage, StorageEffect
from zab.server.client_sockets import TURN_MS, ClientSockets
from zab.server.election_links import Address, ElectionLinks
from zab.server.links import QuorumLinks
from zab.server.snapshot_transfer import Fetcher, TransferError
from zab.server.snapshotter import Snapshotter

READ_AHEAD_BYTES = 1 << 20
"""Unsent bytes on a link above which log reads for it wait."""

Spawn: TypeAlias = Callable[..., None]
"""Starts a task of the server: an async function and its arguments."""

STATE_NAMES = ("looking", "following", "leading", "observing")
UNEXPECTED_ERROR = 1

journal = Journal("host")


class ServerFailedError(Exception):
    """The server cannot go on; the process ends with this exit code, one of ZooKeeper's."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason


class Host:
    """Everything that a turn needs. Made and owned by `server.Server`."""

    def __init__(
        self,
        *,
        member: Member,
        loop: Loop,
        posts: Posts,
        links: QuorumLinks,
        clients: ClientSockets,
        storage: Storage,
        log_thread: LogThread[StorageEffect],
        snapshotter: Snapshotter,
        election: ElectionLinks | None,
        quorum_addresses: dict[int, Address],
        server_id: int,
        connect_timeout_ms: int,
        stall_ms: int,
        spawn: Spawn,
        role_changed: Callable[[ev.RoleChanged], None],
        snapshot_taken: Callable[[], None],
    ) -> None:
        """`stall_ms` is how long a snapshot transfer may make no progress."""
        self._member = member
        self._loop = loop
        self._posts = posts
        self._links = links
        self._clients = clients
        self._storage = storage
        self._log_thread = log_thread
        self._snapshotter = snapshotter
        self._election = election
        self._quorum_addresses = quorum_addresses
        self._server_id = server_id
        self._connect_timeout_ms = connect_timeout_ms
        self._stall_ms = stall_ms
        self._spawn = spawn
        self._role_changed = role_changed
        self._snapshot_taken = snapshot_taken
        self._to_store: list[StorageEffect] = []
        self._reads: list[ev.ReadLog] = []
        """Log reads that wait for room on their link."""
        self._fetching: trio.CancelScope | None = None
        self.offered: dict[int, int] = {}
        """Snapshots that learners may be fetching: link to zxid. Retention spares them."""
        self.longest_turn_ns = 0

    # ---------------------------------------------------------------------------------------------------------- a turn

    def take(self) -> bool:
        """One turn; see `loop.Turn`."""
        started_ns = time.monotonic_ns()
        now = started_ns // 1_000_000
        inputs: list[Input] = []
        self._links.receive(inputs)
        self._take_posts(inputs)
        self._clients.receive(inputs, started_ns + TURN_MS * 1_000_000)
        self._step(now, inputs)
        if self._reads:
            self._start_reads()
        self._clients.accept(now)
        self._links.accept(now)
        took_ns = time.monotonic_ns() - started_ns
        self._clients.adapt_budget(took_ns)
        if took_ns > self.longest_turn_ns:
            self.longest_turn_ns = took_ns
        return not (self._clients.is_idle and self._links.is_idle) or self._member.has_more

    def next_deadline(self) -> int:
        """See `loop.Turn`."""
        deadlines = (self._member.next_deadline(), self._clients.next_deadline(), self._links.next_deadline())
        return min(deadline for deadline in deadlines if deadline is not None)

    def _step(self, now: int, inputs: list[Input]) -> None:
        """One step of the member, and everything that it wants sent and stored."""
        member = self._member
        for effect in member.step(now, wall_ms(), inputs):
            carry_out = _CARRY_OUT.get(type(effect))
            if carry_out is not None:
                carry_out(self, effect)
        if not self._to_store:
            # Whoever waits for an answer comes first.
            self._clients.flush(member.clients.dirty, now)
            self._links.flush()
            return
        # Followers write while this member does.
        self._links.flush()
        for to_store in self._to_store:
            self._log_thread.put(to_store)
        self._to_store.clear()
        self._clients.flush(member.clients.dirty, now)

    def _take_posts(self, inputs: list[Input]) -> None:
        for item in self._posts.take():
            if isinstance(item, LogThreadFailed):
                raise ServerFailedError(UNEXPECTED_ERROR, f"the log cannot be written -> stop: {item.reason}")
            if isinstance(item, SnapshotUnusable):
                self._give_up_fetch(item.fetch, item.reason)
            elif isinstance(item, SnapshotTaken):
                inputs.append(item)
                self._snapshot_taken()
            else:
                inputs.append(item)  # type: ignore[arg-type]  # whoever posts, posts inputs

    # ---------------------------------------------------------------------------------------------------------- effects

    def _send_notification(self, effect: ev.SendNotification) -> None:
        if self._election is not None:
            self._election.send(effect.sid, effect.notification)

    def _connect_quorum(self, effect: ev.ConnectQuorum) -> None:
        self._spawn(self._dial, effect.sid)

    async def _dial(self, sid: int) -> None:
        address = self._quorum_addresses[sid]
        try:
            with trio.fail_after(self._connect_timeout_ms / 1000):
                stream = await trio.open_tcp_stream(address.host, address.port)
        except (OSError, trio.TooSlowError) as error:
            journal.info("quorum port cannot be reached", sid=sid, reason=str(error) or type(error).__name__)
            self._links.dial_failed()
        else:
            self._links.adopt_descriptor(stream.socket.detach(), sid)
        self._loop.wake()

    def _send(self, effect: ev.Send) -> None:
        self._links.send(effect.links, effect.message)

    def _close_link(self, effect: ev.CloseLink) -> None:
        self._links.close(effect.link, effect.reason)
        self.offered.pop(effect.link, None)

    def _collect(self, effect: StorageEffect) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
        self._to_store.append(effect)

    def _mark_moved(self, effect: ev.MarkMoved) -> None:
        self._storage.mark_moved(effect.zxid)
        self._log_thread.nudge()

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        self._to_store.append(RollLog())
        self._snapshotter.take(effect)
        self._snapshotter.preallocate()

    def _halt(self, effect: ev.Halt) -> None:
        raise ServerFailedError(UNEXPECTED_ERROR, f"this member must not go on: {effect.reason}")

    def _trace(self, effect: ev.Trace) -> None:
        journal.info(effect.text)

    def _on_role_changed(self, effect: ev.RoleChanged) -> None:
        state = STATE_NAMES[effect.state]
        journal.info("role", state=state, phase=effect.phase, leader=effect.leader, serving=effect.serving)
        self._role_changed(effect)

    # --------------------------------------------------------------------------------------------- reading for learners

    def _read_log(self, effect: ev.ReadLog) -> None:
        self._reads.append(effect)

    def _start_reads(self) -> None:
        """The link's room is the flow control of the transfer (H4)."""
        waiting, self._reads = self._reads, []
        for effect in waiting:
            if self._links.unsent_bytes(effect.link) > READ_AHEAD_BYTES:
                self._reads.append(effect)
            else:
                self._spawn(self._answer_read, effect)

    async def _answer_read(self, effect: ev.ReadLog) -> None:
        self._posts.put(await trio.to_thread.run_sync(self._storage.read_log, effect))

    def _read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self._spawn(self._answer_changes, effect)

    async def _answer_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self._posts.put(await trio.to_thread.run_sync(self._storage.read_for_changes, effect))

    def _offer_snapshot(self, effect: ev.OfferSnapshot) -> None:
        self._spawn(self._answer_offer, effect)

    async def _answer_offer(self, effect: ev.OfferSnapshot) -> None:
        offered = await trio.to_thread.run_sync(self._storage.offer_snapshot, effect)
        if offered is None:
            journal.error("there is no snapshot to synchronize a learner with", link=effect.link)
            self._links.break_off(effect.link, "no snapshot to synchronize it with")
            self._loop.wake()
            return
        self.offered[effect.link] = offered.zxid
        self._posts.put(offered)

    # ---------------------------------------------------------------------------------------------- fetching a snapshot

    def _fetch_snapshot(self, effect: ev.FetchSnapshot) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
        self._fetching = scope = trio.CancelScope()
        self._spawn(self._fetch, effect, scope)

    async def _fetch(self, effect: ev.FetchSnapshot, scope: trio.CancelScope) -> None:
        address = self._quorum_addresses[effect.sid]
        fetcher = Fetcher(self._storage.disk, self._server_id, effect, address, self._stall_ms / 1000)
        journal.info("snapshot is fetched", sid=effect.sid, zxid=f"{effect.zxid:#x}")
        with scope:
            try:
                await fetcher.run()
            except TransferError as error:
                if self._fetching is scope:
                    self._fetching = None
                    self._give_up_fetch(effect, str(error))
                return
        # A storage effect that came meanwhile has cancelled it and taken its place.
        if self._fetching is scope:
            self._fetching = None
            self._log_thread.put(InstallSnapshot(effect))

    def _give_up_fetch(self, effect: ev.FetchSnapshot, reason: str) -> None:
        journal.error("snapshot cannot be fetched -> leave this leader", sid=effect.sid, reason=reason)
        self._links.break_off_dialled(effect.sid, "its snapshot cannot be fetched")
        self._loop.wake()


_CARRY_OUT: dict[type, Callable[[Host, Any], None]] = {
    ev.SendNotification: Host._send_notification,
    ev.ConnectQuorum: Host._connect_quorum,
    ev.Send: Host._send,
    ev.CloseLink: Host._close_link,
    ev.AppendBatches: Host._collect,
    ev.TruncateLog: Host._collect,
    ev.ResetLog: Host._collect,
    ev.SaveEpochs: Host._collect,
    ev.SaveMember: Host._collect,
    ev.DrainLog: Host._collect,
    ev.FetchSnapshot: Host._fetch_snapshot,
    ev.ReadLog: Host._read_log,
    ev.OfferSnapshot: Host._offer_snapshot,
    ev.MarkMoved: Host._mark_moved,
    ev.Halt: Host._halt,
    ev.Trace: Host._trace,
    ev.RoleChanged: Host._on_role_changed,
    TakeSnapshot: Host._take_snapshot,
    ReadChanges: Host._read_for_changes,
    LookBackSlice: Host._read_for_changes,
}
