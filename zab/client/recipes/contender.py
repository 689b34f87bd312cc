"""One who waits for his turn: an ephemeral sequential znode among those of the others, in the order of their numbers.

    /locks/a/_c_6f0d5e2b-77aa-4c1e-9d3b-0a1b2c3d4e5f-lock-0000000007
             mark (of this contender alone)          kind number (given by the server)

The names are those of Curator's recipes, so that its programs, and tools which read them, understand ours. Names of
other kinds in the same directory are not rivals.

- *It is created once.* The answer to the create may be lost: then the mark tells whether it is there. The search begins
  with a sync, since the create may still be under way. Should one come late all the same, the contender stands where
  its lowest number is, and owes the others.
- *It is always removed.* Leaving, by whatever way, is a `Cleanup` of the session, which no cancellation and no lost
  connection can undo. Where the session ends, the znode ends with it.
- *It waits only on one who precedes it*, the nearest: so nobody wakes in vain when one of many leaves. A watch is not
  believed: after every event the list is read again.
- *Numbers are compared on a circle* of 2^32, as they wrap around: right as long as no two rivals are 2^31 apart.

Raised beside what requests raise: LostError, when somebody else deleted the znode of a contender that waits.
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
from zab.client.recipes.standing import Standing

__all__ = ["Contender", "Rival", "mark_of", "on_circle", "rivals"]


class Rival(NamedTuple):
    """A znode in the queue: its name, its kind, and its number, which may have wrapped around."""

    name: str
    kind: str
    number: int

    def precedes(self, other: "Rival") -> bool:
        return 0 < (other.number - self.number) & 0xFFFF_FFFF < 1 << 31


def mark_of(zk: Client) -> str:
    """A mark that nobody else has, in the form of Curator's."""
    digits = zk.nonce() + zk.nonce()
    return "_c_" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) + "-"


def on_circle(number: int, start: int) -> int:
    """Orders numbers that may have wrapped around: each is less than half of the circle before the start or behind."""
    return (number - start + (1 << 31)) & 0xFFFF_FFFF


def rivals(names: Iterable[str], kinds: Iterable[str]) -> list[Rival]:
    """Those among the names that are of these kinds, the first one first."""
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


class Contender(Standing):
    """See the module. `kinds` are those of its rivals; the first is its own. `path` and `czxid` are set when it
    stands in the queue."""

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
        """A znode with the mark may exist whose path was not told."""

    # Into the queue.

    async def enter(self) -> None:
        """Stands in the queue when this returns. Waits for a server as long as the session is not over."""
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
        """Stands at a number that its owner has in the queue already."""
        assert self.path is None
        path = f"{self._parent}/{self._mark}{self._kinds[0]}{number:010d}"
        self._may_be_unknown = True
        attempts = Attempts()
        while self.path is None:
            try:
                _, stat = await self._zk.create2(path, self._data, self._acl, ephemeral=True)
            except (ConnectionLossError, NodeExistsError) as error:
                # The mark is nobody else's: where it exists, an answer was lost.
                attempts.again(error)
                await self._find()
            else:
                self._stand(path, stat)

    async def _find(self) -> None:
        """Looks whether the znode is there though nobody said so."""
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
        """Its znode is, as far as this server knows."""
        assert self.path is not None
        stat = await self._steady.exists(self.path)
        return stat is not None and stat.czxid == self.czxid

    async def ahead(self, matters: Callable[[Rival], bool] = anybody) -> list[Rival]:
        """Those who precede it, and matter; its nearest is the last. Raises LostError when it is not in the queue."""
        everybody = rivals(await self._names(), self._kinds)
        own = [rival for rival in everybody if rival.name.startswith(self._mark)]
        if not own:
            assert self.path is not None
            raise LostError(self.path, "somebody deleted the znode that waited for its turn")
        first = own[0]
        if f"{self._parent}/{first.name}" != self.path:
            # A create that came late was done twice.
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
        """Returns when nobody who matters precedes it."""
        while ahead := await self.ahead(matters):
            await self.wait_gone(ahead[-1])

    # Out of the queue.

    def _owed(self) -> Cleanup | None:
        paths = [] if self.path is None else [self.path]
        if not paths and not self._may_be_unknown:
            return None
        marked = (self._parent, self._mark) if self._may_be_unknown else None
        return Cleanup(self._zk.operations, self._zk.waiter(), paths, marked, is_sure=True)
