"""`Keeping`: the job that creates the znode of a presence again if another client has removed it. Pure.

    LOOK --it exists--> WATCHED --an event--> LOOK
    LOOK --it does not--> CREATE --created, or another owner's exists--> LOOK
    CREATE --its parent does not exist--> the parent is created before

If another owner's znode has the path, the presence waits, and comes back when that znode goes. A create that is refused
is tried again after the next event there; until then `refusal` says why, and `signal` is given. That event ends the
refusal: only an answer after it tells whether the znode can be created.

Invariants:
- Nothing is created once its owner has left; the owner's cleanup knows of a create that is in flight then, by `asks`.
"""

from collections.abc import Callable
from typing import Any

from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NodeExistsError, NoNodeError, ZabError
from zab.client.core.operations import Operation
from zab.client.core.records import Acl, EventType, Stat, WatchEvent
from zab.client.recipes.signal import Signal

__all__ = ["Keeping"]


class Keeping:
    """asks: called before each create. made: called with the Stat of what was created."""

    def __init__(
        self,
        zk: Client,
        path: str,
        data: bytes,
        acl: tuple[Acl, ...],
        asks: Callable[[], None],
        made: Callable[[Stat], None],
    ) -> None:
        self.is_done = False
        self.refusal: ZabError | None = None
        """Why the znode does not exist and cannot be created for now; or the error of a session that is over."""
        self.signal = Signal(zk)
        self._zk = zk
        self._path = path
        self._data = data
        self._acl = acl
        self._asks = asks
        self._made = made
        self._is_watched = False
        self._asked: Operation[Any] | None = None
        self._missing: list[str] = []
        """What is to be created, in reverse order."""

    def stop(self) -> None:
        self.is_done = True
        self.signal.give()

    def next(self) -> Operation[Any] | None:
        if self.is_done or self._asked is not None:
            return None
        if self._missing:
            is_own = self._missing[-1] == self._path
            data = self._data if is_own else b""
            if is_own:
                self._asks()
            self._asked = self._zk.operations.create(self._missing[-1], data, self._acl, ephemeral=is_own)
        elif not self._is_watched:
            self._asked = self._zk.operations.exists(self._path, self)
        return self._asked

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        self._asked = None
        if isinstance(error, ConnectionLossError):
            self._missing, self._is_watched = [], False
        elif self._missing:
            self._answered_create(self._missing[-1], result, error)
        else:
            self._is_watched = True
            if isinstance(error, NoNodeError):
                self._missing = [self._path]

    def _answered_create(self, path: str, result: Any, error: ZabError | None) -> None:
        parent = path.rpartition("/")[0]
        if isinstance(error, NoNodeError) and parent:
            self._missing.append(parent)
            return
        self._missing.pop()
        if error is None and path == self._path:
            self._made(result[1])
        elif error is not None and not isinstance(error, NodeExistsError):
            # Refused: the watch reports the next event there.
            self._missing = []
            self._refused(error)
            return
        self._is_watched = self._is_watched and bool(self._missing)

    def deliver(self, event: WatchEvent) -> None:
        if event.type is not EventType.SESSION:
            self._is_watched, self.refusal = False, None

    def end(self, reason: ZabError) -> None:
        self.ended(reason)

    def ended(self, reason: ZabError) -> None:
        if not self.is_done:
            self.is_done = True
            self._refused(reason)

    def _refused(self, error: ZabError) -> None:
        self.refusal = error
        self.signal.give()
