"""Group membership: a party that clients join and leave, and whose members all clients see.

    party = Party(zk, "/parties/a", name="host-7")
    async with party:                                   # a member for the length of the block
        await party.members()                           # ["host-3", "host-7"], in the order in which they came
    async for members in party.following(): ...         # now, and after each change

A member is an ephemeral znode, so it leaves with its session. If another client deletes the znode, it is created again
until the member leaves; if the servers refuse that, `lost` returns. Names need not differ.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from zab.client.client import Client
from zab.client.core.exceptions import NoNodeError, ZabError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.watcher import Watcher
from zab.client.recipes.contender import mark_of
from zab.client.recipes.following import Following
from zab.client.recipes.paths import checked
from zab.client.recipes.presence import Presence
from zab.client.recipes.signal import Signal
from zab.client.retry import Retrying

__all__ = ["Members", "Party"]

_KIND: Final = "member"


class Party:
    """name: shown to the other members. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, name: str = "", *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self.path = checked(zk, path)
        self.name = name
        self._zk = zk
        self._steady = zk.retrying()
        self._acl = tuple(acl)
        self._presence: Presence | None = None
        self._is_joining = False
        self._joined = Signal(zk)

    async def join(self) -> None:
        """Makes this client a member. No error if it is one already."""
        while self._is_joining:
            await self._joined.wait()
        if self._presence is not None:
            return
        self._is_joining = True
        presence = Presence(self._zk, f"{self.path}/{mark_of(self._zk)}{_KIND}", self.name.encode(), self._acl)
        is_there = False
        try:
            await presence.enter()
            presence.keep()
            self._presence, is_there = presence, True
        finally:
            self._is_joining = False
            self._joined.give()
            if not is_there:
                presence.abandon()

    async def leave(self) -> None:
        """Ends the membership; without a server, as soon as one is connected."""
        presence, self._presence = self._presence, None
        if presence is not None:
            await presence.leave()

    async def lost(self) -> ZabError | None:
        """Waits until the membership is lost, and returns the error: the servers refuse to create its znode again, or
        the session is over. Returns None once it has left. Raises RuntimeError if it is no member."""
        if self._presence is None:
            raise RuntimeError(f"{self.path}: this is no member: join() comes first")
        return await self._presence.lost()

    async def __aenter__(self) -> Self:
        await self.join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave()

    async def members(self) -> list[str]:
        """The names of all members, in the order in which they came."""
        try:
            names = await self._steady.get_children(self.path or "/")
        except NoNodeError:
            return []
        found = []
        for name in names:
            if name.startswith("_c_") and name.endswith(_KIND):
                try:
                    data, stat = await self._steady.get(f"{self.path}/{name}")
                except NoNodeError:
                    # It has left meanwhile.
                    continue
                found.append((stat.czxid, (data or b"").decode("utf-8", "replace")))
        return [name for _, name in sorted(found)]

    def following(self) -> "Members":
        """`async for members in party.following()`: the names now, and after each change."""
        return Members(self._zk, self)


class Members(Following[list[str]]):
    """Made by `Party.following`. Quick changes may be merged. Ends with the client."""

    def __init__(self, zk: Client, party: Party) -> None:
        super().__init__(zk, party.path or "/")
        self._party = party

    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, list[str]]:
        while True:
            try:
                await steady.get_children(self._path, watch=watcher)
            except NoNodeError:
                if await steady.exists(self._path, watch=watcher) is not None:
                    continue
            members = await self._party.members()
            return tuple(members), members
