"""Service discovery: instances of services register themselves, others list and follow them.

    discovery = Discovery(zk, "/services")
    async with discovery.register("web", Instance(id="host-7", address="10.0.0.7", port=8080, payload={"zone": "a"})):
        ...                                             # seen by others for the length of the block
    await discovery.instances("web")                    # [Instance(…)], by their ids
    async for instances in discovery.following("web"): ...
    await discovery.names()                             # ["web"]

    /services/web/host-7      an ephemeral: {"name": "web", "id": "host-7", "address": …, "port": …, "payload": …, …}

The JSON is that of Curator's service discovery, so that its programs see our instances, and we theirs. White space
after it is a mark of the registration. Znodes with other data are left out of lists.

*An id is registered once.* If another session or another block has registered it, the new registration replaces that
one: a restarted process need not wait until its old session has expired. The registration that was replaced does not
remove the new one when it ends. (Except if it is replaced between its last read and its delete: a delete can name a
version, and both znodes have the first.)

*It stays registered for the length of its block*: if its znode is deleted it is created again, and if it was replaced
it comes back when the other registration has ended. If the servers refuse to create it again, `lost` returns.

Raises, besides the errors of requests: ValueError for a name or an id that cannot be the name of a znode.
"""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from attrs import evolve, frozen

from zab.client.attempts import Attempts
from zab.client.client import Client
from zab.client.core.exceptions import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError, ZabError
from zab.client.core.records import OPEN_ACL, Acl
from zab.client.core.watcher import Watcher
from zab.client.recipes.following import Following
from zab.client.recipes.paths import checked
from zab.client.recipes.presence import Presence
from zab.client.retry import Retrying

__all__ = ["Discovery", "Instance"]

PORT_MAX: Final = 65_535


@frozen(kw_only=True)
class Instance:
    """One instance of a service. id "": `register` makes one up. payload: anything that JSON has."""

    id: str = ""
    address: str = ""
    port: int | None = None
    payload: Any = None

    def encode(self, name: str) -> bytes:
        """Raises ValueError if JSON cannot hold the payload."""
        try:
            return json.dumps(
                {
                    "name": name,
                    "id": self.id,
                    "address": self.address,
                    "port": self.port,
                    "sslPort": None,
                    "payload": self.payload,
                    "serviceType": "DYNAMIC",
                    "uriSpec": None,
                },
                allow_nan=False,
            ).encode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the payload of {self.id} is no JSON: {error}") from None

    @classmethod
    def decode(cls, data: bytes | None) -> "Instance | None":
        """None if the data is not that of an instance."""
        try:
            found = json.loads(data or b"")
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        identity, address, port = found.get("id"), found.get("address") or "", found.get("port")
        is_port = port is None or (type(port) is int and 0 <= port <= PORT_MAX)
        if not isinstance(identity, str) or not identity or not isinstance(address, str) or not is_port:
            return None
        return cls(id=identity, address=address, port=port, payload=found.get("payload"))


class Discovery:
    """path: the parent of the services. acl: the ACL of the znodes."""

    def __init__(self, zk: Client, path: str, *, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self.path = checked(zk, path)
        self._zk = zk
        self._steady = zk.retrying()
        self._acl = tuple(acl)
        self._registered: dict[str, Presence] = {}
        """Path -> the last registration there."""

    @asynccontextmanager
    async def register(self, name: str, instance: Instance) -> AsyncIterator[Instance]:
        """Registers the instance for the length of the block, and gives it with its id."""
        if not instance.id:
            instance = evolve(instance, id=self._zk.nonce())
        for part in (name, instance.id):
            if not part or "/" in part or part in (".", ".."):
                raise ValueError(f"{part!r} is no name of a znode: give one without a slash")
        place = f"{self.path}/{name}/{instance.id}"
        data = instance.encode(name) + in_white_space(self._zk.nonce())
        presence = Presence(self._zk, place, data, self._acl, is_shared=True)
        try:
            await self._enter(presence)
            presence.keep()
            self._registered[place] = presence
            yield instance
        finally:
            if self._registered.get(place) is presence:
                del self._registered[place]
            await presence.leave()

    async def lost(self, name: str, instance: Instance) -> ZabError | None:
        """Waits until the registration is lost, and returns the error: the servers refuse to create its znode again, or
        the session is over. Returns None once its block has ended. Raises RuntimeError outside of it."""
        presence = self._registered.get(f"{self.path}/{name}/{instance.id}")
        if presence is None:
            raise RuntimeError(f"{self.path}: {name}/{instance.id} is not registered here: use it within the block")
        return await presence.lost()

    async def names(self) -> list[str]:
        """The names of all services that ever had an instance, sorted."""
        try:
            return await self._steady.get_children(self.path or "/")
        except NoNodeError:
            return []

    async def instances(self, name: str) -> list[Instance]:
        """The instances that are registered now, ordered by id."""
        _, found = await instances_of(self._steady, f"{self.path}/{name}", None)
        return found

    def following(self, name: str) -> Following[list[Instance]]:
        """`async for instances in discovery.following(name)`: the registered instances now, and after each change."""
        return _Instances(self._zk, f"{self.path}/{name}")

    async def _enter(self, presence: Presence) -> None:
        attempts = Attempts()
        while True:
            try:
                return await presence.enter()
            except NodeExistsError:
                await self._remove(presence.path, attempts)

    async def _remove(self, path: str, attempts: Attempts) -> None:
        """Deletes the znode at the path, of any registration, or fails to: the caller looks again."""
        try:
            stat = await self._steady.exists(path)
            if stat is not None:
                await self._zk.delete(path, stat.version)
        except (NoNodeError, BadVersionError):
            return
        except ConnectionLossError as error:
            attempts.again(error)


def in_white_space(digits: str) -> bytes:
    """Hex digits as white space to append to JSON, so that equal registrations have different data."""
    return "".join(f"{int(digit, 16):04b}" for digit in digits).translate({ord("0"): " ", ord("1"): "\t"}).encode()


class _Instances(Following[list[Instance]]):
    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, list[Instance]]:
        return await instances_of(steady, self._path, watcher)


async def instances_of(
    steady: Retrying, path: str, watcher: Watcher | None
) -> tuple[tuple[tuple[str, int], ...], list[Instance]]:
    """The instances at a service's path, preceded by their names and mzxids, which differ when they have changed."""
    while True:
        try:
            names = await steady.get_children(path, watch=watcher)
            break
        except NoNodeError:
            if watcher is None or await steady.exists(path, watch=watcher) is None:
                return (), []
    marks, found = [], []
    for name in names:
        try:
            data, stat = await steady.get(f"{path}/{name}", watch=watcher)
        except NoNodeError:
            # It has left meanwhile.
            continue
        instance = Instance.decode(data)
        if instance is not None:
            marks.append((name, stat.mzxid))
            found.append(instance)
    return tuple(marks), found
