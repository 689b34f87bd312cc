"""The feed of changes: every change of a subtree after a zxid, in order, each once.

    async for change in zk.changes(since=zxid, prefix="/app"):
        ...

The client requests one page, and the next one when all of that was returned. So a slow reader keeps one page here, and
nothing on any server. At the end of the log the server answers when there are changes. Every server has the same
changes: after a lost connection the iterator continues where it was, on the server that has the session then.

    since   a zxid: the caller knows everything up to it (`Client.last_zxid`, `Stat.mzxid`, `Change.zxid`)
            a Place: exactly there, also between the parts of a transaction, and only in that history
            None: the end of what servers have acknowledged when the caller begins to wait for the first change

`place` is where the iterator is: after the last change that it returned. It moves on even while nothing changes below
the prefix. So store it now and then, not only with a change: servers keep the log for a limited time.

Invariants:
- Two iterators, the second from the `place` of the first, return the same changes as one.
- A change is returned once it is committed, and applied by the server that sends it.
- Cancelling loses nothing: the next `receive` continues with the answer that came meanwhile.

Only changes of znodes are returned that the client's identities may read, by every ACL that the path has had since.

Raised by `receive` and while iterating:

    ChangesLostError            the server no longer has the changes from there on
    UnimplementedError          a ZooKeeper server has no such feed, and also closes the connection
    SessionExpiredError         the session is over
    DataInconsistencyError      the server's log is damaged

Iteration ends without an error when the client is closed. After an error the iterator may be used again.
"""

from collections import deque
from contextlib import suppress
from typing import Any

from datatree.txn_changes import WHOLE
from zab.client.core.exceptions import (
    BadArgumentsError,
    ChangesLostError,
    ClientClosedError,
    ConnectionLossError,
    UnimplementedError,
)
from zab.client.core.misuse import no_zxid
from zab.client.core.operations import Operations
from zab.client.core.records import Change, ChangeKind, Place
from zab.client.core.requests import ClientRequest
from zab.client.core.runtime import Runtime
from zab.jute.change_pages import ChangePage, PageStatus

__all__ = ["Changes"]


class Changes:
    """Made by `Client.changes`. `async for change in changes`, or `receive`, by one task at a time."""

    def __init__(self, runtime: Runtime, operations: Operations, since: int | Place | None, prefix: str) -> None:
        self._runtime = runtime
        self._operations = operations
        self._prefix = prefix
        self._place: tuple[int, int] | None = None
        self._history_id = b""
        if isinstance(since, Place):
            self._place, self._history_id = (since.zxid, since.part), _history_id(since)
        elif since is not None:
            if not isinstance(since, int):
                raise no_zxid(since)
            self._place = since, WHOLE
        if self._place is not None and not 0 <= self._place[0] < 1 << 63:
            raise BadArgumentsError(prefix, detail=f"{self._place[0]} is no zxid")
        self._page: deque[Change] = deque()
        self._page_end = self._place
        self._asked: ClientRequest[ChangePage] | None = None
        self._is_waiting = False
        # A malformed prefix is refused here, not at the first change.
        self._request((0, 0))

    def __repr__(self) -> str:
        return f"<Changes below {self._prefix}, at {self.place}, {len(self._page)} held>"

    @property
    def place(self) -> Place | None:
        """After the last change returned. None until the start of a `since` of None is known."""
        return None if self._place is None else Place(*self._place, self._history_id.hex())

    async def receive(self) -> Change:
        """The next change; waits for it."""
        if self._is_waiting:
            raise RuntimeError("another task waits for these changes")
        self._is_waiting = True
        try:
            await self._runtime.backend.checkpoint()
            while not self._page:
                await self._next_page()
        finally:
            self._is_waiting = False
        return self._pop()

    def _pop(self) -> Change:
        change = self._page.popleft()
        self._place = (change.zxid, change.part) if self._page else self._page_end
        return change

    async def up_to(self, zxid: int) -> list[Change]:
        """The changes of the transactions up to this one, which a server has applied; does not wait for later ones.

        Unlike `receive` it raises ConnectionLossError.
        """
        found = []
        while self._page or self._place is None or self._place < (zxid, WHOLE):
            if not self._page:
                await self._read_page(wait_ms=0)
            elif self._page[0].zxid > zxid:
                break
            else:
                found.append(self._pop())
        return found

    def __aiter__(self) -> "Changes":
        return self

    async def __anext__(self) -> Change:
        try:
            return await self.receive()
        except ClientClosedError:
            raise StopAsyncIteration from None

    # Pages.

    async def _next_page(self) -> None:
        """Requests a page. It may be empty, or no server may be there."""
        # The next request goes to the next server; the end of the session is another error.
        with suppress(ConnectionLossError):
            await self._read_page(self._runtime.settings.changes_wait_ms)

    async def _read_page(self, wait_ms: int) -> None:
        if self._place is None:
            self._place = await self._end()
        page = await self._ask(self._place, wait_ms)
        if page.status is PageStatus.BEYOND:
            # This server may lag behind the one that gave the place.
            await self._end()
            page = await self._ask(self._place, wait_ms)
        if page.status is not PageStatus.GIVEN:
            raise _lost(self._place[0], page)
        self._history_id = page.history_id
        self._page.extend(map(self._change, page.rows))
        self._page_end = page.zxid, page.part
        if not self._page:
            self._place = self._page_end

    async def _ask(self, place: tuple[int, int], wait_ms: int) -> ChangePage:
        if self._asked is None:
            request = self._request(place, wait_ms)
            self._runtime.ask(request)
            self._asked = request
        try:
            # If cancelled here, the request stays, and with it the answer.
            return await self._runtime.answer(self._asked)
        except UnimplementedError:
            raise UnimplementedError(detail="this server has no feed of changes; ZooKeeper's have none") from None
        finally:
            if self._asked.is_over:
                self._asked = None

    async def _end(self) -> tuple[int, int]:
        """The end of what was acknowledged when this was called; the answering server has applied it."""
        await self._runtime.call(self._operations.sync("/").request())
        return self._runtime.session.last_zxid, WHOLE

    def _request(self, place: tuple[int, int], wait_ms: int = 0) -> ClientRequest[Any]:
        bytes_max = self._runtime.settings.changes_bytes_max
        return self._operations.changes(place, self._history_id, self._prefix, bytes_max, wait_ms).request()

    def _change(self, row: tuple[int, int, int, int, int, bytes, bytes | None, int, int]) -> Change:
        zxid, part, time, session, kind, path, data, version, owner = row
        outer = self._operations.outer(path)
        return Change(zxid, part, time, session, ChangeKind(kind), outer, data, version, owner)


def _history_id(place: Place) -> bytes:
    try:
        return bytes.fromhex(place.history_id)
    except ValueError:
        raise BadArgumentsError(detail=f"{place.history_id!r} is no id of a history") from None


def _lost(since: int, page: ChangePage) -> ChangesLostError:
    if page.status is PageStatus.OLDER:
        reason = f"the server can tell those from {page.oldest:#x} on; read the tree, and follow from there"
        return ChangesLostError(since, reason, oldest=page.oldest)
    if page.status is PageStatus.BEYOND:
        reason = f"the history ends at {page.zxid:#x}; it belongs to another ensemble, or to this one before a restore"
        return ChangesLostError(since, reason)
    return ChangesLostError(since, "the history of this ensemble does not have it; read the tree again")
