"""The process of one member: the production code of a member and of its turn, on simulated ports.

Its inputs and effects are also shown to the judges (`ObservedPeer`, `ObservedMember`), since a member does not report
what it has delivered.

Not here: what outlives the process (`machine`), and the ports themselves (`zab.simulator.world`, `tasks`,
`election_links`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol

from datatree.log.transaction_log import TransactionLog
from datatree.recovery.holes import Hole
from datatree.recovery.recovered import Recovered
from zab.member.events import Input, MemberEffect
from zab.member.member import Member
from zab.member.ports import Ports
from zab.member.storage.storage import Storage
from zab.member.storage.threaded_storage import ThreadedStorage
from zab.member.turn import Turn
from zab.member.wire_protocols import QUORUM_PROTOCOL, client_protocol
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Restored, Settings
from zab.protocol.states import DISCOVERY, SYNCHRONIZATION
from zab.quorum.ids import Link, ServerId
from zab.service.disk_space import DiskSpace
from zab.simulator.ensemble.members.address_book import AddressBook
from zab.simulator.ensemble.members.election_links import ElectionLinks
from zab.simulator.ensemble.members.greeter import Greeter
from zab.simulator.ensemble.members.hole_filler import PAUSE_US, HoleFiller
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.ensemble.members.tasks import Tasks
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.links import Links
from zab.simulator.world.log_thread import LogThread
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS
from zab.simulator.world.sockets import ClientSockets
from zab.simulator.world.verdict import SafetyError


class Judges(Protocol):
    """The judges that watch a process."""

    def peer_stepped(self, process: MemberProcess, event: ev.Event, effects: list[fx.Effect]) -> None: ...

    def acknowledged(self, process: MemberProcess, message: msg.Message) -> None: ...

    def turn_begins(self, process: MemberProcess, inputs: Sequence[Input]) -> None: ...

    def turn_ended(self, process: MemberProcess) -> None: ...

    def traced(self, process: MemberProcess, text: str) -> None: ...

    def process_stopped(self, process: MemberProcess, *, with_power: bool) -> None: ...

    def snapshot_written(self, sid: int, zxid: int, data: bytes) -> None: ...

    def count(self, what: str, number: int = 1) -> None: ...


class ObservedPeer(Peer):
    """A peer that shows every step to an observer, before its member acts on the effects."""

    observe: Callable[[ev.Event, list[fx.Effect]], None]

    def __init__(self, settings: Settings, restored: Restored, rng: Random, *, has_short_way: bool = True) -> None:
        super().__init__(settings, restored, rng)
        self._has_short_way = has_short_way
        self.taken: list[ev.Event] = []
        """What it has taken at once since the last step of its member."""

    def step(self, now: int, event: ev.Event) -> list[fx.Effect]:
        effects = super().step(now, event)
        self.invariants()
        self.observe(event, effects)
        return effects

    def take_message(self, now: int, link: Link, payload: bytes) -> bool:
        known = len(self.effects)
        if not self._has_short_way or not super().take_message(now, link, payload):
            return False
        self._took(ev.MessageReceived(link, msg.decode(payload)), self.effects[known:])
        return True

    def take_durable(self, now: int, event: ev.Durable) -> bool:
        known = len(self.effects)
        if not self._has_short_way or not super().take_durable(now, event):
            return False
        self._took(event, self.effects[known:])
        return True

    def take_proposal(self, now: int, event: ev.Propose) -> bool:
        known = len(self.effects)
        if not self._has_short_way or not super().take_proposal(now, event):
            return False
        self.invariants()
        self.observe(event, self.effects[known:])
        return True

    def _took(self, event: ev.MessageReceived | ev.Durable, effects: list[fx.Effect]) -> None:
        self.taken.append(event)
        self.invariants()
        self.observe(event, effects)


class ObservedMember(Member):
    """A member that shows its inputs to an observer before each step."""

    peer: ObservedPeer
    observe: Callable[[Sequence[Input]], None]

    def step(self, now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        taken, self.peer.taken = self.peer.taken, []
        self.observe([*taken, *inputs])
        return super().step(now, wall, inputs)


class Operator:
    """Writes the member's reports to the trace. If a member halts, the run fails."""

    def __init__(self, process: MemberProcess) -> None:
        self._process = process

    def trace(self, text: str) -> None:
        self._process.called()
        self._process.say(text)
        self._process.judges.traced(self._process, text)

    def warn(self, text: str) -> None:
        self._process.say(text)

    def error(self, sentence: str, **pairs: object) -> None:
        self._process.say(" ".join([sentence, *(f"{name}={value}" for name, value in pairs.items())]))

    def stop(self, reason: str) -> None:
        raise SafetyError("no member halts", f"server {self._process.sid}: {reason}")


class MemberProcess(Process):
    """The process of one member. `neighbour` finds the process of another server; None while there is none."""

    sid: ServerId
    machine: MemberMachine
    turn: Turn

    def __init__(
        self,
        machine: MemberMachine,
        recovered: Recovered,
        rng: Random,
        sids: Sequence[ServerId],
        neighbour: Callable[[ServerId], MemberProcess | None],
        judges: Judges,
        greeter: Greeter,
        votes: Random,
    ) -> None:
        super().__init__(machine)
        self.greeter = greeter
        self.config = machine.config
        self.judges = judges
        self._neighbour = neighbour
        log = TransactionLog(machine.disk, recovered.log, segment_bytes=self.config.storage.log_file_bytes)
        space = DiskSpace(machine.disk, self.config.storage.disk_low_bytes, self.config.storage.disk_reserve_bytes)
        storage = Storage(
            machine.disk,
            log,
            self.sid,
            lambda sentence, reason: self.show(f"{sentence}: {reason}"),
            space=space,
            hold=lambda link, message: partial(self._send_durable, link, message),
        )
        make_peer = partial(ObservedPeer, has_short_way=machine.has_short_way)
        self.member = ObservedMember(self.config, recovered, rng, machine.now_ms, machine.wall_ms(), make_peer)
        self.member.observe = self._turn_begins
        self.member.peer.observe = partial(judges.peer_stepped, self)
        self.links = Links(
            self, QUORUM_PROTOCOL, greeter, self._links_of, self.config.timing.connect_to_leader_limit_ms
        )
        self.tasks = Tasks(self, storage, self.config, self._dial, self._tasks_of, judges)
        others = [sid for sid in sids if sid != self.sid]
        self.book = AddressBook(self.config, self.peer.memberships) if machine.has_address_book else None
        self.election = ElectionLinks(
            self,
            others if self.book is None else self.book.others,
            self._election_of,
            self.config.membership.election_connect_timeout_ms,
            self.tasks.post,
            votes,
        )
        if self.book is not None:
            self.book.meet = self.election.meet
        self.clients = ClientSockets(self, client_protocol(self.config))
        ports = Ports(
            clock=machine,
            links=self.links,
            election=self.election,
            clients=self.clients,
            storage=ThreadedStorage(storage, LogThread(self, storage, self.tasks.post, self.tasks.answers.append)),
            tasks=self.tasks,
            operator=Operator(self),
            role_changed=self._role_changed,
            addresses=self.book,
        )
        self.turn = Turn(self.member, ports)
        self._sids = others
        self.delivered: deque[int] = deque()
        """Batch ends that were delivered to the member, but that the judges have not seen applied."""
        self.ambush: Callable[[], None] | None = None
        """Called once, when it enters discovery or synchronization."""

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        self.called()
        if effect.phase in (DISCOVERY, SYNCHRONIZATION):
            ambush, self.ambush = self.ambush, None
            if ambush is not None:
                ambush()

    @property
    def peer(self) -> Peer:
        return self.member.peer

    @property
    def durable(self) -> int:
        """The end of its durable log."""
        return self.tasks.storage.log.last[0]

    def _send_durable(self, link: Link, message: msg.Message) -> None:
        """Send a message that waited for durability."""
        if self.links.send_now(link, message):
            self.judges.acknowledged(self, message)

    def start(self) -> None:
        self.tasks.post(ev.SecretNamed(self.greeter.secret_name))
        self.election.start()
        self.tasks.start_scrubbing()
        if self.machine.hole is not None:
            HoleFiller(self, self.peer, self.machine.hole, self._disks_in_reach, self._begin_anew).start()
        super().start()

    def _disks_in_reach(self) -> list[FaultyDisk]:
        found = [self._neighbour(sid) for sid in self._sids if self.network.reaches(self.sid, sid)]
        now = self.schedule.now
        return [other.machine.disk for other in found if other is not None and other.paused_until <= now]

    def _begin_anew(self, hole: Hole) -> None:
        """End the process, like a server whose hole is filled: the next start writes it."""
        machine = self.machine
        machine.stop(with_power=False)
        machine.filled = hole
        machine.start_after(PAUSE_US)

    def _dial(self, sid: ServerId) -> None:
        if self.book is None or sid in self.book.others:
            self.links.dial(sid)
        else:
            self.tasks.post(QUORUM_PROTOCOL.refused(sid))

    def _links_of(self, sid: int) -> Links[msg.Message, Input] | None:
        process = self._neighbour(ServerId(sid))
        return None if process is None else process.links

    def _tasks_of(self, sid: ServerId) -> Tasks | None:
        process = self._neighbour(sid)
        return None if process is None else process.tasks

    def _election_of(self, sid: ServerId) -> ElectionLinks | None:
        process = self._neighbour(sid)
        return None if process is None else process.election

    def _turn_begins(self, inputs: Sequence[Input]) -> None:
        self.trace.mark(self.sid, len(inputs))
        if self.trace.sink is not None and inputs:
            self.show(f"takes {', '.join(map(self.trace.describe, inputs))}")
        self.judges.turn_begins(self, inputs)

    def turn_ended(self) -> None:
        self.judges.turn_ended(self)
        if self.turn.waits_for_room:
            self.wake(self.schedule.now + self.config.timing.tick_time_ms * MS // 10)

    def die(self, *, with_power: bool) -> None:
        """End the process. Called by its machine, which keeps the disk."""
        self.judges.process_stopped(self, with_power=with_power)
        super().die(with_power=with_power)
        rng = self.machine.rng
        silent_us = int(self.config.timing.tick_time_ms * MS * 10 * rng.random() ** 2)
        self.links.process_died(with_power=with_power, gracefully=rng.random() < 0.5, silent_us=silent_us)
        self.election.process_died(with_power=with_power, silent_us=silent_us)
        self.clients.process_died(with_power=with_power)
