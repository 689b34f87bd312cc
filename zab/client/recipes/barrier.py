"""Barriers: `Barrier`, which blocks all clients while it exists, and `DoubleBarrier`, where clients begin and end
together.

    barrier = Barrier(zk, "/barriers/a")
    await barrier.create()
    await barrier.wait()                                # in other clients, until one calls `remove`

    async with DoubleBarrier(zk, "/barriers/b", count=3):
        ...                                             # begins when three are there, ends when all of them are done

A double barrier has rounds, one after the other:

    CLOSED --`count` members are there--> OPEN --no member is left--> CLOSED

The state is the data of its znode (empty or "open"), changed with its version, so each change happens once; a member is
an ephemeral child.

- *A client enters* by creating its child while the znode has the version of CLOSED, in one transaction. So no client
  enters a round that has begun; it waits for the next one. A client that sees `count` members opens the round.
- *A client that waits for the next round* watches the first member of this one, which leaves last: the round ends with
  its members, even if none of them lives long enough to end it.
- *To leave*, each member waits for one other: the first member for the last, the others, once they have removed their
  own znodes, for the first. So no client wakes in vain.
- A member whose session ends has left, also from a round that has not begun: then another one has to come.

Raises, besides the errors of requests: WaitOverError; LostError if another client deleted the znode of a member.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from zab.client.attempts import Attempts
from zab.client.cleanup import Cleanup
from zab.client.client import Client
from zab.client.core.exceptions import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.recipes.contender import mark_of
from zab.client.recipes.errors import LostError, WaitOverError
from zab.client.recipes.paths import checked
from zab.client.recipes.removable import clean_up

__all__ = ["Barrier", "DoubleBarrier"]

_OPEN: Final = b"open"
_KIND: Final = "member"


class Barrier:
    """Blocks all clients while its znode exists. acl: the ACL of the znode."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        checked(zk, path)
        self.path = path
        self._zk = zk
        self._steady = zk.retrying()
        self._acl = tuple(acl)

    async def create(self) -> None:
        """From now on all clients wait. No error if the barrier exists."""
        await self._steady.ensure_path(self.path, self._acl)

    async def remove(self) -> None:
        """Lets all clients go on. No error if the barrier does not exist."""
        attempts = Attempts()
        while True:
            try:
                await self._zk.delete(self.path)
            except NoNodeError:
                return
            except ConnectionLossError as error:
                attempts.again(error)
                continue
            return

    async def wait(self, wait_s: float | None = None) -> None:
        """Returns when the barrier does not exist. Raises WaitOverError."""
        watcher = self._zk.watcher()
        try:
            async with self._zk.move_on_after(wait_s):
                while await self._steady.exists(self.path, watch=watcher) is not None:
                    await watcher.receive()
                return
        finally:
            watcher.close()
        raise WaitOverError(self.path, wait_s)


class DoubleBarrier:
    """count: how many begin together. name: that of this member. An object takes part in one round at a time."""

    def __init__(self, zk: Client, path: str, *, count: int, name: str = "", acl: Iterable[Acl] = OPEN_ACL) -> None:
        if count < 1:
            raise ValueError(f"a barrier for {count} holds nobody up: give 1 or more")
        self.path = checked(zk, path)
        self.count = count
        self._zk = zk
        self._steady = zk.retrying()
        self._name = name.encode()
        self._acl = tuple(acl)
        self._member: str | None = None
        self._round = 0
        """The version of the znode while the round of this member is on."""

    async def enter(self, wait_s: float | None = None) -> None:
        """Returns when `count` members are there. Raises WaitOverError; then this client is not a member."""
        if self._member is not None:
            raise RuntimeError(f"{self.path} was entered already, and not left")
        self._member = f"{mark_of(self._zk)}{_KIND}"
        has_begun = False
        try:
            async with self._zk.move_on_after(wait_s):
                await self._come()
                await self._begin()
                has_begun = True
        finally:
            if not has_begun:
                self._abandon()
        if not has_begun:
            raise WaitOverError(self.path, wait_s)

    async def leave(self, wait_s: float | None = None) -> None:
        """Returns when all members of the round have left. Raises WaitOverError; this member has left even then."""
        if self._member is None:
            raise RuntimeError(f"{self.path} was not entered")
        is_over = False
        try:
            async with self._zk.move_on_after(wait_s):
                await self._end()
                is_over = True
        finally:
            self._abandon()
        if not is_over:
            raise WaitOverError(self.path, wait_s)

    async def __aenter__(self) -> Self:
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave()

    async def members(self) -> list[str]:
        """The names of the members that are there."""
        names = []
        for member in await self._children():
            try:
                data, _ = await self._steady.get(f"{self.path}/{member}")
            except NoNodeError:
                # It has left meanwhile.
                continue
            names.append((data or b"").decode("utf-8", "replace"))
        return names

    # Entering.

    async def _come(self) -> None:
        """Makes this client a member of a round that has not begun."""
        path, attempts = f"{self.path}/{self._member}", Attempts()
        while True:
            version = await self._wait_closed()
            transaction = self._zk.transaction()
            transaction.check(self.path, version)
            transaction.create(path, self._name, self._acl, ephemeral=True)
            try:
                await transaction.commit()
            except NodeExistsError:
                # No other client has the mark: an answer was lost.
                return
            except (BadVersionError, ConnectionLossError, NoNodeError) as error:
                if not isinstance(error, BadVersionError):
                    attempts.again(error)
                await self._steady.sync(path)
                if await self._steady.exists(path) is not None:
                    return
            else:
                return

    async def _wait_closed(self) -> int:
        """The version of the znode between two rounds."""
        watcher, attempts = self._zk.watcher(), Attempts()
        try:
            while True:
                try:
                    data, stat = await self._steady.get(self.path, watch=watcher)
                except NoNodeError as error:
                    attempts.again(error)
                    await self._steady.ensure_path(self.path, self._acl)
                    continue
                if data != _OPEN:
                    return stat.version
                members = await self._children()
                if not members:
                    # Its last member did not live to end it.
                    await self._close(stat.version, attempts)
                elif await self._steady.exists(f"{self.path}/{members[0]}", watch=watcher) is not None:
                    await watcher.receive()
        finally:
            watcher.close()

    async def _begin(self) -> None:
        """Returns when the round is open; the last member to come opens it."""
        watcher, attempts = self._zk.watcher(), Attempts()
        try:
            while True:
                data, stat = await self._steady.get(self.path, watch=watcher)
                if await self._steady.exists(f"{self.path}/{self._member}", watch=watcher) is None:
                    raise LostError(self.path, "somebody deleted the znode of this member")
                if data == _OPEN:
                    self._round = stat.version
                    return
                if len(await self._children()) < self.count:
                    await watcher.receive()
                    continue
                try:
                    await self._zk.set(self.path, _OPEN, stat.version)
                except BadVersionError:
                    # Another member opened it: look again.
                    continue
                except ConnectionLossError as error:
                    # This client may have opened it, and the answer was lost.
                    attempts.again(error)
        finally:
            watcher.close()

    # Leaving.

    async def _end(self) -> None:
        attempts = Attempts()
        while True:
            members = await self._children()
            # Read after the members: so they are those of this round, if it is still on.
            stat = await self._steady.exists(self.path)
            if stat is None or stat.version != self._round:
                return
            if not members:
                await self._close(self._round, attempts)
                continue
            first, last = members[0], members[-1]
            if self._member in members and (self._member != first or first == last):
                await self._remove(attempts)
            elif self._member == first:
                await self._wait_gone(last)
            else:
                await self._wait_gone(first)

    async def _remove(self, attempts: Attempts) -> None:
        """Removes the znode, perhaps a second time: `_end` looks again."""
        try:
            await self._zk.delete(f"{self.path}/{self._member}")
        except NoNodeError:
            return
        except ConnectionLossError as error:
            attempts.again(error)

    async def _close(self, version: int, attempts: Attempts) -> None:
        """Ends the round of that version, unless it is over. The caller looks again."""
        try:
            await self._zk.set(self.path, b"", version)
        except (BadVersionError, NoNodeError):
            return
        except ConnectionLossError as error:
            attempts.again(error)

    async def _wait_gone(self, member: str) -> None:
        """Returns when it may be gone: look again."""
        watcher = self._zk.watcher()
        try:
            if await self._steady.exists(f"{self.path}/{member}", watch=watcher) is not None:
                await watcher.receive()
        finally:
            watcher.close()

    def _abandon(self) -> None:
        """Has the session delete this member's znode, whether it exists or not."""
        path, self._member = f"{self.path}/{self._member}", None
        clean_up(self._zk, Cleanup(self._zk.operations, self._zk.waiter(), [path]))

    async def _children(self) -> list[str]:
        """The members, in the same order for all clients."""
        try:
            names = await self._steady.get_children(self.path or "/")
        except NoNodeError:
            return []
        return [name for name in names if name.startswith("_c_") and name.endswith(_KIND)]
