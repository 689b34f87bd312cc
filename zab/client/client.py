"""The client: a session, and every operation of the service as a method.

    async with connect("127.0.0.1:2181,127.0.0.1:2182/app", session_timeout_ms=10_000) as zk:
        await zk.create("/config", b"1")
        data, stat = await zk.get("/config")
        async with zk.watch("/config") as events:
            async for event in events: ...

The block is the client's life: it is entered when a server has the session, and leaving it closes the session, so that
its ephemerals are gone. In between the connection may break and come back any number of times; `state` and `states()`
tell. Methods may be called from any number of tasks at once; their requests share the connection.

`znodes` says what operations have in common, and what they raise. After a lost connection it is unknown whether a write
was done; `retrying()` finds out. Recipes (`zab.client.recipes`) combine several operations, often of several clients.

One class for trio (`zab.client.connect`), asyncio (`zab.client.aio`) and threads (`zab.client.sync`): it waits through
the backend that its runtime was given (`zab.client.core.backends`).
"""

from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from zab.client.core.backends import Scope, Waiter
from zab.client.core.background import BackgroundJob
from zab.client.core.changes import Changes
from zab.client.core.exceptions import RequestError
from zab.client.core.operations import Operation, Operations
from zab.client.core.records import Place, Stat, State, WatchKind, WatchMode
from zab.client.core.runtime import Runtime
from zab.client.core.sending import Sending
from zab.client.core.session import auth_request
from zab.client.core.settings import encoded
from zab.client.core.state_changes import StateChanges
from zab.client.core.watcher import Listener, Watcher
from zab.client.retry import Retrying
from zab.client.znodes import Znodes

__all__ = ["Client"]

T = TypeVar("T")


class Client(Znodes):
    """Made by `connect`; the module docstring says what all methods have in common."""

    def __init__(self, runtime: Runtime, chroot: str = "") -> None:
        self._runtime = runtime
        self._session = runtime.session
        self.operations = Operations(runtime.session, chroot)

    async def perform(self, operation: Operation[T]) -> T:
        return await self._runtime.call(operation.request())

    async def perform_each(self, operations: Iterable[Operation[Any]]) -> list[Any]:
        """Sends the operations in this order, without waiting for one before the next; the result of each, or its
        error."""
        return await self._runtime.call_each([operation.request() for operation in operations])

    def with_chroot(self, path: str) -> "Client":
        """A view of this session whose paths are all below `path`, also those of its watchers and changes."""
        self.operations.exists(path, None)
        return Client(self._runtime, self.operations.chroot + path.rstrip("/"))

    def retrying(self, limit_s: float | None = None) -> Retrying:
        """A view of this client that repeats operations after a lost connection where that is safe
        (`zab.client.retry`).

        limit_s: for one operation with all its repetitions; then its last error is raised. None: as long as the session
        lives.
        """
        return Retrying(self, limit_s)

    # The session.

    @property
    def state(self) -> State:
        return self._session.state

    def states(self) -> StateChanges:
        """`async for state in zk.states()`: the state now, then every change; ends when the session is over."""
        return self._runtime.state_changes()

    @property
    def sending(self) -> Sending:
        return self._session.sending

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_password(self) -> bytes:
        """16 bytes; with `session_id` it lets another client resume the session."""
        return self._session.password

    @property
    def session_timeout_ms(self) -> int:
        """What the server granted."""
        return self._session.session_timeout_ms

    @property
    def session_lives_until(self) -> float:
        """The time of `now()` until which the session surely lives, by this client's clock: it grows with each answer.

        Once it is past, the session may be over though no server has said so, and another client may hold what it held.
        -inf: the session is over.
        """
        lives_until = self._session.lives_until
        return float("-inf") if lives_until is None else lives_until / 1000

    @property
    def last_zxid(self) -> int:
        """The highest zxid that this client has seen. A server that has not reached it is not used."""
        return self._session.last_zxid

    async def add_auth(self, scheme: str, credentials: str | bytes) -> None:
        """Adds an identity to this connection and to every later one. AuthFailedError leaves the others as they are."""
        await self._runtime.call(auth_request(scheme, encoded(credentials)))
        self._session.keep_identity(scheme, encoded(credentials))

    # Watches.

    def watcher(self) -> Watcher:
        """A queue of events for the `watch=` arguments and `add_watch`; `close` it when it is no longer needed."""
        return self._runtime.watcher(self.operations.chroot)

    @asynccontextmanager
    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[Watcher]:
        """A persistent watch for the length of the block: `async for event in events`.

        Its events are changes of the znode and of its list of children; with `recursive`, changes of the znode and of
        every descendant. The znode need not exist. Changes made while no server is connected bring no events: an event
        of type SESSION with state CONNECTED says that there may have been some.
        """
        watcher = self.watcher()
        try:
            mode = WatchMode.PERSISTENT_RECURSIVE if recursive else WatchMode.PERSISTENT
            await self.add_watch(path, watcher, mode)
            yield watcher
        finally:
            watcher.close()

    async def add_watch(self, path: str, watcher: Listener, mode: WatchMode = WatchMode.PERSISTENT_RECURSIVE) -> None:
        """Registers a watch that stays until it is removed or the watcher is closed."""
        await self.perform(self.operations.add_watch(path, watcher, mode))

    async def remove_watches(self, path: str, kind: WatchKind = WatchKind.ANY, *, local: bool = False) -> None:
        """Removes all watches of a kind at `path`; their watchers are told so. NoWatcherError when there is none.

        local: forget them here even if the server cannot be reached or has none.
        """
        operation = self.operations.remove_watches(path, kind)
        try:
            await self.perform(operation)
        except RequestError:
            if not local:
                raise
        self._runtime.forget_watches(self.operations.inner(path), kind)

    # Changes.

    def changes(self, since: int | Place | None = None, prefix: str = "/") -> Changes:
        """`async for change in zk.changes(since, "/app")`: what changed at `prefix` and below it after a zxid.

        In order, each once, whichever servers report them, until the client is closed. See `Changes`.
        """
        return Changes(self._runtime, self.operations, since, prefix)

    # The ensemble.

    async def reconfig(
        self,
        *,
        joining: str | None = None,
        leaving: str | None = None,
        members: str | None = None,
        version: int = -1,
    ) -> tuple[bytes | None, Stat]:
        """Changes the ensemble's members; returns the new configuration. `version` is that of the current one."""
        return await self.perform(self.operations.reconfig(joining, leaving, members, version))

    async def hand_over(self, server_id: int) -> None:
        """Makes another server the leader, as for a rolling restart. Returns when that has begun. A ZooKeeper server
        does not know this operation, and ends the connection."""
        await self.perform(self.operations.hand_over(server_id))

    # For recipes: the caller's library, and the session.

    @property
    def caller(self) -> Hashable:
        """The task or thread that runs now."""
        return self._runtime.backend.caller

    def now(self) -> float:
        """Seconds, by a clock that never goes back."""
        return self._runtime.backend.now()

    def move_on_after(self, seconds: float | None) -> Scope:
        """`async with zk.move_on_after(5) as scope`: the block is left quietly when the time is over (`scope.is_over`).

        None: without a limit.
        """
        return self._runtime.backend.move_on_after(seconds)

    async def sleep(self, seconds: float) -> None:
        async with self.move_on_after(seconds):
            await self.waiter().wait()

    def waiter(self) -> Waiter:
        """Something that happens once: `wake` from anywhere in the client, `wait` by one caller."""
        return self._runtime.backend.waiter()

    def undertake(self, job: BackgroundJob) -> None:
        """The session does the job by itself (`zab.client.core.background`)."""
        self._runtime.undertake(job)

    def stir(self, job: BackgroundJob) -> None:
        """The job may have something to do now."""
        self._runtime.stir(job)
        self._runtime.use_room()

    def release(self, listener: Listener) -> None:
        """The watches of the listener are no longer needed."""
        self._runtime.release(listener)

    def nonce(self) -> str:
        """16 hex digits that nobody else has."""
        return f"{self._runtime.random.getrandbits(64):016x}"
