"""The session of a broker with the coordination service: carries out what the controller asks, and tells what happens.

    submit(effect)      begins these operations; their results are told together
    run()               keeps a session for as long as it is not cancelled: after one has expired, a new one

What is told is an input of a turn: `Connected`, `Suspended`, `Expired`, `WatchFired`, `Results`. The znodes of brokers
are below the path that the hosts end with, which is created.

An answer that is lost with its connection is told as CONNECTIONLOSS: the operation was done, or was not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, assert_never

import trio

from datatree.errors import ErrorCode
from zab.broker.ensemble_access import EnsembleAccess
from zab.client import Client, NotConnectedError, Settings, connect
from zab.client.core import operations as client_operations
from zab.client.core.exceptions import RequestError, SessionExpiredError, ZabError
from zab.client.core.records import EventType, WatchEvent
from zab.client.core.records import Stat as ClientStat
from zab.client.on_trio import Dialler
from zab.coordination.driver import Connected, Expired, FromCoordination, Results, Submit, Suspended, WatchFired
from zab.coordination.operations import (
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    Operation,
    Result,
    Set,
    Stat,
    Sync,
)
from zab.host.journal.journal import Journal
from zab.host.loop.loop import now_ms

TRY_AGAIN_SECONDS: Final = 1.0
CONNECT_WAIT_MS: Final = 10_000
NEVER_PROVEN: Final = -(1 << 62)

journal = Journal("broker")


class Coordination:
    """See the docstring of the module. Everything belongs to the task of the loop."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        tell: Callable[[FromCoordination], None],
        access: EnsembleAccess,
        dial: Dialler | None = None,
    ) -> None:
        """`dial` opens the connections, instead of `access`."""
        self.session_id = 0
        """The newest session; 0: there was none yet."""
        self._hosts = hosts
        self._access = access
        self._dial = dial or access.dial
        self._session_timeout_ms = session_timeout_ms
        self._tell = tell
        self._client: Client | None = None
        self._submitted, self._taken = trio.open_memory_channel[Submit](1000)

    def lives_until(self) -> int:
        """Until when (ms, `zab.host.loop.loop.now_ms`) the session surely lives, if no server answers again."""
        client = self._client
        if client is None or client.session_lives_until == float("-inf"):
            return NEVER_PROVEN
        return now_ms() + int((client.session_lives_until - client.now()) * 1000)

    def submit(self, effect: Submit) -> None:
        """Begin these operations."""
        self._submitted.send_nowait(effect)

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
                journal.warning("no server of the coordination service is found", reason=str(error))
                await trio.sleep(TRY_AGAIN_SECONDS)
            except ZabError as error:
                journal.warning("a session with the coordination service has ended", reason=str(error))
                await trio.sleep(TRY_AGAIN_SECONDS)

    async def _live(self, client: Client) -> None:
        """Until the session is over."""
        try:
            async with trio.open_nursery() as nursery:
                self._client = client
                nursery.start_soon(self._carry_out, client, nursery)
                async for state in client.states():
                    if state.is_connected:
                        self.session_id = client.session_id
                        self._tell(Connected(client.session_id, client.session_timeout_ms))
                    elif not state.is_over:
                        self._tell(Suspended())
                nursery.cancel_scope.cancel()
        finally:
            self._client = None
            self._forget_submitted()
            self._tell(Expired())

    def _forget_submitted(self) -> None:
        """What was submitted and not begun belongs to the session that is over: the next one must not do it. Whoever
        waits for the results learns of the end of the session."""
        with suppress(trio.WouldBlock):
            while True:
                self._taken.receive_nowait()

    async def _carry_out(self, client: Client, nursery: trio.Nursery) -> None:
        async for effect in self._taken:
            # Requests of one batch are on their way before the next batch is begun.
            await nursery.start(self._answer, client, effect)

    async def _answer(
        self, client: Client, effect: Submit, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        asked = [self._operation(client.operations, each) for each in effect.operations]
        task_status.started()
        found = await client.perform_each(asked)
        results = tuple(_result(each, answer) for each, answer in zip(effect.operations, found, strict=True))
        self._tell(Results(effect.batch, results))

    def _operation(
        self, of: client_operations.Operations, asked: Operation | Check
    ) -> client_operations.Operation[Any]:
        match asked:
            case Create(path, data, ephemeral, sequential):
                return of.create(path, data, self._access.acl(path), ephemeral=ephemeral, sequence=sequential)
            case Get(path, watch):
                return of.get(path, self._watch(path) if watch else None)
            case Exists(path, watch):
                return of.exists(path, self._watch(path) if watch else None)
            case Children(path, watch):
                return of.get_children2(path, self._watch(path) if watch else None)
            case Sync(path):
                return of.sync(path)
            case Set(path, data, version):
                return of.set(path, data, version)
            case Delete(path, version):
                return of.delete(path, version)
            case Check(path, version):
                return of.check(path, version)
            case Multi(parts):
                return of.multi([self._operation(of, part) for part in parts])
            case _:
                assert_never(asked)

    def _watch(self, path: str) -> _Watch:
        return _Watch(path, self._tell)


class _Watch:
    """A watch that fires once."""

    def __init__(self, path: str, tell: Callable[[WatchFired], None]) -> None:
        self._path = path
        self._tell = tell

    def deliver(self, event: WatchEvent) -> None:
        if event.type is not EventType.SESSION:
            self._tell(WatchFired(self._path))

    def end(self, reason: ZabError) -> None:
        """The session is over, which is told by itself."""


def _result(asked: Operation | Check, answer: Any) -> Result:
    """What the client's answer to this operation says."""
    if isinstance(answer, RequestError):
        return Result(ErrorCode(answer.code))
    if isinstance(answer, ZabError):
        return Result(ErrorCode(SessionExpiredError.code))
    if answer is None:
        # A delete or a check, or a part of a multi that was undone since another one was refused.
        return Result()
    match asked:
        case Create():
            path, stat = answer
            return Result(path=path, stat=_stat(stat))
        case Get():
            data, stat = answer
            return Result(data=data or b"", stat=_stat(stat))
        case Exists() | Set():
            return Result(stat=_stat(answer))
        case Children():
            names, stat = answer
            return Result(children=tuple(names), stat=_stat(stat))
        case Multi(parts):
            results = tuple(_result(part, each) for part, each in zip(parts, answer, strict=True))
            errors = [each.error for each in results if not each.ok and each.error is not UNDONE]
            return Result(errors[0] if errors else ErrorCode.OK, parts=results)
        case _:
            return Result()


UNDONE: Final = ErrorCode.RUNTIMEINCONSISTENCY
"""A part of a multi that was not done because another one was refused."""


def _stat(stat: ClientStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeral_owner, stat.ctime)
