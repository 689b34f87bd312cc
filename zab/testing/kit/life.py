"""One life of a member: a service, from a start to its end, in a thread of its own that runs trio.

A member with a thread of its own can be paused like a stopped process, and can end as abruptly as a killed one: writes
that its disk has not begun are lost, and its connections are only closed by the kernel.

All methods are called from other threads, and none of them needs an event loop: they are the same for plain code,
asyncio and trio. They wait until the thread of the member answers, which takes a moment.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

import trio

from zab.testing.kit.journals import Lines, whose

_PROBE_SECONDS: Final = 0.05


S = TypeVar("S")
T = TypeVar("T")


class _Ending:
    """Keeps the exception that ends the thread."""

    def __init__(self, life: Life[Any]) -> None:
        self._life = life

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._life.ended(error)
        return True


class Life(Generic[S]):
    """`serve` runs the service until it is cancelled, and calls `opened`, `started` and `closed`. `changed` is called,
    in the thread of the member, whenever something of what is public here is another."""

    def __init__(
        self, name: str, serve: Callable[[Life[S]], Awaitable[None]], lines: Lines, changed: Callable[[], None]
    ) -> None:
        self.is_listening = False
        self.has_ended = False
        self.is_paused = False
        self.failure: BaseException | None = None
        """What ended it, unless it was told to end."""
        self._serve_until_cancelled = serve
        self._changed = changed
        self.service: S | None = None
        self.drops = False
        """For `serve`: whether the end loses what the disk has not begun to write."""
        self._going_on = threading.Event()
        self._going_on.set()
        self._began = threading.Event()
        self._settled = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        context = contextvars.Context()
        context.run(whose.set, lines)
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Begin; `changed` tells of the rest."""
        self._thread.start()

    def wait_until_listening(self) -> None:
        """Returns when its ports listen, or when it has ended."""
        self._settled.wait()

    def let_go(self, *, drops: bool) -> None:
        """Have it end. `drops`: at once, with all that its disk has not begun to write."""
        self.drops = drops
        self._began.wait()
        self._tell(self._scope.cancel)
        self._going_on.set()

    def end(self, *, drops: bool) -> None:
        """End the life, and return when it has ended."""
        self.let_go(drops=drops)
        self._thread.join()

    def pause(self) -> None:
        """Nothing of it moves from here on, until `resume`. What comes to it waits."""
        if self.is_paused:
            return
        self._going_on.clear()
        self.is_paused = True
        self.ask(lambda _service: None, then=self._going_on.wait)

    def resume(self) -> None:
        self.is_paused = False
        self._going_on.set()

    def ask(self, question: Callable[[S], T], then: Callable[[], object] = lambda: None) -> T | None:
        """What the question, which raises nothing, finds between two turns of this member; None once it has ended.
        `then` is called after that, still between these turns."""
        answer: Future[T | None] = Future()

        def put() -> None:
            answer.set_result(None if self.service is None else question(self.service))
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
            await self._serve_until_cancelled(self)

    def opened(self, service: S) -> None:
        """For `serve`: this service can be asked from now on."""
        self.service = service

    def closed(self) -> None:
        """For `serve`: there is nothing to ask until the next one is opened."""
        self.service = None

    def started(self) -> None:
        """For `serve`: its ports listen."""
        self.is_listening = True
        self._settled.set()
        self._changed()

    def ended(self, failure: BaseException | None) -> None:
        """The thread is about to end."""
        self.failure = failure
        self.has_ended = True
        self._began.set()
        self._settled.set()
        self._changed()
