"""Drives the pure cores of ledgers: gives them what happens, and does what they ask for. Without I/O.

    driven = driving.drive(core, on_effect)     from now on; `driven.give(input)` is for callers
    driving.end(driven)                         it is forgotten
    driving.turn()                              every core with inputs, and every one that is due, is stepped once

The effects of a core: `Send` goes to the link of its bookie, `Submit` to the coordination service, and `Completed` to
the `complete` of its token; everything else, and a `Completed` whose token has no `complete`, to `on_effect`. Each core
is told once which bookies there are, whenever that changes, and `Expired` when the session is over.

What inputs lead to comes in the next turn, which the loop that is wanted (`Loop.soon`) brings about. Everything that a
turn sends to one bookie leaves together at its end.

One thread at a time runs this code: with the client of threads, the one that holds the client's monitor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

from zab.client import ZabError
from zab.coordination.driver import Connected, Expired, Submit
from zab.ledger.entries.ids import BookieId
from zab.ledger.store.bookies import RegisteredBookies
from zab.ledger.store.events import Completed, Send
from zab.ledger.wire.messages import Request
from zab.ledger.wire.status import Status
from zab.ledgers.bookie_link import CHECK_MS, AddFrames, BookieLink
from zab.ledgers.connection import Asker, Dialler
from zab.ledgers.coordination import CoordinationJob
from zab.ledgers.directory import BookiesRead, Directory
from zab.ledgers.settings import StoreSettings


class Core(Protocol):
    """A pure core: a writer, a reader, a recovery, a handler."""

    @property
    def deadline_ms(self) -> int | None: ...

    def step(self, now_ms: int, inputs: Iterable[Any], /) -> list[Any]: ...


class Loop(Dialler, Protocol):
    """What does the I/O: `on_trio`, `aio`, `on_threads`."""

    def soon(self) -> None:
        """Call `turn` soon. May be called again before that."""

    def start(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this beside everything else, until the store ends."""

    async def in_thread(self, do: Callable[[], Any]) -> Any:
        """What this returns or raises, which blocks, and leaves the store alone."""


class Driven:
    """A core, and what it is to be told."""

    __slots__ = ("_driving", "armed_ms", "core", "inputs", "is_over", "on_effect", "wants_bookies")

    def __init__(self, driving: Driving, core: Core, on_effect: Callable[[Any], None], *, wants_bookies: bool) -> None:
        self._driving = driving
        self.core = core
        self.on_effect = on_effect
        self.wants_bookies = wants_bookies
        self.inputs: list[Any] = []
        self.armed_ms: int | None = None
        """When the heap of the driving has it next."""
        self.is_over = False

    def give(self, told: Any) -> None:
        """An input of its next step."""
        if not self.inputs and not self.is_over:
            self._driving.want(self)
        self.inputs.append(told)

    def give_all(self, told: list[Any]) -> None:
        """Inputs of its next step, in order."""
        if not self.inputs and not self.is_over:
            self._driving.want(self)
        self.inputs += told


class Driving:
    """`now_ms`: the clock of all cores. `submit` and the session come with `begin`."""

    def __init__(self, loop: Loop, now_ms: Callable[[], int], settings: StoreSettings) -> None:
        self.settings = settings
        self.registered = RegisteredBookies({}, {})
        self.session_end: ZabError | None = None
        """Why the session is over."""
        self.directory = Directory(settings.root)
        self.on_bookies: Callable[[RegisteredBookies], None] = lambda _registered: None
        self._loop = loop
        self._now_ms = now_ms
        self._job: CoordinationJob | None = None
        self._driven: dict[Driven, None] = {}
        self._wanted: dict[Driven, None] = {}
        self._due: list[tuple[int, int, Driven]] = []
        self._pushed = 0
        self._links: dict[BookieId, BookieLink] = {}
        self._frames = AddFrames()
        self._unsent: dict[BookieLink, None] = {}
        self._check_ms: int | None = None
        self._left: deque[Callable[[], None]] = deque()

    # ---------------------------------------------------------------------------------------------------------- cores

    def begin(self, job: CoordinationJob) -> None:
        """Read the list of bookies, from now on."""
        self._job = job
        self.drive(self.directory, self._on_directory, wants_bookies=False)

    def drive(self, core: Core, on_effect: Callable[[Any], None], *, wants_bookies: bool = True) -> Driven:
        """Drive this core from now on."""
        driven = Driven(self, core, on_effect, wants_bookies=wants_bookies)
        self._driven[driven] = None
        driven.give(Expired() if self.session_end is not None else Connected(1))
        if wants_bookies:
            driven.give(self.registered.known)
        return driven

    def end(self, driven: Driven) -> None:
        """Forget this core; what it waits for is answered to nobody."""
        driven.is_over = True
        self._driven.pop(driven, None)
        self._wanted.pop(driven, None)

    def release(self, driven: Driven) -> None:
        """Tell it nothing more of bookies and of the session. It goes on as long as somebody has it."""
        self._driven.pop(driven, None)

    @property
    def count(self) -> int:
        """How many cores are told of bookies and of the session."""
        return len(self._driven)

    def later(self, do: Callable[[], None]) -> None:
        """Call this in the next turn, whenever that is. Any thread may call this, also while it collects garbage."""
        self._left.append(do)

    def want(self, driven: Driven) -> None:
        """It has inputs."""
        if not self._wanted:
            self._loop.soon()
        self._wanted[driven] = None

    def session_over(self, reason: ZabError) -> None:
        self.session_end = reason
        for driven in list(self._driven):
            driven.give(Expired())

    # ----------------------------------------------------------------------------------------------------------- turns

    def turn(self) -> int | None:
        """Step what is to be stepped. Returns when to be called again, if nothing happens before."""
        now = self._now_ms()
        while self._left:
            self._left.popleft()()
        due = self._due
        while due and due[0][0] <= now:
            driven = heappop(due)[2]
            driven.armed_ms = None
            if not driven.is_over:
                self._wanted[driven] = None
        wanted, self._wanted = self._wanted, {}
        for driven in wanted:
            self.step(driven, now)
        self._flush(now)
        return self._next_ms()

    def step(self, driven: Driven, now: int | None = None) -> None:
        """Step this core now, with what it was given. What it sends leaves with the turn."""
        if driven.is_over:
            return
        if now is None:
            now = self._now_ms()
            self._loop.soon()
        inputs, driven.inputs = driven.inputs, []
        core = driven.core
        for effect in core.step(now, inputs):
            kind = type(effect)
            if kind is Send:
                link = self._links.get(effect.bookie) or self._new_link(effect.bookie)
                link.send(effect.request, driven, now)
                self._unsent[link] = None
            elif kind is Completed and (complete := getattr(effect.token, "complete", None)) is not None:
                complete(effect.outcome)
            elif kind is Submit:
                if self._job is not None and self.session_end is None:
                    self._job.submit(driven, effect)
            else:
                driven.on_effect(effect)
        deadline = core.deadline_ms
        if deadline is not None and (driven.armed_ms is None or deadline < driven.armed_ms) and not driven.is_over:
            driven.armed_ms = deadline
            self._pushed += 1
            heappush(self._due, (deadline, self._pushed, driven))

    def _flush(self, now: int) -> None:
        """Send everything; hang up on bookies that owe answers for too long."""
        if self._unsent:
            unsent, self._unsent = self._unsent, {}
            for link in unsent:
                link.flush()
            if self._check_ms is None:
                self._check_ms = now + CHECK_MS
        if self._check_ms is not None and self._check_ms <= now:
            is_any_waiting = False
            for link in self._links.values():
                link.check(now)
                is_any_waiting = is_any_waiting or link.is_waiting
            self._check_ms = now + CHECK_MS if is_any_waiting else None

    def _next_ms(self) -> int | None:
        first = self._due[0][0] if self._due else None
        if self._check_ms is not None and (first is None or self._check_ms < first):
            return self._check_ms
        return first

    # --------------------------------------------------------------------------------------------------------- bookies

    def _on_directory(self, effect: BookiesRead) -> None:
        before, self.registered = self.registered, effect.registered
        known = self.registered.known
        if before.known != known:
            for driven in list(self._driven):
                if driven.wants_bookies:
                    driven.give(known)
        self.on_bookies(self.registered)

    def _new_link(self, bookie: BookieId) -> BookieLink:
        address = partial(self._address, bookie)
        link = self._links[bookie] = BookieLink(bookie, self.settings, self._loop, address, self._frames)
        return link

    def _address(self, bookie: BookieId) -> tuple[str, int] | None:
        """Where it is registered; a bookie that is not may be reached where its id says, or where it was last."""
        info = self.registered.available.get(bookie) or self.registered.read_only.get(bookie)
        endpoint = None if info is None else info.bookie_endpoint
        if endpoint is not None:
            return endpoint.host, endpoint.port
        host, _, port = bookie.rpartition(":")
        return (host, int(port)) if host and port.isdecimal() and len(port) <= 5 else None

    def ask(self, bookie: BookieId, request: Request, asker: Asker) -> None:
        """Send one request for somebody who is no core."""
        link = self._links.get(bookie) or self._new_link(bookie)
        link.send(request, asker, self._now_ms())
        self._unsent[link] = None
        self._loop.soon()

    def hang_up(self, bookie: BookieId, status: Status = Status.UNREACHABLE) -> None:
        """End the connections to this bookie; what waits there is answered so."""
        link = self._links.get(bookie)
        if link is not None:
            link.hang_up(status)

    def start(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this beside everything else, until the store ends."""
        self._loop.start(task)

    async def in_thread(self, do: Callable[[], Any]) -> Any:
        """What this returns or raises, which blocks, and leaves the store alone."""
        return await self._loop.in_thread(do)

    def close(self) -> None:
        """End every connection."""
        for link in self._links.values():
            link.hang_up(Status.UNREACHABLE)
