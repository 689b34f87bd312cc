"""What a client holds by an ephemeral znode of its session: `Held` for its holder, and `Hold`, the job behind it.

    async with Lock(zk, "/locks/a") as held:
        store.write(data, token=held.token)
        ...
        await held.lost()

The token is the znode's czxid. Those of successive holders grow, so whoever is handed one, together with a request, can
refuse what comes from a holder before the last: that is what makes a lock safe, since no client can know in time that
its session has ended. What `Held` can say is this:

- `is_held` is True while the session surely lives, by this client's own clock: it counts from the moment when the last
  thing was sent that a server has answered. And the znode is there, as far as this client was told.
- `lost` returns when that is over. Once it is, it stays so, even should the session turn out to have lived on.

A `Held` is the ownership itself: whoever has it may use it and give it back (`release`), in any task or thread.

Invariants:
- A watch is not believed: after every event the znode is read again, and compared by its czxid.
- A hold that is lost or let go of asks for nothing more.
"""

from typing import Any

from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NoNodeError, ZabError
from zab.client.core.operations import Operation
from zab.client.core.records import EventType, Stat, WatchEvent
from zab.client.recipes.errors import LostError
from zab.client.recipes.signal import Signal
from zab.client.recipes.standing import Standing

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
        """Returns when it is lost, or let go of."""
        while not self.is_lost:
            # Whatever is heard meanwhile moves the end of the session: then this looks again.
            await self._signal.wait(self._zk.session_lives_until - self._zk.now())

    def stop(self) -> None:
        """Its holder lets go of it."""
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
    """What its holder has of it; see the module.

    path: of the holder's znode. token: grows from one holder to the next. is_released: it was given back.
    """

    def __init__(self, hold: Hold, standing: Standing, token: int | None = None) -> None:
        self.path = hold.path
        self.token = hold.czxid if token is None else token
        self.is_released = False
        self.standing = standing
        self._hold = hold

    def __repr__(self) -> str:
        state = "held" if self.is_held else self._hold.reason or "released"
        return f"<Held {self.path}, token {self.token:#x}: {state}>"

    @property
    def is_held(self) -> bool:
        return not self._hold.is_lost

    async def release(self) -> None:
        """Gives it back, whichever task or thread calls this. It is free when this returns; while no server is there,
        as soon as one is. What was given back already stays so."""
        if not self.is_released:
            self._stop()
            await self.standing.leave()

    def _let_go(self) -> None:
        """As `release`, and waits for nothing, so that no cancellation comes in between: for other recipes."""
        if not self.is_released:
            self._stop()
            self.standing.abandon()

    def _stop(self) -> None:
        self.is_released = True
        self._hold.stop()

    async def lost(self) -> None:
        """Returns when it may be lost: stop what needs it. Returns as well once it is released."""
        await self._hold.lost()

    def check(self) -> None:
        """Raises LostError when it may be lost, or is released."""
        if not self.is_held:
            raise LostError(self.path, self._hold.reason or "it is released")
