"""Operations of pure code (`zab.coordination`) on this client, and the sessions of a service that lives by them.

    OnClient(client, acl, tell)     on one client, for as long as its session lives
      submit(effect)                begins these operations; their results are told together
      run()                         carries out what is submitted, until the session is over

    perform_steps(client, …)        one handler, to its end

    Coordination(hosts, …)          the same for a service: after a session has expired, it has a new one
      submit(effect), run()         `run` ends only when it is cancelled

What is told is an input of a turn: `Connected`, `Suspended`, `Expired`, `WatchFired`, `Results`. `Coordination` creates
the path that the hosts end with, below which the service has its znodes.

An answer that is lost with its connection is told as CONNECTIONLOSS: the operation was done, or was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import attrs
import trio

from zab.client.client import Client
from zab.client.core.exceptions import NotConnectedError, ZabError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.settings import SaslLogin, Settings
from zab.client.on_trio import Dialler, connect
from zab.client.pure_operations import operation_of, result_of
from zab.coordination.driver import Connected, Expired, FromCoordination, Results, Submit, Suspended
from zab.coordination.operations import Operation, Result
from zab.coordination.steps import Pause, Steps

T = TypeVar("T")
TRY_AGAIN_SECONDS: Final = 1.0
CONNECT_WAIT_MS: Final = 10_000
NEVER_PROVEN: Final = -(1 << 62)
SUBMITTED_MAX: Final = 1000
"""Batches that have not begun; a driver has one at a time."""


class Access(Protocol):
    """How a service comes to the coordination service."""

    @property
    def dial(self) -> Dialler | None:
        """Opens a connection; None: over TCP."""

    @property
    def login(self) -> SaslLogin | None:
        """User and password for SASL; None: nobody logs in."""

    def acl(self, path: str) -> Sequence[Acl]:
        """The ACL of a znode that is created; `path` is without the chroot."""


@attrs.frozen
class OpenAccess:
    """Over TCP, as nobody, with znodes that everybody may change."""

    dial: Dialler | None = None
    login: SaslLogin | None = None

    def acl(self, _path: str) -> Sequence[Acl]:
        return OPEN_ACL


def _say_nothing(_sentence: str, _reason: str) -> None:
    pass


class Coordination:
    """The sessions of a service, one after the other. Everything belongs to one task."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        tell: Callable[[FromCoordination], None],
        access: Access,
        dial: Dialler | None = None,
        warn: Callable[[str, str], None] = _say_nothing,
    ) -> None:
        """`dial` opens the connections, instead of `access`. `warn` gets a sentence and a reason when there is no
        session."""
        self.session_id = 0
        """The newest session; 0: there was none yet."""
        self._hosts = hosts
        self._access = access
        self._dial = dial or access.dial
        self._session_timeout_ms = session_timeout_ms
        self._tell = tell
        self._warn = warn
        self._client: Client | None = None
        self._session: OnClient | None = None

    def lives_until(self) -> int:
        """Until when (ms of the monotonic clock) the session surely lives, if no server answers again."""
        client = self._client
        if client is None or client.session_lives_until == float("-inf"):
            return NEVER_PROVEN
        return time.monotonic_ns() // 1_000_000 + int((client.session_lives_until - client.now()) * 1000)

    def submit(self, effect: Submit) -> None:
        """Begin these operations. What is submitted when there is no session is not done: `Expired` was told."""
        if self._session is not None:
            self._session.submit(effect)

    async def run(self) -> None:
        """Have a session, one after the other."""
        while True:
            try:
                settings = Settings(connect_wait_ms=CONNECT_WAIT_MS)
                async with connect(
                    self._hosts,
                    dial=self._dial,
                    sasl=self._access.login,
                    session_timeout_ms=self._session_timeout_ms,
                    settings=settings,
                ) as client:
                    await client.ensure_path("/", self._access.acl("/"))
                    await self._live(client)
            except NotConnectedError as error:
                self._warn("no server of the coordination service is found", str(error))
                await trio.sleep(TRY_AGAIN_SECONDS)
            except ZabError as error:
                self._warn("a session with the coordination service has ended", str(error))
                await trio.sleep(TRY_AGAIN_SECONDS)

    async def _live(self, client: Client) -> None:
        """Until the session is over."""
        self._client = client
        self._session = OnClient(client, self._access.acl, self._tell_of(client))
        try:
            await self._session.run()
        finally:
            self._client = self._session = None

    def _tell_of(self, client: Client) -> Callable[[FromCoordination], None]:
        def tell(what: FromCoordination) -> None:
            if isinstance(what, Connected):
                self.session_id = client.session_id
            self._tell(what)

        return tell


class OnClient:
    """What is submitted, on one client. Everything belongs to one task."""

    def __init__(
        self, client: Client, acl: Callable[[str], Sequence[Acl]], tell: Callable[[FromCoordination], None]
    ) -> None:
        """`acl`: the ACL of a znode that is created at this path, without the chroot."""
        self._client = client
        self._acl = acl
        self._tell = tell
        self._submitted, self._taken = trio.open_memory_channel[Submit](SUBMITTED_MAX)

    def submit(self, effect: Submit) -> None:
        """Begin these operations. What has not begun when the session is over is never done."""
        self._submitted.send_nowait(effect)

    async def run(self) -> None:
        """Until the session is over, which is told; the client stays open."""
        client = self._client
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry_out, nursery)
                async for state in client.states():
                    if state.is_connected:
                        self._tell(Connected(client.session_id, client.session_timeout_ms))
                    elif not state.is_over:
                        self._tell(Suspended())
                nursery.cancel_scope.cancel()
        finally:
            self._tell(Expired())

    async def _carry_out(self, nursery: trio.Nursery) -> None:
        async for effect in self._taken:
            # Requests of one batch are on their way before the next batch is begun.
            await nursery.start(self._answer, effect)

    async def _answer(self, effect: Submit, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._tell(Results(effect.batch, await self.perform(effect.operations, task_status.started)))

    async def perform(
        self, operations: Sequence[Operation], begun: Callable[[], object] = lambda: None
    ) -> tuple[Result, ...]:
        """The results of these operations, in order. `begun` is called when they are about to be sent."""
        client = self._client
        asked = [operation_of(client.operations, each, self._acl, self._tell) for each in operations]
        begun()
        found = await client.perform_each(asked)
        return tuple(result_of(each, answer) for each, answer in zip(operations, found, strict=True))


async def perform_steps(client: Client, steps: Steps[T], acl: Callable[[str], Sequence[Acl]]) -> T:
    """What a handler returns, run on this client alone. What it raises is raised. Watches that it sets tell nobody."""
    carrier = OnClient(client, acl, lambda _told: None)
    sent: tuple[Result, ...] = ()
    try:
        asked = next(steps)
        while True:
            if isinstance(asked, Pause):
                await trio.sleep(asked.ms / 1000)
                sent = ()
            else:
                sent = await carrier.perform(asked)
            asked = steps.send(sent)
    except StopIteration as end:
        result: T = end.value
        return result
