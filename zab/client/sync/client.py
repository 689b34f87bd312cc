"""The client that blocks: a session, and every operation as a method; `zab.client.client` has the words."""

from collections.abc import Coroutine, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import zab.client.client as waiting
from zab.client.building import Options, connect_wait_ms, context_of, new_runtime
from zab.client.core import backends as faces
from zab.client.core.misuse import no_listener
from zab.client.core.records import Place, Stat, State, WatchKind, WatchMode
from zab.client.core.runtime import Runtime
from zab.client.on_threads import OnThreads
from zab.client.sync.watching import Changes, StateChanges, Watcher
from zab.client.sync.znodes import Znodes

__all__ = ["Client", "connect"]

T = TypeVar("T")


def connect(hosts: str, **options: Unpack[Options]) -> "Client":
    """A client whose session lives until it is closed: by `close`, or at the end of its `with` block.

    `Options` (`zab.client.building`) says what there is, and what is raised.
    """
    backend = OnThreads(context_of(options))
    runtime = new_runtime(backend, hosts, options)
    backend.start(runtime)
    zk = Client(backend, runtime, waiting.Client(runtime))
    is_connected = False
    try:
        backend.run(runtime.wait_connected(connect_wait_ms(runtime)))
        is_connected = True
    finally:
        if not is_connected:
            zk.close()
    return zk


class Client(Znodes):
    """Made by `connect`. waiting: the same client, whose methods are coroutines."""

    def __init__(self, backend: OnThreads, runtime: Runtime, client: waiting.Client) -> None:
        super().__init__(backend, client)
        self._runtime = runtime
        self.waiting = client

    def close(self) -> None:
        """Closes the session, so that its ephemerals are gone. A second time nothing happens, nor in a fork of the
        process that made the client."""
        if self._backend.origin.is_elsewhere:
            return
        if not self._runtime.is_over or self.state is not State.CLOSED:
            self._backend.run(self._runtime.close())
        self._backend.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs what awaits nothing but this client, such as a recipe's, to its end in this thread."""
        return self._backend.run(coroutine)

    def alone(self) -> AbstractContextManager[None]:
        """No other thread runs code of the client within the block, which waits for nothing."""
        return self._backend.alone()

    def with_chroot(self, path: str) -> "Client":
        """The same session, whose paths are all below `path` now."""
        return Client(self._backend, self._runtime, self.waiting.with_chroot(path))

    def retrying(self, limit_s: float | None = None) -> Znodes:
        """The same operations, sent again after a lost connection where that may be done (`zab.client.retry`)."""
        return Znodes(self._backend, self.waiting.retrying(limit_s))

    # The session.

    @property
    def state(self) -> State:
        return self.waiting.state

    def states(self) -> StateChanges:
        """`for state in zk.states()`: the state now, then every change; ends when the session is over."""
        with self._backend.alone():
            return StateChanges(self._backend, self.waiting.states())

    @property
    def session_id(self) -> int:
        return self.waiting.session_id

    @property
    def session_password(self) -> bytes:
        """16 bytes; with `session_id` it lets another client resume the session."""
        return self.waiting.session_password

    @property
    def session_timeout_ms(self) -> int:
        """What the server granted."""
        return self.waiting.session_timeout_ms

    @property
    def session_lives_until(self) -> float:
        """The time of `now()` until which the session surely lives, by this client's clock."""
        with self._backend.alone():
            return self.waiting.session_lives_until

    @property
    def last_zxid(self) -> int:
        """The highest zxid that this client has seen. A server that has not reached it is not used."""
        return self.waiting.last_zxid

    def add_auth(self, scheme: str, credentials: str | bytes) -> None:
        """Adds an identity to this connection and to every later one. AuthFailedError leaves the others as they are."""
        self._backend.run(self.waiting.add_auth(scheme, credentials))

    # Watches.

    def watcher(self) -> Watcher:
        """A queue of events for the `watch=` arguments and `add_watch`; `close` it when it is not needed any more."""
        with self._backend.alone():
            return Watcher(self._backend, self.waiting.watcher())

    @contextmanager
    def watch(self, path: str, *, recursive: bool = False) -> Generator[Watcher]:
        """A persistent watch for the length of the block: `for event in events`."""
        watcher = self.watcher()
        try:
            mode = WatchMode.PERSISTENT_RECURSIVE if recursive else WatchMode.PERSISTENT
            self.add_watch(path, watcher, mode)
            yield watcher
        finally:
            watcher.close()

    def add_watch(self, path: str, watcher: Watcher, mode: WatchMode = WatchMode.PERSISTENT_RECURSIVE) -> None:
        """Registers a watch that stays until it is removed or the watcher is closed."""
        if not isinstance(watcher, Watcher):
            raise no_listener(watcher)
        self._backend.run(self.waiting.add_watch(path, watcher.waiting, mode))

    def remove_watches(self, path: str, kind: WatchKind = WatchKind.ANY, *, local: bool = False) -> None:
        """Removes all watches of a kind at `path`; their watchers are told so. NoWatcherError when there is none."""
        self._backend.run(self.waiting.remove_watches(path, kind, local=local))

    def changes(self, since: int | Place | None = None, prefix: str = "/") -> Changes:
        """`for change in zk.changes(since, "/app")`: what changed at `prefix` and below it after a zxid."""
        return Changes(self._backend, self.waiting.changes(since, prefix))

    def reconfig(
        self,
        *,
        joining: str | None = None,
        leaving: str | None = None,
        members: str | None = None,
        version: int = -1,
    ) -> tuple[bytes | None, Stat]:
        """Changes the ensemble's members; returns the new configuration. `version` is that of the current one."""
        return self._backend.run(
            self.waiting.reconfig(joining=joining, leaving=leaving, members=members, version=version)
        )

    def hand_over(self, server_id: int) -> None:
        """Has another server lead. Returns when that has begun."""
        self._backend.run(self.waiting.hand_over(server_id))

    # Time.

    @property
    def caller(self) -> Hashable:
        """The thread that runs now."""
        return self.waiting.caller

    def now(self) -> float:
        """Seconds, by a clock that never goes back."""
        return self.waiting.now()

    def move_on_after(self, seconds: float | None) -> "Scope":
        """`with zk.move_on_after(5) as scope`: the block is left quietly when the time is over (`scope.is_over`).

        It ends what waits for this client in this thread; nothing else is interrupted.
        """
        return Scope(self._backend, self.waiting.move_on_after(seconds))

    def sleep(self, seconds: float) -> None:
        """Waits, no longer than the limits of time around it."""
        self._backend.run(self.waiting.sleep(seconds))


class Scope:
    """A time limit for what is done in its block."""

    def __init__(self, backend: OnThreads, scope: faces.Scope) -> None:
        self._backend = backend
        self._scope = scope

    @property
    def is_over(self) -> bool:
        """The block was left because the time was over."""
        return self._scope.is_over

    def __enter__(self) -> Self:
        self._backend.run(self._scope.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return self._backend.run(self._scope.__aexit__(kind, error, traceback))
