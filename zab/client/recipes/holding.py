"""What a client holds with an ephemeral znode of its session: `Held` for its holder, and `Hold`, the job that watches
it.

    async with Lock(zk, "/locks/a") as held:
        store.write(data, token=held.token)
        ...
        await held.lost()

The token is the znode's czxid. The tokens of successive holders grow, so a service that gets one with each request can
refuse requests of earlier holders: that is what makes a lock safe, since no client can know in time that its session
has ended. What `Held` can say is this:

- `is_held` is True while the session surely lives by this client's clock, counted from the time at which the last
  message was sent that a server has answered, and the znode exists as far as this client was told.
- `lost` returns when that is over. It stays lost even if the session turns out to have lived on.

A `Held` is the ownership itself: any task or thread that has it may use it and give it back (`release`).

Invariants:
- A watch event is only a hint: after every event the znode is read again, and its czxid is compared.
- A hold that is lost or given back sends no more requests.
"""

from typing import Any

from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NoNodeError, ZabError
from zab.client.core.operations import Operation
from zab.client.core.records import EventType, Stat, WatchEvent
from zab.client.recipes.errors import LostError
from zab.client.recipes.removable import Removable
from zab.client.recipes.signal import Signal

__all__ = ["Held", "Hold"]


class Hold:
    """A job that watches over the znode at `path` with this czxid."""

    def __init__(self, zk: Client, path: str, czxid: int) -> None:
        self.is_done = False
        self.reason: str | None = None
        """Why it is lost; None as long as it is not."""
        self.path = path
        self.czxid = czxid
        self._zk = zk
        self._is_watched = False
        self._asked: Operation[Any] | None = None
        self._signal = Signal(zk)

    @property
    def is_lost(self) -> bool:
        if not self.is_done and self._zk.now() >= self._zk.session_lives_until:
            self.lose("no server was heard for as long as the session allows")
        return self.is_done

    async def lost(self) -> None:
        """Returns when it is lost or given back."""
        while not self.is_lost:
            # Each answer meanwhile moves the end of the session: then this looks again.
            await self._signal.wait(self._zk.session_lives_until - self._zk.now())

    def stop(self) -> None:
        """Its holder gives it back."""
        self.is_done = True
        self._signal.give()

    def lose(self, reason: str) -> None:
        """It is lost, and stays so."""
        if not self.is_done:
            self.is_done, self.reason = True, reason
            self._signal.give()

    # The job.

    def next(self) -> Operation[Any] | None:
        if self.is_done or self._is_watched or self._asked is not None:
            return None
        self._asked = self._zk.operations.exists(self.path, self)
        return self._asked

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        self._asked = None
        if isinstance(error, ConnectionLossError):
            self._signal.give()
        elif isinstance(error, NoNodeError):
            self.lose("its znode is gone")
        elif error is not None:
            self.lose(f"its znode cannot be read: {error}")
        elif isinstance(result, Stat) and result.czxid != self.czxid:
            self.lose("its znode is gone, and another one has its name")
        else:
            self._is_watched = True

    def deliver(self, event: WatchEvent) -> None:
        if event.type is not EventType.SESSION:
            self._is_watched = False
        self._signal.give()

    def end(self, reason: ZabError) -> None:
        self.lose(str(reason))

    def ended(self, reason: ZabError) -> None:
        self.lose(str(reason))


class Held:
    """The ownership.

    path: that of the holder's znode. token: grows from one holder to the next. is_released: it was given back.
    """

    def __init__(self, hold: Hold, removable: Removable, token: int | None = None) -> None:
        self.path = hold.path
        self.token = hold.czxid if token is None else token
        self.is_released = False
        self.removable = removable
        self._hold = hold

    def __repr__(self) -> str:
        state = "held" if self.is_held else self._hold.reason or "released"
        return f"<Held {self.path}, token {self.token:#x}: {state}>"

    @property
    def is_held(self) -> bool:
        return not self._hold.is_lost

    async def release(self) -> None:
        """Gives it back, from any task or thread. It is free when this returns; without a server, as soon as one is
        connected. Further calls do nothing."""
        if not self.is_released:
            self._stop()
            await self.removable.leave()

    def _let_go(self) -> None:
        """Like `release`, but does not wait, so that it cannot be cancelled: for other recipes."""
        if not self.is_released:
            self._stop()
            self.removable.abandon()

    def _stop(self) -> None:
        self.is_released = True
        self._hold.stop()

    async def lost(self) -> None:
        """Returns when it may be lost: then stop the work that needs it. Also returns once it is released."""
        await self._hold.lost()

    def check(self) -> None:
        """Raises LostError if it may be lost, or is released."""
        if not self.is_held:
            raise LostError(self.path, self._hold.reason or "it is released")
