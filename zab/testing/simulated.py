"""A program on trio against a simulated ensemble: one seed, one run, step by step the same each time.

    async def main(e: SimulatedEnsemble) -> None:
        async with e.connect() as zk: ...

    run = simulate(main, seed=7, faults=["kill", "partition", "disconnect"])

The program is the user's own: tasks, clients of `zab.client` that `e.connect` makes, `trio.sleep`. The members are
those of the simulator (`zab.simulator`): whole ones, whose every step is checked by its judges. Time is `e.clock`'s,
which jumps from one thing that happens to the next; the order of tasks is decided by the seed; so are delays,
elections, and what goes wrong. What has a time of its own has no place in it, and ends the run: threads, files,
sockets.

What a test does to members has the names that it has in `Ensemble`. What takes time there takes time here too, so
`until_serving` is awaited; what is called returns at once, and the rest happens as time goes on.

A program may itself do what differs from run to run: look at the real time, choose with `random` (choose with
`e.random`), go through a set of texts. Then the hashes of two runs differ, and that is how it is found.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import attrs
import trio

from zab.member.settings.zoo_cfg import ConfigError
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.clients.external_clients import (
    EXTERNAL_CLIENT_FAULTS,
    ExternalClientFaults,
    ExternalConnections,
    OpenHistory,
)
from zab.simulator.ensemble.faults.faults import Faults
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace
from zab.testing.connecting import Connecting
from zab.testing.errors import EnsembleError
from zab.testing.expiry import Expiry, end_local_session, end_session, session_of
from zab.testing.kit.groups import cut_between
from zab.testing.kit.in_thread import Library, library
from zab.testing.kit.scheduling import SimulationError
from zab.testing.kit.simulation import Simulation
from zab.testing.settings import Value, check_size, refuse_own
from zab.testing.simulated_member import CLIENT_PORT, SimulatedMember
from zab.testing.simulated_settings import MEMBER_FAULTS, checked_faults, profile_of
from zab.testing.streams import SimulatedStream, dial

T = TypeVar("T")

LIMIT_SECONDS: Final = 3600.0
"""How long a run may go on, by its own clock."""
CLIENTS_MAX: Final = 250
"""Ends of wires; further clients share them."""
_PROBE_SECONDS: Final = 0.005
_AGAIN_MS: Final = 20
_GIVE_UP_TICKS: Final = 10


@attrs.frozen
class Run(Generic[T]):
    """A run that came to its end."""

    value: T
    """What the program returned."""
    seed: int
    hash: str
    """The hash of all events, with their times: two runs with the same hash are the same run."""
    seconds: float
    """How long it took, by its own clock."""


def simulate(
    main: Callable[[SimulatedEnsemble], Awaitable[T]],
    *,
    seed: int = 0,
    size: int = 3,
    observers: int = 0,
    faults: Iterable[str] = (),
    every_seconds: float = 5.0,
    limit_seconds: float = LIMIT_SECONDS,
    configuration: Mapping[str, Value] = MappingProxyType({}),
    trace: Callable[[str], None] | None = None,
) -> Run[T]:
    """Run `main(e)` against `size` simulated voters and so many observers that serve, and return what came of it.

    faults: what goes wrong at random, one thing every `every_seconds` on average, until `e.calm()`; see `FAULTS`.
    limit_seconds: for a run that does not end by itself. configuration: keys of `zoo.cfg`. trace: takes each line of
    what happens, for a reader; a run with one takes many times as long.

    Raises what `main` raises, with the seed in its notes; EnsembleError when the run cannot go on; SafetyError when a
    member breaks a promise, which is a bug of zab."""
    if library() is Library.TRIO:
        raise EnsembleError(
            "simulate runs trio by itself: call it from plain code, such as a test that is no coroutine"
        )
    world = SimulatedEnsemble(seed, size, observers, faults, every_seconds, configuration, trace, limit_seconds)
    try:
        value = world.run(main)
    finally:
        error = sys.exception()
        if error is not None:
            error.add_note(f"zab.testing.simulate(…, seed={seed}), after {world.clock.current_time():.6f} s")
    return Run(value, seed, world.hash, world.clock.current_time())


class SimulatedEnsemble:
    """What `simulate` hands to the program."""

    def __init__(
        self,
        seed: int,
        size: int,
        observers: int,
        faults: Iterable[str],
        every_seconds: float,
        configuration: Mapping[str, Value],
        trace: Callable[[str], None] | None,
        limit_seconds: float,
    ) -> None:
        check_size(size, observers)
        wanted = checked_faults(faults, every_seconds)
        refuse_own(configuration)
        self.seed = seed
        self.random = Random(f"{seed}/program")
        """For the choices of the program."""
        self._own_random = Random(f"{seed}/clients")
        self.schedule = Schedule()
        self._trace = Trace(self.schedule, trace, described)
        self._simulation = Simulation(seed, self.schedule, self._trace, limit_seconds)
        self.clock = self._simulation.clock
        """The time of the run, from 0: `trio.current_time()` is the same."""
        self._observer = Observer(Recorder(), OpenHistory())
        gap_us = int(every_seconds * 1000 * MS)
        member_faults = dict.fromkeys((kind for kind in wanted if kind in MEMBER_FAULTS), 1)
        profile = profile_of(seed, size, observers, member_faults, gap_us, configuration)
        try:
            self.simulated = Ensemble(profile, self.schedule, self._trace, self._observer)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        self.members: Mapping[int, SimulatedMember] = {
            sid: SimulatedMember(self.simulated, sid, self.say) for sid in profile.sids
        }
        """By their ids, 1 and up; observers come last."""
        self._sid_at = {f"10.0.0.{sid}": sid for sid in profile.sids}
        self._external_connections = ExternalConnections(self.simulated)
        self._clients_count = 0
        self._faults = Faults(self.simulated, [], Random(f"{seed}/faults"))
        self._external_faults = ExternalClientFaults(
            self.simulated, self._external_connections, self._end_session, Random(f"{seed}/guests"), gap_us
        )
        self._external_kinds = [kind for kind in wanted if kind in EXTERNAL_CLIENT_FAULTS]
        self._cut: list[tuple[ServerId, ServerId]] = []

    def __repr__(self) -> str:
        return f"<simulated ensemble of {', '.join(f'{sid}: {member.state}' for sid, member in self.members.items())}>"

    def run(self, main: Callable[[SimulatedEnsemble], Awaitable[T]]) -> T:
        """For `simulate`: all of it."""
        try:
            return self._simulation.run(partial(self._program, main))
        except SimulationError as error:
            raise EnsembleError(f"seed {self.seed}: {error}; {self!r}") from None

    async def _program(self, main: Callable[[SimulatedEnsemble], Awaitable[T]]) -> T:
        for machine in self.simulated.machines.values():
            machine.start_after(0)
        await self.until_serving()
        self._faults.start()
        self._external_faults.start(self._external_kinds)
        value = await main(self)
        self._observer.compare_trees()
        return value

    # ---------------------------------------------------------------------------------------------- what has happened

    @property
    def hash(self) -> str:
        """The hash of all events so far."""
        return self._trace.digest

    def say(self, text: str) -> None:
        """A line of the trace, which counts as something that happened."""
        self._trace.say("!", text)

    # --------------------------------------------------------------------------------------------------- what there is

    @property
    def hosts(self) -> str:
        """The connection string; only `dial` finds these hosts."""
        return ",".join(member.hosts for member in self.members.values())

    @property
    def leader(self) -> SimulatedMember | None:
        """The member that leads; None while there is none. Of two that believe so, the one that was elected later."""
        process = self.simulated.leader
        return None if process is None else self.members[process.sid]

    def connect(self, **options: Any) -> Connecting:
        """A client of this ensemble, for `async with`; the options are those of `zab.client.connect`."""
        self._clients_count += 1
        number = -(1 + (self._clients_count - 1) % CLIENTS_MAX)

        async def dial_as_this_one(host: Any) -> SimulatedStream:
            return await self.dial(host, number)

        options.setdefault("random", Random(self._own_random.getrandbits(64)))
        options.setdefault("dial", dial_as_this_one)
        return Connecting(options.pop("hosts", self.hosts), options)

    async def dial(self, host: Any, number: int = -1) -> SimulatedStream:
        """For `zab.client.connect(dial=e.dial)`: a stream to the member with this host. Raises OSError."""
        sid = self._sid_at.get(host.name)
        if sid is None or host.port != CLIENT_PORT:
            raise OSError(f"{host} is no member of this ensemble: there are {self.hosts}")
        return await dial(self._external_connections, number, sid, self.clock.ring)

    # ---------------------------------------------------------------------------------------------------- what is done

    async def until_serving(self, *sids: int, seconds: float = 60.0) -> None:
        """Returns when these members serve; without any, when all do that run and do not stand still."""
        for sid in sids:
            if sid not in self.members:
                raise ValueError(f"there is no member {sid}: there are {', '.join(map(str, self.members))}")
        deadline = trio.current_time() + seconds
        while not self._are_serving(sids):
            if trio.current_time() >= deadline:
                raise EnsembleError(f"not serving after {seconds:g} s: {self!r}")
            await trio.sleep(_PROBE_SECONDS)

    def _are_serving(self, sids: Collection[int]) -> bool:
        leader = self.simulated.leader
        wanted = [member for member in self.members.values() if member.is_running and not member.is_paused]
        return bool(wanted) and all(
            leader is not None and self._serves(member.sid, leader)
            for member in ([self.members[sid] for sid in sids] or wanted)
        )

    def _serves(self, sid: ServerId, leader: MemberProcess) -> bool:
        """Whether it does, and not only believes that it does: its leader is there."""
        process = self.simulated.process(sid)
        if process is None or not process.member.serving:
            return False
        return process is leader or (
            process.peer.leader == leader.sid and self.simulated.network.reaches(sid, leader.sid)
        )

    def partition(self, *groups: Collection[int]) -> None:
        """From now on members of different groups do not hear each other; those that no group names are one more group.
        It takes the place of an earlier partition."""
        cut = cut_between(groups, self.members)
        self.heal()
        self.say(f"partition {[sorted(group) for group in groups]}")
        self._cut = [
            (ServerId(one), ServerId(two)) for pair in sorted(map(sorted, cut)) for one, two in (pair, pair[::-1])
        ]
        for pair in self._cut:
            self.simulated.network.block(*pair)
        after = self.simulated.profile.tick_us * _GIVE_UP_TICKS
        self.schedule.after(after, self.simulated.cut_for_long, list(self._cut))

    def heal(self) -> None:
        """What `partition` cut is whole again, and what was on the way arrives."""
        if self._cut:
            self.say("heal")
        for pair in self._cut:
            self.simulated.network.unblock(*pair)
        self._cut = []

    def expire(self, session: Any) -> None:
        """End a session as if its client had been silent for too long: an id, or a client. It takes a leader, and the
        time to commit; as long as there is no leader, one is waited for. Raises ValueError when a leader knows no such
        session."""
        wanted = session_of(session)
        if self._end_session(wanted) is Expiry.UNKNOWN:
            raise ValueError(f"there is no session {wanted:#x}")

    def _end_session(self, session: int) -> Expiry:
        self.say(f"expire {session:#x}")
        for process in self.simulated.processes:
            if end_local_session(process.member, session):
                self.disconnect(session)
                return Expiry.UNDER_WAY
        leader = self.simulated.leader
        found = Expiry.NOT_HERE
        if leader is not None:
            self._observer.timeouts.ended_by_hand.add(session)
            found = end_session(leader.member, session)
            leader.wake(self.schedule.now)
        if found is not Expiry.UNKNOWN:
            # Leaders come and go: until it is over, the next one is told, too.
            self.schedule.after(_AGAIN_MS * MS, self._end_again, session)
        return found

    def _end_again(self, session: int) -> None:
        self._end_session(session)

    def disconnect(self, session: Any) -> None:
        """Break the connection that a session has now: an id, or a client. Nothing happens if it has none."""
        wanted = session_of(session)
        for connection in self._external_connections.open():
            if connection.session == wanted:
                self.say(f"disconnect {wanted:#x}")
                connection.lose()

    def calm(self) -> None:
        """Nothing goes wrong any more by itself, and what did is mended: everybody runs and reaches everybody."""
        self.say("calm")
        self._external_faults.end()
        for member in self.members.values():
            if member.is_paused:
                member.resume()
        self._faults.end()
        self._faults.mend_disks()
        self._cut = []
