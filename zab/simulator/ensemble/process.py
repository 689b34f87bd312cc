"""One member while its process lives: the host of `zab.member.member.Member`, as `zab.server.host` is in production.

A turn takes all that has come since the one before, lets the member take one step, and carries out the effects in their
order: messages leave, then the log gets its work, then clients are answered. A turn takes some time, in which more
gathers, so the load makes batches as it does in production.

The process may end at any effect, at any operation of its disk, or between turns: killed, or with the power of its
machine. It may be paused, as by SIGSTOP or a hypervisor: nothing of it moves, not its disk either, while the world goes
on; what arrives waits.

The peer is watched: what goes in and out of it goes to the observer as well (`ObservedPeer`), since a member keeps to
itself what the checkers have to know: what was delivered.

Not here: what outlives the process (`machine`), its links (`links`) and files (`files`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from datatree.log.transaction_log import TransactionLog
from datatree.recovery.recover import Recovered
from zab import events as ev
from zab.jute.framing import FrameReader
from zab.member.connection import ClientConnection, Closing
from zab.member.inputs import (
    ClientBytes,
    ClientClosed,
    ClientConnected,
    Input,
    LookBackSlice,
    ReadChanges,
    TakeSnapshot,
)
from zab.member.member import Member
from zab.member.restore import restored_of, settings_of
from zab.member.storage import Storage
from zab.peer import Peer
from zab.simulator.ensemble.described import described
from zab.simulator.ensemble.files import Files
from zab.simulator.ensemble.links import ElectionLinks, QuorumLinks
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.network import Network, Wire
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError

if TYPE_CHECKING:
    from zab.simulator.ensemble.client import Client
    from zab.simulator.ensemble.machine import Ensemble, Machine
    from zab.simulator.ensemble.observer import Observer

CLOSED: Final = b""
"""On a client's wire: nothing follows."""


class ObservedPeer(Peer):
    """A peer whose every step is shown to somebody, before its member acts on the effects."""

    observe: Callable[[ev.Event, list[ev.Effect]], None]

    def step(self, now: int, event: ev.Event) -> list[ev.Effect]:
        effects = super().step(now, event)
        self.observe(event, effects)
        return effects


class ClientLink:
    """The connection of one client with this process."""

    __slots__ = ("client", "connection", "inbox", "is_closed", "to_client", "to_server")

    def __init__(self, process: Process, client: Client, number: int) -> None:
        self.client = client
        self.connection = ClientConnection(number, f"10.1.0.{-client.number}", 40_000, FrameReader())
        network = process.ensemble.network
        self.to_server = Wire(network, (client.number, process.sid), lambda data: process.receive(self, data))
        self.to_client = Wire(network, (process.sid, client.number), lambda data: client.receive(self, data))
        self.inbox: deque[bytes] = deque()
        """What came while the member did not want to read."""
        self.is_closed = False
        """By the server."""


class _EndsBy:
    """Turns an exception of the disk into the end of the process."""

    def __init__(self, process: Process, kinds: tuple[type[BaseException], ...]) -> None:
        self._process = process
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, self._kinds):
            return False
        if not self._process.dead:
            self._process.say(f"{type(error).__name__}: {error}")
            self._process.machine.stop(with_power=isinstance(error, PowerLossError))
        return True


class Process:
    """See the module. Made by its machine, which has recovered what is on its disk."""

    def __init__(self, machine: Machine, recovered: Recovered, rng: Random) -> None:
        self.machine = machine
        self.ensemble: Ensemble = machine.ensemble
        self.sid = machine.sid
        self.name = str(machine.sid)
        self.config = machine.config
        self.schedule: Schedule = self.ensemble.schedule
        self.network: Network = self.ensemble.network
        self.trace: Trace = self.ensemble.trace
        self.observer: Observer = self.ensemble.observer
        self.dead = False
        self.paused_until = 0
        self.effects_left: int | None = None
        """The process ends after so many effects."""
        self._inputs: list[Input] = []
        self._turn_at: int | None = None
        self._ready_at = 0
        self._connections = 0
        self.client_links: dict[ClientConnection, ClientLink] = {}
        self.links = QuorumLinks(self)
        self.election = ElectionLinks(self, [sid for sid in self.ensemble.profile.sids if sid != self.sid])
        segment_bytes = self.config.pre_alloc_size_kib * 1024
        log = TransactionLog(machine.disk, recovered.log, segment_bytes=segment_bytes)
        self.files = Files(self, Storage(machine.disk, log, self.sid, self._report))
        self.member = Member(self.config, recovered, rng, machine.now_ms, machine.wall_ms)
        self.peer = ObservedPeer(settings_of(self.config), restored_of(recovered), rng)
        self.peer.observe = self._observe
        self.member.peer = self.peer
        self.applied_checked = self.member.applied
        """The observer has seen the tree at this batch end."""
        self.delivered: deque[int] = deque()
        """Batch ends that were delivered to the member, and that the observer has not seen applied."""

    def start(self) -> None:
        self.election.start()
        self.wake(self.schedule.now)

    def _observe(self, event: ev.Event, effects: list[ev.Effect]) -> None:
        self.observer.peer_stepped(self, event, effects)

    def _report(self, sentence: str, reason: str) -> None:
        if self.trace.sink is not None:
            self.trace.line(self.name, f"{sentence}: {reason}")

    def say(self, text: str) -> None:
        self.trace.say(self.name, text)

    # -------------------------------------------------------------------------------------------------------- time

    def later(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` then, unless the process is dead; once it goes on, if it is paused."""
        self.schedule.after(delay, self._now, action, arguments)

    def _now(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.dead:
            return
        if self.paused_until > self.schedule.now:
            self.schedule.at(self.paused_until, self._now, action, arguments)
        else:
            action(*arguments)

    def give(self, event: Input) -> None:
        """Something happened that the member is told in its next turn."""
        self._inputs.append(event)
        self.wake(self.schedule.now)

    def wake(self, time: int) -> None:
        """Take a turn at this time."""
        time = max(time, self._ready_at, self.paused_until)
        if self._turn_at is None or time < self._turn_at:
            self._turn_at = time
            self.schedule.at(time, self._turn, time)

    def pause(self, duration: int) -> None:
        self.paused_until = max(self.paused_until, self.schedule.now + duration)

    def ends_by(self, *kinds: type[BaseException]) -> _EndsBy:
        """For a piece of disk work: these exceptions end the process, and are not raised."""
        return _EndsBy(self, kinds)

    # -------------------------------------------------------------------------------------------------------- a turn

    def _turn(self, time: int) -> None:
        if self.dead or self._turn_at != time:
            return
        self._turn_at = None
        if self.paused_until > self.schedule.now:
            self.wake(self.paused_until)
            return
        inputs, self._inputs = self._inputs, []
        self.trace.mark(self.sid, len(inputs))
        if self.trace.sink is not None and inputs:
            self.trace.line(self.name, f"takes {', '.join(map(described, inputs))}")
        self._tell_unsent()
        self.observer.turn_begins(self, inputs)
        effects = self.member.step(self.machine.now_ms, self.machine.wall_ms, inputs)
        for effect in effects:
            if self.effects_left is not None:
                if not self.effects_left:
                    self.links.flush()
                    self.say("is killed between two effects")
                    self.machine.stop(with_power=False)
                    return
                self.effects_left -= 1
            carry_out = _CARRY_OUT.get(type(effect))
            if carry_out is not None:
                carry_out(self, effect)
        self.links.flush()
        self.files.start_storing()
        self._flush_clients()
        self.observer.turn_ended(self)
        self._ready_at = self.schedule.now + self.ensemble.profile.turn_us
        deadline = self.member.next_deadline()
        self.wake(self.machine.time_of(deadline))

    # -------------------------------------------------------------------------------------------------------- effects

    def _send_notification(self, effect: ev.SendNotification) -> None:
        self.election.send(effect.sid, effect.notification)

    def _connect_quorum(self, effect: ev.ConnectQuorum) -> None:
        self.links.dial(effect.sid)

    def _send(self, effect: ev.Send) -> None:
        self.links.send(effect.links, effect.message)

    def _close_link(self, effect: ev.CloseLink) -> None:
        self.links.close(effect.link, effect.reason)
        self.files.offered.pop(effect.link, None)

    def _store(self, effect: Any) -> None:
        self.files.store(effect)

    def _fetch_snapshot(self, effect: ev.FetchSnapshot) -> None:
        self.files.fetch(effect)

    def _read_log(self, effect: ev.ReadLog) -> None:
        self.files.read_log(effect)

    def _read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self.files.read_for_changes(effect)

    def _offer_snapshot(self, effect: ev.OfferSnapshot) -> None:
        self.files.offer_snapshot(effect)

    def _mark_moved(self, effect: ev.MarkMoved) -> None:
        self.files.storage.mark_moved(effect.zxid)
        self.files.nudge()

    def _take_snapshot(self, effect: TakeSnapshot) -> None:
        self.files.take_snapshot(effect)

    def _halt(self, effect: ev.Halt) -> None:
        raise SafetyError("no member halts", f"server {self.sid} must not go on: {effect.reason}")

    def _trace(self, effect: ev.Trace) -> None:
        self.say(effect.text)
        self.observer.traced(self, effect.text)

    # -------------------------------------------------------------------------------------------------------- clients

    def accept(self, client: Client) -> ClientLink:
        """A client has connected."""
        self._connections += 1
        link = ClientLink(self, client, self._connections)
        self.client_links[link.connection] = link
        self.give(ClientConnected(link.connection))
        return link

    def receive(self, link: ClientLink, data: bytes) -> None:
        """Bytes of a client, or `CLOSED`, arrive."""
        if self.dead or link.is_closed:
            return
        if link.connection.paused:
            link.inbox.append(data)
        else:
            self._pass_on(link, data)

    def _pass_on(self, link: ClientLink, data: bytes) -> None:
        if data == CLOSED:
            self.client_links.pop(link.connection, None)
            link.is_closed = True
            self.give(ClientClosed(link.connection))
        else:
            self.trace.carried(link.client.number, data)
            self.give(ClientBytes(link.connection, data))

    def _tell_unsent(self) -> None:
        for link in self.client_links.values():
            link.connection.unsent_bytes = link.to_client.queued_bytes

    def _flush_clients(self) -> None:
        for connection in list(self.member.clients.dirty):
            link = self.client_links.get(connection)
            if link is None:
                continue
            if connection.closing is not Closing.AT_ONCE and connection.out:
                data = b"".join(connection.take_output())
                self.trace.carried(self.sid, data)
                link.to_client.send(data, len(data))
                connection.unsent_bytes = link.to_client.queued_bytes
            if connection.closing:
                del self.client_links[connection]
                link.is_closed = True
                link.to_client.send(CLOSED, 1)
            elif not connection.paused:
                while link.inbox and not link.is_closed:
                    self._pass_on(link, link.inbox.popleft())

    # -------------------------------------------------------------------------------------------------------- the end

    def die(self, *, with_power: bool) -> None:
        """The process is gone. Called by its machine, which goes on with what is on the disk."""
        assert not self.dead
        self.dead = True
        rng = self.machine.rng
        silent_us = int(self.config.tick_time_ms * MS * 10 * rng.random() ** 2)
        self.links.process_died(with_power=with_power, gracefully=rng.random() < 0.5, silent_us=silent_us)
        self.election.process_died(with_power=with_power, silent_us=silent_us)
        for link in self.client_links.values():
            link.is_closed = True
            if with_power:
                link.to_client.cut()
            else:
                link.to_client.send(CLOSED, 1)
        self.client_links.clear()


_CARRY_OUT: dict[type, Callable[[Process, Any], None]] = {
    ev.SendNotification: Process._send_notification,
    ev.ConnectQuorum: Process._connect_quorum,
    ev.Send: Process._send,
    ev.CloseLink: Process._close_link,
    ev.AppendBatches: Process._store,
    ev.TruncateLog: Process._store,
    ev.ResetLog: Process._store,
    ev.SaveEpochs: Process._store,
    ev.SaveMember: Process._store,
    ev.DrainLog: Process._store,
    ev.FetchSnapshot: Process._fetch_snapshot,
    ev.ReadLog: Process._read_log,
    ev.OfferSnapshot: Process._offer_snapshot,
    ev.MarkMoved: Process._mark_moved,
    ev.Halt: Process._halt,
    ev.Trace: Process._trace,
    TakeSnapshot: Process._take_snapshot,
    ReadChanges: Process._read_for_changes,
    LookBackSlice: Process._read_for_changes,
}
"""As in `zab.server.host`."""
