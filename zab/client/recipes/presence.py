"""An ephemeral znode of this client at a path that is known beforehand: there from `enter` to `leave`.

As a contender's (`contender`) it is created once though answers are lost, and always removed when it is not wanted any
more. Since its path is known, a lost answer is found out by what is there. Where others use the path, too
(`is_shared`), only the own znode is removed: its data has a mark that no other one has, of this session neither.
"""

from collections.abc import Iterable

from zab.client.attempts import Attempts
from zab.client.cleanup import Cleanup, Sign
from zab.client.client import Client
from zab.client.core.exceptions import ConnectionLossError, NodeExistsError, NoNodeError, ZabError
from zab.client.core.records import OPEN_ACL, Acl, Stat
from zab.client.recipes.keeping import Keeping
from zab.client.recipes.paths import checked
from zab.client.recipes.standing import Standing

__all__ = ["Presence"]


class Presence(Standing):
    """See the module. `czxid` is that of the znode when it has been entered."""

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
        """No create of it can be under way."""
        self._keeping: Keeping | None = None

    async def enter(self) -> None:
        """Raises NodeExistsError when it is somebody else's, or another one's of this session."""
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
        """From now on it is made again where somebody else removed it, until its owner leaves (`keeping`)."""
        self._keeping = Keeping(self._zk, self.path, self.data, self._acl, self._asks, self._made)
        self._zk.undertake(self._keeping)

    async def lost(self) -> ZabError | None:
        """Of one that is kept: why it is not there any more and is not made again, once that is so: the servers refuse
        it, or the session is over. None once its owner has left."""
        keeping = self._keeping
        assert keeping is not None
        while keeping.refusal is None and not keeping.is_done:
            await keeping.signal.wait()
        return keeping.refusal

    def _asks(self) -> None:
        """Whether it will be made, only an answer tells."""
        self.czxid, self._is_sure = 0, False

    def _made(self, stat: Stat) -> None:
        self.czxid = stat.czxid

    async def _own(self) -> Stat | None:
        """What is there, where it is this one's."""
        try:
            data, stat = await self._steady.get(self.path)
        except NoNodeError:
            return None
        return stat if Sign(self._zk.session_id, self.data, 0).is_on(data, stat) else None

    def forget(self) -> None:
        """It was removed by other means."""
        self._may_exist = False

    def _owed(self) -> Cleanup | None:
        if self._keeping is not None:
            self._keeping.stop()
        if not self._may_exist:
            return None
        self._may_exist = False
        sign = Sign(self._zk.session_id, self.data, self.czxid) if self._is_shared else None
        return Cleanup(self._zk.operations, self._zk.waiter(), [self.path], is_sure=self._is_sure, sign=sign)
