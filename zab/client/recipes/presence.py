"""An ephemeral znode of this client at a given path: it exists from `enter` to `leave`.

Like that of a contender (`contender`), it is created once even if answers are lost, and always removed when it is no
longer needed. Since its path is known, after a lost answer a read tells whether it exists. If other clients use the
path as well (`is_shared`), only its znode is removed: its data has a mark that is unique, also within this session.
"""

from collections.abc import Iterable

from zab.client.attempts import Attempts
from zab.client.cleanup import Cleanup, Sign
from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NodeExistsError, NoNodeError, ZabError
from zab.client.core.records import OPEN_ACL, Acl, Stat
from zab.client.recipes.keeping import Keeping
from zab.client.recipes.paths import checked
from zab.client.recipes.removable import Removable

__all__ = ["Presence"]


class Presence(Removable):
    """czxid: that of the znode, once it was entered."""

    def __init__(
        self, zk: Client, path: str, data: bytes = b"", acl: Iterable[Acl] = OPEN_ACL, *, is_shared: bool = False
    ) -> None:
        self.path = checked(zk, path)
        self.czxid = 0
        self.data = data
        self._zk = zk
        self._steady = zk.retrying()
        self._acl = tuple(acl)
        self._is_shared = is_shared
        self._may_exist = False
        self._is_sure = False
        """No create of it can be in flight."""
        self._keeping: Keeping | None = None

    async def enter(self) -> None:
        """Raises NodeExistsError if the znode at the path has another owner, in this session or another."""
        was_lost, attempts = False, Attempts()
        self._may_exist, self._is_sure = True, False
        while True:
            try:
                _, stat = await self._zk.create2(self.path, self.data, self._acl, ephemeral=True)
            except NoNodeError as error:
                attempts.again(error)
                await self._steady.ensure_path(self.path.rpartition("/")[0] or "/", self._acl)
                continue
            except NodeExistsError:
                found = await self._own() if was_lost else None
                if found is None:
                    self._may_exist = False
                    raise
                stat = found
            except ConnectionLossError as error:
                was_lost = was_lost or not error.definite
                attempts.again(error)
                continue
            self.czxid, self._is_sure = stat.czxid, not was_lost
            return

    def keep(self) -> None:
        """From now on it is created again if another client removes it, until its owner leaves (`keeping`)."""
        self._keeping = Keeping(self._zk, self.path, self.data, self._acl, self._asks, self._made)
        self._zk.undertake(self._keeping)

    async def lost(self) -> ZabError | None:
        """Waits until a kept presence is lost, and returns why: the servers refuse to create it again, or the session
        is over. Returns None once its owner has left."""
        keeping = self._keeping
        assert keeping is not None
        while keeping.refusal is None and not keeping.is_done:
            await keeping.signal.wait()
        return keeping.refusal

    def _asks(self) -> None:
        """A create is sent; only its answer tells whether it is done."""
        self.czxid, self._is_sure = 0, False

    def _made(self, stat: Stat) -> None:
        self.czxid = stat.czxid

    async def _own(self) -> Stat | None:
        """The Stat of the znode, if it is that of this presence."""
        try:
            data, stat = await self._steady.get(self.path)
        except NoNodeError:
            return None
        return stat if Sign(self._zk.session_id, self.data, 0).is_on(data, stat) else None

    def forget(self) -> None:
        """It was removed by another operation."""
        self._may_exist = False

    def _cleanup(self) -> Cleanup | None:
        if self._keeping is not None:
            self._keeping.stop()
        if not self._may_exist:
            return None
        self._may_exist = False
        sign = Sign(self._zk.session_id, self.data, self.czxid) if self._is_shared else None
        return Cleanup(self._zk.operations, self._zk.waiter(), [self.path], is_sure=self._is_sure, sign=sign)
