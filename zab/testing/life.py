"""One life of a member: the server of `zab.server`, from a start to its end, in a thread of its own that runs trio.

A member that has a thread to itself can stand still as a process does that is stopped, and ends as abruptly as one that
is killed: what its disk has not begun to write is lost, its connections are closed by nobody but the kernel.

All methods are called from other threads, and none of them needs a loop: they are the same for plain code, asyncio and
trio. They wait for the thread of the member for as long as it takes to answer, which is a moment.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Final, TypeVar

import trio

from zab.host.loop.dial import Dial
from zab.member.settings.config import Config
from zab.protocol.effects import RoleChanged
from zab.server.server import Observers, Server, run_once
from zab.testing.journals import Lines, whose

T = TypeVar("T")

_PROBE_SECONDS: Final = 0.05


class _Ending:
    """What ends the thread is kept, whatever it is."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._life.ended(error)
        return True


class Life:
    """`changed` is called, in the thread of the member, whenever something of what is public here is another."""

    def __init__(self, config: Config, dial: Dial, lines: Lines, changed: Callable[[], None]) -> None:
        self.role: RoleChanged | None = None
        """The last that the member said of it."""
        self.is_listening = False
        self.has_ended = False
        self.is_paused = False
        self.failure: BaseException | None = None
        """What ended it, unless it was told to end."""
        self._config = config
        self._dial = dial
        self._changed = changed
        self.server: Server | None = None
        self._drops = False
        self._going_on = threading.Event()
        self._going_on.set()
        self._began = threading.Event()
        self._settled = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        context = contextvars.Context()
        context.run(whose.set, lines)
        name = f"zab member {config.server_id}"
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Begin; `changed` tells of the rest."""
        self._thread.start()

    def wait_until_listening(self) -> None:
        """Returns when its ports listen, or when it has ended."""
        self._settled.wait()

    @property
    def is_serving(self) -> bool:
        """Whether it takes requests of clients, as far as it knows."""
        return not self.has_ended and self.is_listening and self.role is not None and self.role.serving

    def let_go(self, *, drops: bool) -> None:
        """Have it end. `drops`: at once, with all that its disk has not begun to write."""
        self._drops = drops
        self._began.wait()
        self._tell(self._scope.cancel)
        self._going_on.set()

    def end(self, *, drops: bool) -> None:
        """The same, and return when it has ended."""
        self.let_go(drops=drops)
        self._thread.join()

    def pause(self) -> None:
        """Nothing of it moves from here on, until `resume`. What comes to it waits."""
        if self.is_paused:
            return
        self._going_on.clear()
        self.is_paused = True
        self.ask(lambda _server: None, then=self._going_on.wait)

    def resume(self) -> None:
        self.is_paused = False
        self._going_on.set()

    def ask(self, question: Callable[[Server], T], then: Callable[[], object] = lambda: None) -> T | None:
        """What the question, which raises nothing, finds between two turns of this member; None once it has ended.
        `then` is called after that, still between these turns."""
        answer: Future[T | None] = Future()

        def put() -> None:
            answer.set_result(None if self.server is None else question(self.server))
            then()

        self._began.wait()
        self._tell(put)
        while not self.has_ended:
            with contextlib.suppress(TimeoutError):
                return answer.result(_PROBE_SECONDS)
        return None

    def _tell(self, call: Callable[[], object]) -> None:
        """Have this called in the thread of the member; nothing happens if it has ended."""
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(call)

    # ---------------------------------------------------------------------------------------------------- in its thread

    def _run(self) -> None:
        with _Ending(self):
            trio.run(self._serve)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._began.set()
        with self._scope:
            filled, config = None, self._config
            observers = Observers(opened=self._opened, started=self._started, role_changed=self._role_changed)
            while True:
                try:
                    filled, config = await run_once(
                        config, filled, observers, dial=self._dial, drops=lambda: self._drops
                    )
                finally:
                    self.server = None

    def _opened(self, server: Server) -> None:
        self.server = server

    def _started(self) -> None:
        self.is_listening = True
        self._settled.set()
        self._changed()

    def _role_changed(self, role: RoleChanged) -> None:
        self.role = role
        self._changed()

    def ended(self, failure: BaseException | None) -> None:
        """The thread is about to end."""
        self.failure = failure
        self.has_ended = True
        self._began.set()
        self._settled.set()
        self._changed()
