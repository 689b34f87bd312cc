"""The client that blocks: a session, and every operation as a method; see `zab.client.client`."""

from collections.abc import Coroutine, Generator, Hashable
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import zab.client.client as awaited
from zab.client.building import Options, connect_wait_ms, context_of, new_runtime
from zab.client.core import backends
from zab.client.core.misuse import no_listener
from zab.client.core.records import State, WatchMode
from zab.client.core.runtime import Runtime
from zab.client.on_threads import OnThreads
from zab.client.sync.blocking import Blocking, blocking, immediate
from zab.client.sync.watching import Changes, StateChanges, Watcher
from zab.client.sync.znodes import Znodes

__all__ = ["Client", "Scope", "connect"]

T = TypeVar("T")


def connect(hosts: str, **options: Unpack[Options]) -> "Client":
    """A client whose session lives until it is closed: by `close`, or at the end of its `with` block.

    See `Options` (`zab.client.building`) for the keywords and what is raised.
    """
    backend = OnThreads(context_of(options))
    runtime = new_runtime(backend, hosts, options)
    backend.start(runtime)
    zk = Client(backend, runtime, awaited.Client(runtime))
    is_connected = False
    try:
        backend.run(runtime.wait_connected(connect_wait_ms(runtime)))
        is_connected = True
    finally:
        if not is_connected:
            zk.close()
    return zk


class Client(Znodes):
    """Made by `connect`."""

    waiting: awaited.Client

    def __init__(self, backend: OnThreads, runtime: Runtime, client: awaited.Client) -> None:
        super().__init__(backend, client)
        self._backend = backend
        self._runtime = runtime

    def close(self) -> None:
        """Closes the session, so that its ephemerals are gone. A second call does nothing, nor does a call in a fork of
        the process that made the client."""
        if self._backend.origin.is_forked:
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
        """Runs a coroutine that awaits nothing but this client, such as a recipe's, to its end in this thread."""
        return self._backend.run(coroutine)

    def alone(self) -> AbstractContextManager[None]:
        """No other thread runs code of the client within the block, which waits for nothing."""
        return self._backend.alone()

    def with_chroot(self, path: str) -> "Client":
        """A view of this session whose paths are all below `path`."""
        return Client(self._backend, self._runtime, self.waiting.with_chroot(path))

    retrying = immediate(awaited.Client.retrying, Znodes)

    # The session.

    @property
    def state(self) -> State:
        return self.waiting.state

    states = immediate(awaited.Client.states, StateChanges)

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

    add_auth = blocking(awaited.Client.add_auth)

    # Watches.

    watcher = immediate(awaited.Client.watcher, Watcher)

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

    remove_watches = blocking(awaited.Client.remove_watches)

    # Changes, and the ensemble.

    changes = immediate(awaited.Client.changes, Changes)
    reconfig = blocking(awaited.Client.reconfig)
    hand_over = blocking(awaited.Client.hand_over)

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

    sleep = blocking(awaited.Client.sleep)


class Scope(Blocking[backends.Scope]):
    """A time limit for what is done in its block."""

    @property
    def is_over(self) -> bool:
        """The block was left because the time was over."""
        return self.waiting.is_over

    def __enter__(self) -> Self:
        self._runner.run(self.waiting.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return self._runner.run(self.waiting.__aexit__(kind, error, traceback))
