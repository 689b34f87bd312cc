"""Operations of pure code (`zab.coordination`) on this client, and the sessions of a service that lives by them.

    OnClient(client, acl, tell)     on one client, for as long as its session lives
      submit(effect)                begins these operations; their results are told together
      run()                         carries out what is submitted, until the session is over

    Coordination(hosts, …)          the same for a service: after a session has expired, it has a new one
      submit(effect), run()         `run` ends only when it is cancelled

What is told is an input of a turn: `Connected`, `Suspended`, `Expired`, `WatchFired`, `Results`. `Coordination` creates
the path that the hosts end with, below which the service has its znodes.

An answer that is lost with its connection is told as CONNECTIONLOSS: the operation was done, or was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, assert_never

import attrs
import trio

from datatree.errors import ErrorCode
from zab.client.client import Client
from zab.client.core import operations as client_operations
from zab.client.core.exceptions import NotConnectedError, RequestError, SessionExpiredError, ZabError
from zab.client.core.records import OPEN_ACL, Acl, EventType, WatchEvent
from zab.client.core.records import Stat as ClientStat
from zab.client.core.settings import SaslLogin, Settings
from zab.client.on_trio import Dialler, connect
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
        client = self._client
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
                return of.create(path, data, self._acl(path), ephemeral=ephemeral, sequence=sequential)
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
