"""A lease: a lock that ends after a time unless its holder renews it, even if the holder's session lives on.

    lease = Lease(zk, "/leases/a", seconds=10)
    async with lease as held:
        while work(token=held.token):
            await held.renew()

A lock is lost with its session; but a client may be alive and stuck. The next client in the queue watches the holder's
znode, and deletes it if it does not change for as long as the holder's lease. The queue is that of a lock
(`contender`).

- *The holder counts from before* it sent the write that began or renewed its lease, by its own clock; the next in line
  counts from when it read that write, by its own clock. So the holder knows first, if the clocks run at the same speed:
  the next in line waits longer by `CLOCK_DRIFT` of the time.
- *The lease begins with a write*, not with the turn, of which its holder might learn later than the next in line. Each
  renewal is a write as well, and the next in line deletes only the version that did not change. So a renewal that was
  answered is in time, and one that is too late is refused.
- Only the first in the queue is measured, and only by the second.

The znode's data is JSON: {"name": …, "seconds": …}. If it is something else, the next in line uses its own lease time.

`owning` has all ways to take it and to give it back. Raises, besides the errors of requests: WaitOverError; LostError
from `renew`, if the lease is over or its znode was deleted; RuntimeError as `owning` says.
"""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Final

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import BadVersionError, ConnectionLossError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl, EventType
from zab.client.recipes.contender import Contender, Rival
from zab.client.recipes.errors import LostError
from zab.client.recipes.holding import Held, Hold
from zab.client.recipes.owning import Owned
from zab.client.recipes.paths import checked

__all__ = ["CLOCK_DRIFT", "Lease", "Leased"]

CLOCK_DRIFT: Final = 0.05
_KINDS: Final = ("lease-",)


class Leased(Held):
    """A `Held` that ends at `ends_at` (seconds of `zk.now()`) at the latest."""

    def __init__(self, zk: Client, hold: Hold, contender: Contender, seconds: float, data: bytes) -> None:
        super().__init__(hold, contender)
        self.ends_at = 0.0
        self._zk = zk
        self._seconds = seconds
        self._data = data
        self._version = 0

    @property
    def is_held(self) -> bool:
        if self._zk.now() >= self.ends_at:
            self._hold.lose("its time is over, and it was not renewed")
        return super().is_held

    async def lost(self) -> None:
        """Returns when it may be lost, when its time is over, or once it is released."""
        while self.is_held:
            async with self._zk.move_on_after(self.ends_at - self._zk.now()):
                await super().lost()

    async def renew(self) -> None:
        """Extends it to `seconds` after this was called. Raises LostError if it is over already."""
        self.check()
        await self._write()

    async def _write(self) -> None:
        """Makes the next version of its znode, which others measure."""
        began, attempts = self._zk.now(), Attempts()
        while True:
            try:
                await self._zk.set(self.path, self._data, self._version)
            except ConnectionLossError as error:
                if not error.definite and await self._is_written():
                    break
                attempts.again(error)
                if self._version > 0:
                    self.check()
            except (BadVersionError, NoNodeError):
                self._hold.lose("its znode is gone: somebody took it for over")
                break
            else:
                break
        self._version += 1
        self.ends_at = began + self._seconds
        self.check()

    async def _is_written(self) -> bool:
        """Whether the write was done whose answer was lost. No other client writes."""
        steady = self._zk.retrying()
        await steady.sync(self.path)
        stat = await steady.exists(self.path)
        return stat is not None and stat.version > self._version


class Lease(Owned[Leased]):
    """seconds: how long it lasts without being renewed; it may be less than the session timeout."""

    def __init__(self, zk: Client, path: str, *, seconds: float, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        if not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"a lease of {seconds} s is none: give a time above 0")
        checked(zk, path)
        super().__init__(zk, path)
        self.seconds = seconds
        self._acl = tuple(acl)
        self._data = json.dumps({"name": name, "seconds": seconds}).encode()

    async def _take(self, wait_s: float | None) -> Leased | None:
        leased = None
        async with self._zk.move_on_after(wait_s):
            while leased is None:
                leased = await self._attempt()
        return leased

    async def _attempt(self) -> Leased | None:
        """Waits for the turn, and begins the lease. None if that was too late: then another attempt follows."""
        contender = Contender(self._zk, self.path, _KINDS, self._data, self._acl)
        leased = None
        try:
            await contender.enter()
            while ahead := await contender.ahead():
                if len(ahead) == 1:
                    await self._outlast(ahead[0])
                else:
                    await contender.wait_gone(ahead[-1])
            assert contender.path is not None
            hold = Hold(self._zk, contender.path, contender.czxid)
            self._zk.undertake(hold)
            begun = Leased(self._zk, hold, contender, self.seconds, self._data)
            await begun._write()
            leased = begun
        except LostError:
            return None
        finally:
            if leased is None:
                await contender.leave()
        return leased

    async def _outlast(self, holder: Rival) -> None:
        """Returns when the holder may be gone, or has renewed; deletes its znode if it did not renew in time."""
        path = f"{self.path.rstrip('/')}/{holder.name}"
        steady = self._zk.retrying()
        watcher = self._zk.watcher()
        try:
            data, stat = await steady.get(path, watch=watcher)
            async with self._zk.move_on_after(self._seconds_of(data) * (1 + CLOCK_DRIFT)) as scope:
                while (await watcher.receive()).type is EventType.SESSION:
                    pass
            if scope.is_over:
                await self._zk.delete(path, stat.version)
        except (NoNodeError, BadVersionError, ConnectionLossError):
            # Gone, renewed, or unknown: the caller looks again.
            return
        finally:
            watcher.close()

    def _seconds_of(self, data: bytes | None) -> float:
        try:
            seconds = float(json.loads(data or b"")["seconds"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return self.seconds
        return seconds if isfinite(seconds) and seconds > 0 else self.seconds
