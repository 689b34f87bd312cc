"""A contender waits for its turn: an ephemeral sequential znode in a queue that is ordered by their numbers.

    /locks/a/_c_6f0d5e2b-77aa-4c1e-9d3b-0a1b2c3d4e5f-lock-0000000007
             mark (unique)                            kind number (given by the server)

The names are those of Curator's recipes, so that its programs and tools understand ours. Names of other kinds below the
same znode are not rivals.

- *It is created once.* If the answer to the create is lost, the mark tells whether the znode exists. The search begins
  with a sync, since the create may still be in flight. If one is done late even so, the contender has the place of its
  lowest number, and deletes the other znodes.
- *It is always removed.* However a contender leaves, its session has a `Cleanup` for the znode, which no cancellation
  and no lost connection can undo. If the session ends, the znode ends with it.
- *It waits only for the nearest of those that precede it*: so no client wakes in vain when one of many leaves. A watch
  event is only a hint: after every event the list is read again.
- *Numbers are compared modulo* 2^32, since they wrap around: that is right as long as no two rivals are 2^31 apart.

Raises, besides the errors of requests: LostError if another client deleted the znode of a waiting contender.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from zab.client.attempts import Attempts
from zab.client.cleanup import Cleanup
from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NodeExistsError, NoNodeError, RequestError
from zab.client.core.records import OPEN_ACL, Acl, Stat
from zab.client.recipes.errors import LostError
from zab.client.recipes.paths import checked
from zab.client.recipes.removable import Removable

__all__ = ["Contender", "Rival", "mark_of", "on_circle", "rivals"]


class Rival(NamedTuple):
    """A znode in the queue: its name, its kind, and its number, which may have wrapped around."""

    name: str
    kind: str
    number: int

    def precedes(self, other: "Rival") -> bool:
        return 0 < (other.number - self.number) & 0xFFFF_FFFF < 1 << 31


def mark_of(zk: Client) -> str:
    """A unique mark, in the form of Curator's."""
    digits = zk.nonce() + zk.nonce()
    return "_c_" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) + "-"


def on_circle(number: int, start: int) -> int:
    """Orders numbers that may have wrapped around: each is less than 2^31 before or after the start."""
    return (number - start + (1 << 31)) & 0xFFFF_FFFF


def rivals(names: Iterable[str], kinds: Iterable[str]) -> list[Rival]:
    """The rivals of these kinds among the names, in order."""
    found: list[Rival] = []
    for name in names:
        for kind in kinds:
            _, is_there, digits = name.rpartition(kind)
            if is_there and digits.removeprefix("-").isdecimal() and digits.isascii():
                found.append(Rival(name, kind, int(digits)))
                break
    if found:
        start = found[0].number
        found.sort(key=lambda rival: (on_circle(rival.number, start), rival.name))
    return found


def anybody(_rival: Rival) -> bool:
    return True


class Contender(Removable):
    """kinds: those of its rivals; the first is its own. `path` and `czxid` are set once it is in the queue."""

    def __init__(
        self, zk: Client, parent: str, kinds: tuple[str, ...], data: bytes = b"", acl: Iterable[Acl] = OPEN_ACL
    ) -> None:
        self.path: str | None = None
        self.czxid = 0
        self._zk = zk
        self._steady = zk.retrying()
        self._parent = checked(zk, parent)
        self._kinds = kinds
        self._data = data
        self._acl = tuple(acl)
        self._mark = mark_of(zk)
        self._may_be_unknown = False
        """A znode with the mark may exist whose path is unknown."""

    # Into the queue.

    async def enter(self) -> None:
        """Returns once it is in the queue. Waits for a server as long as the session is not over."""
        prefix = f"{self._parent}/{self._mark}{self._kinds[0]}"
        attempts = Attempts()
        while self.path is None:
            is_known, self._may_be_unknown = not self._may_be_unknown, True
            try:
                path, stat = await self._zk.create2(prefix, self._data, self._acl, ephemeral=True, sequence=True)
            except NoNodeError as error:
                self._may_be_unknown = not is_known
                attempts.again(error)
                await self._steady.ensure_path(self._parent or "/", self._acl)
            except ConnectionLossError as error:
                attempts.again(error)
                if error.definite:
                    self._may_be_unknown = not is_known
                else:
                    await self._find()
            except RequestError as error:
                if error.definite:
                    self._may_be_unknown = not is_known
                raise
            else:
                self._may_be_unknown = not is_known
                self._stand(path, stat)

    async def enter_beside(self, number: int) -> None:
        """Takes a number that its owner has in the queue already."""
        assert self.path is None
        path = f"{self._parent}/{self._mark}{self._kinds[0]}{number:010d}"
        self._may_be_unknown = True
        attempts = Attempts()
        while self.path is None:
            try:
                _, stat = await self._zk.create2(path, self._data, self._acl, ephemeral=True)
            except (ConnectionLossError, NodeExistsError) as error:
                # The mark is unique: if it exists, an answer was lost.
                attempts.again(error)
                await self._find()
            else:
                self._stand(path, stat)

    async def _find(self) -> None:
        """Looks whether the znode exists although no answer said so."""
        await self._steady.sync(self._parent or "/")
        for rival in rivals(await self._names(), self._kinds):
            if rival.name.startswith(self._mark):
                path = f"{self._parent}/{rival.name}"
                stat = await self._steady.exists(path)
                if stat is not None:
                    self._stand(path, stat)
                    return

    def _stand(self, path: str, stat: Stat) -> None:
        self.path, self.czxid = path, stat.czxid

    @property
    def number(self) -> int:
        assert self.path is not None
        return rivals([self.path.rpartition("/")[2]], self._kinds)[0].number

    async def _names(self) -> list[str]:
        try:
            return await self._steady.get_children(self._parent or "/")
        except NoNodeError:
            return []

    # In the queue.

    async def is_there(self) -> bool:
        """Whether its znode exists, as far as this server knows."""
        assert self.path is not None
        stat = await self._steady.exists(self.path)
        return stat is not None and stat.czxid == self.czxid

    async def ahead(self, matters: Callable[[Rival], bool] = anybody) -> list[Rival]:
        """The rivals that precede it, and matter; the nearest is the last. Raises LostError if it is not in the
        queue."""
        everybody = rivals(await self._names(), self._kinds)
        own = [rival for rival in everybody if rival.name.startswith(self._mark)]
        if not own:
            assert self.path is not None
            raise LostError(self.path, "somebody deleted the znode that waited for its turn")
        first = own[0]
        if f"{self._parent}/{first.name}" != self.path:
            # A late create was done a second time.
            self._may_be_unknown = True
            stat = await self._steady.exists(f"{self._parent}/{first.name}")
            if stat is not None:
                self._stand(f"{self._parent}/{first.name}", stat)
            return await self.ahead(matters)
        return [rival for rival in everybody if rival.precedes(first) and matters(rival)]

    async def wait_gone(self, rival: Rival) -> None:
        """Returns when the rival may be gone: look again."""
        watcher = self._zk.watcher()
        try:
            if await self._steady.exists(f"{self._parent}/{rival.name}", watch=watcher) is not None:
                await watcher.receive()
        finally:
            watcher.close()

    async def wait_turn(self, matters: Callable[[Rival], bool] = anybody) -> None:
        """Returns when no rival that matters precedes it."""
        while ahead := await self.ahead(matters):
            await self.wait_gone(ahead[-1])

    # Out of the queue.

    def _cleanup(self) -> Cleanup | None:
        paths = [] if self.path is None else [self.path]
        if not paths and not self._may_be_unknown:
            return None
        marked = (self._parent, self._mark) if self._may_be_unknown else None
        return Cleanup(self._zk.operations, self._zk.waiter(), paths, marked, is_sure=True)
