"""The client: `connect`, and every operation of the service as a method.

    async with connect("127.0.0.1:2181,127.0.0.1:2182/app", session_timeout_ms=10_000) as zk:
        await zk.create("/config", b"1")
        data, stat = await zk.get("/config")
        async with zk.watch("/config") as events:
            async for event in events: ...

The block is the client's life: it is entered when a server has the session, and leaving it closes the session, so that
its ephemerals are gone. In between the connection may break and come back any number of times; `state` and `states()`
tell. Methods may be called from any number of tasks at once; their requests share the connection.

What an operation raises: the exception of the error code (`zab.client.exceptions`); ConnectionLossError when the
connection broke before the answer, which leaves open whether a write happened; NotConnectedError or ThrottledError when
it was never sent; SessionExpiredError when the session is over.

A path is absolute, `version` -1 matches every version. `data` is bytes, and TypeError is raised for text; it may be
None, which the service keeps apart from b"".

Deliberately not here: recipes, and retries: what is safe to repeat only the caller knows (see `RequestError.definite`).
"""

import secrets
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar

import trio
from attrs import evolve

from zab.client.changes import Changes
from zab.client.exceptions import NoNodeError, NoWatcherError, RequestError
from zab.client.hosts import HostOrder, parse_hosts
from zab.client.link import Dial
from zab.client.login import DigestLogin
from zab.client.operations import Operation, Operations
from zab.client.records import OPEN_ACL, Acl, Identity, Place, Stat, State, WatchKind, WatchMode
from zab.client.runtime import Runtime, StateChanges
from zab.client.session import Session, auth_request
from zab.client.settings import SaslLogin, Settings, Tls
from zab.client.tls import context_of, tcp
from zab.client.transaction import Get, GetChildren, Transaction
from zab.client.watcher import Watcher

__all__ = ["Client", "connect"]

T = TypeVar("T")


@asynccontextmanager
async def connect(
    hosts: str,
    *,
    session_timeout_ms: int | None = None,
    auth: Iterable[tuple[str, str | bytes]] = (),
    read_only: bool = False,
    resume: tuple[int, bytes] | None = None,
    settings: Settings | None = None,
    tls: Tls | ssl.SSLContext | None = None,
    sasl: SaslLogin | None = None,
    random: Random | None = None,
    dial: Dial | None = None,
) -> AsyncIterator["Client"]:
    """A client whose session lives as long as the block.

    hosts: "host:port,host:port/chroot". session_timeout_ms: shorthand for that field of `settings`.
    auth: (scheme, credentials) shown to every server, such as ("digest", "user:password").
    tls: who vouches for servers, and the client's certificate; None: nothing is encrypted.
    sasl: who logs in, on every connection and before anything else is sent.
    read_only: a server without a quorum will do while there is no other; writes raise NotReadOnlyError there.
    resume: `session_id` and `session_password` of a session that another client left open.
    random: decides the order of the servers and the pauses. dial: opens the streams instead of TCP.

    Raises ValueError for malformed hosts and stores that cannot be used, NotConnectedError when no server took the
    session in `connect_wait_ms`, TlsError when TLS failed with all of them, LoginRefusedError when the login failed,
    SessionExpiredError when `resume` names a session that is over, RuntimeError where trio does not run.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("zab.client needs trio: run it with trio.run(main), not with asyncio.run(main)")
    settings = settings or Settings()
    if session_timeout_ms is not None:
        settings = evolve(settings, session_timeout_ms=session_timeout_ms)
    servers, chroot = parse_hosts(hosts)
    random = random or Random()
    session = Session(
        session_timeout_ms=settings.session_timeout_ms,
        read_only=read_only,
        identities=[(scheme, _bytes(credentials)) for scheme, credentials in auth],
        chroot=chroot.encode(),
        resume=resume,
        login=None if sasl is None else partial(DigestLogin, sasl, _nonce),
    )
    secured = context_of(tls) if isinstance(tls, Tls) else tls
    runtime = Runtime(session, HostOrder(servers, random), settings, dial or tcp(secured), random)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.run)
            try:
                await runtime.wait_connected(settings.connect_wait_ms or settings.session_timeout_ms)
                yield Client(runtime)
            finally:
                await runtime.close()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The nursery is this function's own business: what the caller's block raises leaves it as it was raised.
        if len(group.exceptions) != 1:
            raise
        alone = group.exceptions[0]
        context = alone.__context__
        try:
            raise alone
        finally:
            alone.__context__ = context


def _nonce() -> bytes:
    return secrets.token_hex(16).encode()


def _bytes(credentials: str | bytes) -> bytes:
    return credentials.encode() if isinstance(credentials, str) else credentials


class Client:
    """Made by `connect`; the module says what all methods have in common."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._session = runtime.session
        self._operations = Operations(runtime.session)

    async def _perform(self, operation: Operation[T]) -> T:
        return await self._runtime.call(operation.request())

    # The session.

    @property
    def state(self) -> State:
        return self._session.state

    def states(self) -> StateChanges:
        """`async for state in zk.states()`: the state now, then every change; ends when the session is over."""
        return self._runtime.state_changes()

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_password(self) -> bytes:
        """16 bytes; with `session_id` it lets another client resume the session."""
        return self._session.password

    @property
    def session_timeout_ms(self) -> int:
        """What the server granted."""
        return self._session.session_timeout_ms

    @property
    def last_zxid(self) -> int:
        """The highest zxid that this client has seen. A server that has not reached it is not used."""
        return self._session.last_zxid

    async def add_auth(self, scheme: str, credentials: str | bytes) -> None:
        """Adds an identity to this connection and to every later one. AuthFailedError leaves the others as they are."""
        await self._runtime.call(auth_request(scheme, _bytes(credentials)))
        self._session.keep_identity(scheme, _bytes(credentials))

    async def who_am_i(self) -> list[Identity]:
        """Whom the server takes this connection for."""
        return await self._perform(self._operations.who_am_i())

    # Znodes.

    async def create(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Iterable[Acl] = OPEN_ACL,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        if_not_exists: bool = False,
    ) -> str:
        """Creates a znode and returns its path, which has ten more digits when `sequence` is set.

        if_not_exists: it is no error that the znode is there already, whatever is in it. ClickHouse Keeper knows this,
        and a server of ours where `createIfNotExistsEnabled` is set; for others it is an unknown operation, which ends
        the connection.
        """
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        if if_not_exists:
            return await self._perform(self._operations.create_if_not_exists(path, data, acl, **mode, ttl_ms=ttl_ms))
        created, _ = await self._perform(self._operations.create(path, data, acl, **mode, ttl_ms=ttl_ms))
        return created

    async def create2(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Iterable[Acl] = OPEN_ACL,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
    ) -> tuple[str, Stat]:
        """As `create`, with the new znode's Stat."""
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        return await self._perform(self._operations.create(path, data, acl, **mode, ttl_ms=ttl_ms))

    async def delete(self, path: str, version: int = -1) -> None:
        await self._perform(self._operations.delete(path, version))

    async def exists(self, path: str, *, watch: Watcher | None = None) -> Stat | None:
        """The Stat, None when there is no znode. `watch` hears once of its creation, change or deletion."""
        try:
            return await self._perform(self._operations.exists(path, watch))
        except NoNodeError:
            return None

    async def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        """Data and Stat. `watch` hears once of the next change of the data, or of the deletion."""
        return await self._perform(self._operations.get(path, watch))

    async def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return await self._perform(self._operations.set(path, data, version))

    async def get_children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """The children's names, sorted. `watch` hears once of the next child made or deleted, or of the deletion."""
        return await self._perform(self._operations.get_children(path, watch))

    async def get_children2(self, path: str, *, watch: Watcher | None = None) -> tuple[list[str], Stat]:
        """As `get_children`, with the znode's Stat."""
        return await self._perform(self._operations.get_children2(path, watch))

    async def get_all_children_number(self, path: str) -> int:
        """How many descendants the znode has."""
        return await self._perform(self._operations.get_all_children_number(path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemerals that start with `prefix`, sorted."""
        return await self._perform(self._operations.get_ephemerals(prefix))

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        return await self._perform(self._operations.get_acl(path))

    async def set_acl(self, path: str, acl: Iterable[Acl], version: int = -1) -> Stat:
        """`version` is the ACL's own (`Stat.aversion`)."""
        return await self._perform(self._operations.set_acl(path, acl, version))

    async def sync(self, path: str = "/") -> None:
        """Returns once this server has applied everything that was acknowledged to anybody before the call."""
        await self._perform(self._operations.sync(path))

    # Several at once.

    def transaction(self) -> Transaction:
        """`async with zk.transaction() as t: t.set(…)`, or `commit` it yourself."""
        return Transaction(self._operations, self._perform)

    async def multi_read(self, reads: Sequence[Get | GetChildren]) -> list[Any]:
        """Answers each read with what it would return alone, or with its RequestError (returned, not raised)."""
        operations: list[Operation[Any]] = [
            self._operations.get(read.path) if isinstance(read, Get) else self._operations.get_children(read.path)
            for read in reads
        ]
        return await self._perform(self._operations.multi_read(operations))

    # Watches.

    def watcher(self) -> Watcher:
        """A queue of events for the `watch=` arguments and `add_watch`; `close` it when it is not needed any more."""
        return self._runtime.watcher()

    @asynccontextmanager
    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[Watcher]:
        """A persistent watch for the length of the block: `async for event in events`.

        It tells of changes of the znode and of its children; with `recursive` of changes of it and of every descendant.
        The znode need not exist. Changes made while no server is connected are not told: an event of type SESSION with
        state CONNECTED says that there may have been some.
        """
        watcher = self.watcher()
        try:
            mode = WatchMode.PERSISTENT_RECURSIVE if recursive else WatchMode.PERSISTENT
            await self.add_watch(path, watcher, mode)
            yield watcher
        finally:
            watcher.close()

    async def add_watch(self, path: str, watcher: Watcher, mode: WatchMode = WatchMode.PERSISTENT_RECURSIVE) -> None:
        """Registers a watch that stays until it is removed or the watcher is closed."""
        await self._perform(self._operations.add_watch(path, watcher, mode))

    async def check_watches(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        """Whether this connection has such a watch at the server."""
        try:
            await self._perform(self._operations.check_watches(path, kind))
        except NoWatcherError:
            return False
        return True

    async def remove_watches(self, path: str, kind: WatchKind = WatchKind.ANY, *, local: bool = False) -> None:
        """Removes all watches of a kind at `path`; their watchers are told so. NoWatcherError when there is none.

        local: when the server cannot be reached, or has none, forget them here all the same.
        """
        operation = self._operations.remove_watches(path, kind)
        try:
            await self._perform(operation)
        except RequestError:
            if not local:
                raise
        self._runtime.forget_watches(path, kind)

    # Changes.

    def changes(self, since: int | Place | None = None, prefix: str = "/") -> Changes:
        """`async for change in zk.changes(since, "/app")`: what changed at `prefix` and below it after a zxid.

        In order, each once, whichever servers tell them, until the client is closed; `Changes` has the rest.
        """
        return Changes(self._runtime, self._operations, since, prefix)

    # The ensemble.

    async def get_config(self, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        """The ensemble's configuration text, which is outside of any chroot."""
        return await self._perform(self._operations.get_config(watch))

    async def reconfig(
        self,
        *,
        joining: str | None = None,
        leaving: str | None = None,
        members: str | None = None,
        version: int = -1,
    ) -> tuple[bytes | None, Stat]:
        """Changes the ensemble's members; returns the new configuration. `version` is that of the current one."""
        return await self._perform(self._operations.reconfig(joining, leaving, members, version))
