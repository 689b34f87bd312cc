"""The process of a client of ledgers: real cores, each with what it needs, on one session and on shared connections.

    process.host(core, completed)       the core works from now on; `completed` gets tokens and outcomes of callers
    process.errand(name, steps, then)   something that is done with the coordination service alone

A core has `step(now_ms, inputs) -> effects` and `deadline_ms`. Its requests go to bookies over the real codecs. The
operations of several cores take turns on the session, one batch at a time.

Not here: what the client does (`writer`, `recoverer`, `reader`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import Any, Final, Protocol

import attrs

from zab.coordination.driver import (
    Connected,
    Driver,
    Event,
    Expired,
    FromCoordination,
    Results,
    Submit,
    Suspended,
    WatchFired,
)
from zab.coordination.steps import Steps
from zab.ledger.entries.envelope import header_of
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.layout import AVAILABLE
from zab.ledger.placement.placement import Placement, PlacementSettings
from zab.ledger.store.bookies import read_bookies
from zab.ledger.store.events import Answered, BookieLost, BookiesKnown, Completed, Send
from zab.ledger.wire.messages import AddEntry, WriteLac
from zab.simulator.coordination.service import CoordinationService
from zab.simulator.coordination.session import CoordinationSession
from zab.simulator.ledgers.judge import Judge
from zab.simulator.ledgers.plan import Plan
from zab.simulator.ledgers.profile import Profile
from zab.simulator.ledgers.wires import BookieEnd, Connections
from zab.simulator.world.machine import Machine
from zab.simulator.world.process import Process

NEVER_MS: Final = 1 << 50


class Core(Protocol):
    """A pure core of a client."""

    @property
    def deadline_ms(self) -> int | None: ...

    def step(self, now_ms: int, inputs: Iterable[Any]) -> Iterable[Any]: ...


@attrs.define(eq=False)
class Hosted:
    """A core that works, and what it is told next."""

    core: Core
    completed: Callable[[Hashable, object], None]
    inputs: list[Any] = attrs.Factory(list)


class Errands:
    """A core that runs handlers of the coordination service, one after the other."""

    def __init__(self) -> None:
        self._driver = Driver()

    @property
    def deadline_ms(self) -> int | None:
        return self._driver.deadline_ms

    def add(self, name: str, begin: Callable[[], Steps[None]]) -> None:
        self._driver.offer(Event(name, begin))

    def step(self, now_ms: int, inputs: Iterable[FromCoordination]) -> list[Submit]:
        for each in inputs:
            match each:
                case Connected():
                    self._driver.on_connected()
                case Suspended():
                    self._driver.on_suspended()
                case Expired():
                    self._driver.on_suspended()
                    self._driver.clear()
                case Results():
                    self._driver.on_results(each)
        return list(self._driver.advance(now_ms))


class ClientProcess(Process):
    """See the docstring of the module."""

    def __init__(
        self,
        machine: Machine,
        service: CoordinationService,
        judge: Judge,
        reach: Callable[[BookieId], BookieEnd | None],
        *,
        session_timeout_ms: int,
        request_timeout_ms: int,
        is_v2: bool,
    ) -> None:
        super().__init__(machine)
        self.judge = judge
        self.turn = self
        self.connections = Connections(self, reach, self._tell_one, is_v2=is_v2, timeout_us=request_timeout_ms * 1000)
        self.session = CoordinationSession(self, service, session_timeout_ms, self._on_coordination)
        self._hosted: list[Hosted] = []
        self._to_submit: deque[tuple[Hosted, Submit]] = deque()
        self._submitted: tuple[Hosted, Submit] | None = None
        self._batches = 0
        self._connected: Connected | None = None
        self.bookies: BookiesKnown | None = None
        self._errands = Errands()
        self._for_errands = self.host(self._errands, lambda _token, _outcome: None)

    # ----------------------------------------------------------------------------------------------------------- cores

    def host(self, core: Core, completed: Callable[[Hashable, object], None]) -> Hosted:
        """Let this core work. It is told first what it would have been told before."""
        hosted = Hosted(core, completed)
        if self._connected is not None:
            hosted.inputs.append(self._connected)
        if self.bookies is not None:
            hosted.inputs.append(self.bookies)
        self._hosted.append(hosted)
        self.wake(self.schedule.now)
        return hosted

    def dismiss(self, hosted: Hosted) -> None:
        """This core works no more; what is answered to it is dropped."""
        self._hosted.remove(hosted)

    def tell(self, hosted: Hosted, each: Any) -> None:
        """Give a core an input."""
        hosted.inputs.append(each)
        self.wake(self.schedule.now)

    def errand(self, name: str, begin: Callable[[], Steps[None]]) -> None:
        """Run a handler; one of the name that waits already is enough."""
        self._errands.add(name, begin)
        self.wake(self.schedule.now)

    def know_bookies(self, known: BookiesKnown) -> None:
        """These bookies are registered now."""
        self.bookies = known
        self._tell_all(known)

    def _tell_all(self, each: Any) -> None:
        for hosted in self._hosted:
            hosted.inputs.append(each)
        self.wake(self.schedule.now)

    def _tell_one(self, owner: Hosted | None, each: Answered | BookieLost) -> None:
        if owner is None:
            self._tell_all(each)
        elif owner in self._hosted:
            self.tell(owner, each)

    # ------------------------------------------------------------------------------------------------------ the session

    def _on_coordination(self, each: FromCoordination) -> None:
        match each:
            case Connected():
                self._connected = each
                self._tell_all(each)
                self.is_connected()
            case Suspended():
                self._connected = None
                self._tell_all(each)
            case Expired():
                self._connected = self._submitted = None
                self._to_submit.clear()
                self._tell_all(each)
            case WatchFired(path):
                self._tell_all(each)
                self.watch_fired(path)
            case Results(_, results) if self._submitted is not None:
                hosted, submit = self._submitted
                self._submitted = None
                if hosted in self._hosted:
                    self.tell(hosted, Results(submit.batch, results))
                self._submit_next()

    def _submit_next(self) -> None:
        while self._submitted is None and self._to_submit:
            hosted, submit = self._to_submit.popleft()
            if hosted in self._hosted:
                self._submitted = hosted, submit
                self._batches += 1
                self.session.submit(Submit(self._batches, submit.operations))

    def is_connected(self) -> None:
        """Called when there is a session, also again."""

    def watch_fired(self, path: str) -> None:
        """Called when a watch fires."""

    # ---------------------------------------------------------------------------------------------------------- a turn

    def take(self) -> bool:
        now = self.machine.now_ms
        for hosted in list(self._hosted):
            inputs, hosted.inputs = hosted.inputs, []
            deadline = hosted.core.deadline_ms
            if inputs or hosted is self._for_errands or (deadline is not None and deadline <= now):
                self.trace.mark(self.sid, len(inputs))
                if self.trace.sink is not None and inputs:
                    self.show(f"takes {', '.join(map(self.trace.describe, inputs))}")
                for effect in hosted.core.step(now, inputs):
                    self._carry_out(hosted, effect)
        self.connections.flush()
        return True

    def _carry_out(self, hosted: Hosted, effect: Any) -> None:
        match effect:
            case Send(bookie, request):
                self._look_at(request)
                if self.trace.sink is not None:
                    self.show(f"sends {bookie} {self.trace.describe(request)}")
                self.connections.send(hosted, bookie, request)
            case Submit():
                self._to_submit.append((hosted, effect))
                self._submit_next()
            case Completed(token, outcome):
                self.called()
                hosted.completed(token, outcome)
            case _:
                self.effect(hosted, effect)

    def effect(self, hosted: Hosted, effect: Any) -> None:
        """Carry out an effect that only some cores have."""
        raise AssertionError(f"nobody carries out {effect}")

    def _look_at(self, request: object) -> None:
        """Show the judge what is sent."""
        if isinstance(request, AddEntry):
            assert header_of(request.envelope)[:2] == (request.ledger, request.entry), request
            self.judge.sends(request.ledger, request.envelope)
        elif isinstance(request, WriteLac):
            self.judge.shows(request.ledger, request.lac, "an explicit LAC")

    def next_deadline(self) -> int:
        found = [each.core.deadline_ms for each in self._hosted]
        return min((each for each in found if each is not None), default=self.machine.now_ms + NEVER_MS)

    # ------------------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        self.session.start()
        self.connections.start()
        super().start()

    def die(self, *, with_power: bool) -> None:
        super().die(with_power=with_power)
        self.session.process_died()
        self.connections.process_died(with_power=with_power)


class LedgerClient(ClientProcess):
    """A client with a plan, which knows the bookies that are registered."""

    def __init__(
        self,
        machine: Machine,
        plan: Plan,
        profile: Profile,
        root: str,
        service: CoordinationService,
        judge: Judge,
        reach: Callable[[BookieId], BookieEnd | None],
    ) -> None:
        super().__init__(
            *(machine, service, judge, reach),
            session_timeout_ms=profile.session_timeout_ms,
            request_timeout_ms=profile.request_timeout_ms,
            is_v2=profile.is_v2,
        )
        self.plan = plan
        self.profile = profile
        self.root = root
        self.name = f"c{plan.number}"
        settings = PlacementSettings(quarantine_errors=0)
        self.placement = Placement(Random(plan.rng.random()), settings)
        self.has_begun = False

    def begin(self) -> None:
        """Begin to work: the bookies are known."""
        raise NotImplementedError

    def is_connected(self) -> None:
        self.errand("know bookies", self._know)

    def watch_fired(self, path: str) -> None:
        if path.startswith(f"{self.root}/{AVAILABLE}"):
            self.errand("know bookies", self._know)

    def _know(self) -> Steps[None]:
        known = (yield from read_bookies(self.root)).known
        self.placement.know(known.available)
        self.know_bookies(known)
        if not self.has_begun:
            self.has_begun = True
            self.begin()
