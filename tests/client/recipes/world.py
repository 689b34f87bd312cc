"""A world in which every request of every client may be lost, one after the other: one real member in memory, under a
clock that jumps.

    def scenario(world): ...                  # a coroutine: clients of `world.connect` do what the recipe is for
    for world in trials(scenario, "answer"): ...

A trial runs the scenario once, with one loss: at the n-th request that any client sends. Trials go on with n = 1, 2,
3, … until the scenario ends before its loss. Requests are counted as the member would get them; greetings and pings
do not count, nor do requests that close a session. Where that takes seconds, `make test` tries every third request
(`of_each`).

    request     the request is lost, and the connection with it
    answer      the member does it, its answer is lost, and the connection with it
    connection  the answer arrives, then the connection is lost
    session     the request is lost, and its client reaches nobody until the session has expired
    cancel      the member does it, and who asked is cancelled before the answer (`World.scopes`)
    late        the member does it, its answer is lost, and its client reaches nobody until the session has expired

Time is trio's `MockClock`, and the member's time follows it; what is on its way takes some milliseconds, by the seed
of the trial. So a trial that fails is the same when it is run again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final

import pytest
import trio
import trio._core._run as scheduling
from attrs import define
from trio.testing import MockClock

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from tests.rigs.direct import members
from tests.rigs.direct.client import Client as MemberClient
from zab.client import Client, Settings, connect
from zab.jute.framing import FRAME_BYTES_MAX
from zab.jute.replies import reply
from zab.wire.frames import FrameReader, frame

KINDS: Final = ("request", "answer", "connection", "session", "late")
SESSION_TIMEOUT_MS: Final = 4_000
TICK_MS: Final = 100
DELAY_S_MAX: Final = 0.004
STEPS_MAX: Final = 400
STRIDE: Final = 3
FIRST: Final = {"request": 1, "answer": 2, "connection": 3, "session": 1, "late": 2, "cancel": 3}
"""Where a kind that is tried at every third request begins."""
PATIENCE_S: Final = 600
_UNCOUNTED: Final = {OpCode.PING, OpCode.CLOSE_SESSION}
_UNKNOWN: Final = {OpCode.ADD_WATCH, OpCode.SET_WATCHES2, OpCode.GET_CHANGES}


class Now(str):
    """A kind of loss that is tried at every third request."""

    __slots__ = ()


def of_each(kinds: Iterable[str]) -> list[Any]:
    """Values of a test's `kind`: each kind at every third request; and at each request, in `make test-longest`."""
    return [
        value
        for kind in kinds
        for value in (
            pytest.param(Now(kind), id=f"some-{kind}"),
            pytest.param(kind, id=kind, marks=pytest.mark.longest),
        )
    ]


@define
class Loss:
    """What is lost, and at which request."""

    kind: str
    step: int
    happened: bool = False
    names: tuple[str, ...] = ()
    """The clients whose requests count; none: all of them."""
    opcode: OpCode | None = None
    """The only one that counts."""


class World:
    """A world of clients. is_old: it knows what ZooKeeper 3.5 knows: no persistent watches, and no feed of changes. It
    says so when it is asked for them, and ends the connection; or it is "silent" about it."""

    def __init__(self, loss: Loss | None = None, *, seed: int = 0, is_old: bool | str = False) -> None:
        self.ensemble = members.Ensemble(
            1, maxClientCnxns=0, extendedTypesEnabled="true", keeperExtensionsEnabled="true"
        )
        self.loss = loss
        self.is_old = is_old
        self.random = Random(seed)
        self.requests: list[tuple[str, OpCode]] = []
        """The client and kind of each request, in order."""
        self._streams: list[_Stream] = []
        self._cut_until: dict[str, float] = {}
        self.scopes: dict[str, trio.CancelScope] = {}
        """For each client, the scope that is cancelled."""

    def __repr__(self) -> str:
        return f"<World: {self.loss}, {len(self.requests)} requests>"

    def connect(self, name: str, hosts: str = "member:1", **settings: Any) -> AbstractAsyncContextManager[Client]:
        chosen = {"session_timeout_ms": SESSION_TIMEOUT_MS, "connect_wait_ms": 60_000, **settings}

        async def dial(_host: object) -> trio.abc.Stream:
            await trio.sleep(self.delay())
            if trio.current_time() < self._cut_until.get(name, 0):
                raise ConnectionRefusedError("the network is cut")
            stream = _Stream(self, name)
            self._streams.append(stream)
            return stream

        return connect(hosts, settings=Settings(**chosen), dial=dial, random=Random(self.random.random()))

    def delay(self) -> float:
        return self.random.uniform(0, DELAY_S_MAX)

    def znodes(self) -> dict[str, bytes | None]:
        """Every path but ZooKeeper's own, and its data, as the member has it."""
        server = self.ensemble.servers[members.ServerId(1)]
        paths = sorted(path.decode() for shard in server.member.tree.shards for path in shard)
        return {
            path: server.value(path.encode()) for path in paths if path != "/" and path.split("/")[1] != "zookeeper"
        }

    def below(self, path: str) -> list[str]:
        return [found.removeprefix(path + "/") for found in self.znodes() if found.startswith(path + "/")]

    def cut(self, name: str) -> None:
        """The client reaches nobody until its session is over, and its connection is lost."""
        self._cut_until[name] = trio.current_time() + SESSION_TIMEOUT_MS / 1000 + 3
        for stream in self._streams:
            if stream.name == name:
                stream.cut()

    def refuse(self, name: str, seconds: float) -> None:
        """The client gets no other connection for so long."""
        self._cut_until[name] = trio.current_time() + seconds

    def settle(self) -> None:
        self.ensemble.settle()
        for stream in [stream for stream in self._streams if stream.is_over]:
            stream.cut()
            self._streams.remove(stream)

    async def tick(self) -> None:
        """The member's time follows trio's."""
        while True:
            await trio.sleep(TICK_MS / 1000)
            self.ensemble.advance(TICK_MS)
            self.settle()

    def step(self, name: str, opcode: OpCode) -> str | None:
        """Counts a request; the kind of the loss that has its turn now."""
        if opcode in _UNCOUNTED:
            return None
        self.requests.append((name, opcode))
        loss = self.loss
        if (
            loss is None
            or loss.happened
            or (loss.names and name not in loss.names)
            or loss.opcode not in (None, opcode)
        ):
            return None
        loss.step -= 1
        if loss.step > 0:
            return None
        loss.happened = True
        return loss.kind

    def lose(self, name: str, opcode: OpCode, kind: str) -> Loss:
        """The client's next request of this kind is lost."""
        self.loss = Loss(kind, 1, names=(name,), opcode=opcode)
        return self.loss


class _Connection(MemberClient):
    """The member's end of a connection."""

    def __init__(self, server: members.Server, number: int, stream: _Stream) -> None:
        super().__init__(server, number)
        self._stream = stream

    def take(self, output: bytes) -> None:
        self._stream.hand_over(output)


class _Stream(trio.abc.Stream):
    """The client's end of a connection."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._greeted = False
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._received = b""
        self._is_cut = False
        self._news = trio.lowlevel.ParkingLot()
        ensemble = world.ensemble
        server = ensemble.servers[members.ServerId(1)]
        self._member = _Connection(server, len(ensemble.clients) + 1, self)
        ensemble.clients[self._member.connection] = self._member

    @property
    def is_over(self) -> bool:
        return self._is_cut or self._member.is_closed

    def hand_over(self, output: bytes) -> None:
        if not self._is_cut:
            self._received += output
            self._news.unpark_all()

    def cut(self) -> None:
        """The connection is lost; what is in flight to the client still arrives."""
        if not self._is_cut:
            self._is_cut = True
            self._member.close()
            self._news.unpark_all()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(self._world.delay())
        for payload in self._frames.feed(bytes(data)):
            if self._is_cut:
                raise trio.BrokenResourceError("the connection is lost")
            self._send(payload)

    def _send(self, payload: bytes) -> None:
        kind = None
        if self._greeted:
            opcode = OpCode(int.from_bytes(payload[4:8], "big", signed=True))
            kind = self._world.step(self.name, opcode)
            if self._world.is_old and opcode in _UNKNOWN:
                # ZooKeeper's servers say so where they do not know what is asked for, and close the connection.
                if self._world.is_old != "silent":
                    xid = int.from_bytes(payload[:4], "big", signed=True)
                    self._received += reply(xid, 0, ErrorCode.UNIMPLEMENTED)
                self.cut()
        self._greeted = True
        world, before = self._world, self._received
        if kind not in ("request", "session") and not self._is_cut:
            self._member.say(frame(payload))
            world.settle()
        if kind in ("answer", "late"):
            self._received = before
        if kind == "cancel":
            world.scopes.get(self.name, trio.CancelScope()).cancel()
        elif kind is not None:
            self.cut()
        if kind in ("session", "late"):
            world.cut(self.name)
        world.settle()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while not self._received:
            if self.is_over:
                await trio.lowlevel.checkpoint()
                return b""
            await self._news.park()
        await trio.sleep(self._world.delay())
        received, self._received = self._received, b""
        return received

    async def aclose(self) -> None:
        self.cut()
        self._world.settle()
        await trio.lowlevel.checkpoint()


Scenario = Callable[[World], Awaitable[None]]


def run(scenario: Scenario, world: World) -> None:
    """The scenario in its world, to the end; then sessions that were not closed expire."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.tick)
            with trio.fail_after(PATIENCE_S):
                await scenario(world)
            nursery.cancel_scope.cancel()

    scheduling._r.seed(0)
    before, scheduling._ALLOW_DETERMINISTIC_SCHEDULING = scheduling._ALLOW_DETERMINISTIC_SCHEDULING, True
    try:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    finally:
        scheduling._ALLOW_DETERMINISTIC_SCHEDULING = before
    world.ensemble.advance(3 * SESSION_TIMEOUT_MS)


def trials(scenario: Scenario, kind: str, names: tuple[str, ...] = (), **options: Any) -> Iterator[World]:
    """Runs the scenario with a loss at each of its requests, or at those of `Now`; gives the world of each trial after
    its end."""
    first, stride = (FIRST[kind], STRIDE) if isinstance(kind, Now) else (1, 1)
    for step in range(first, STEPS_MAX, stride):
        loss = Loss(kind, step, names=names)
        world = World(loss, seed=step, **options)
        try:
            run(scenario, world)
        except BaseException as error:
            asked = [f"{name}:{opcode.name}" for name, opcode in world.requests]
            error.add_note(f"with {kind} at {step}, {world!r}: {asked}")
            raise
        yield world
        if not loss.happened:
            assert step > first, "the scenario sends nothing"
            return
    raise AssertionError(f"the scenario does not end within {STEPS_MAX} requests")
