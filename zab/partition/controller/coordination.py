"""How pure code talks to the coordination service: steps that ask, and the driver that runs them one after the other.

A handler is a generator. It yields operations that are sent together (pipelined), and is sent their results, in order:

    def read_epoch() -> Steps[int]:
        (found,) = yield (Get("/controller_epoch"),)
        return int(found.data)

So it reads from top to bottom, and a host decides when results come. `Driver` has one queue and one running handler: no
other code runs between two of its steps, except what only adds to the queue.

What a host must keep:

    Submit(n, operations)   send them in this order; answer once with Results(n, …), one result for each
    connection lost         answer what is under way with CONNECTIONLOSS (it may have been applied), then Suspended
    connected again         Connected with the same session id; watches that were set are still set
    session expired         Expired; no request of the old session is answered after that
    a watch fired           WatchFired(path), once for each watch that was set; what changed is not said, since a
                            handler reads it again with a new watch

Errors are ZooKeeper's codes (`datatree.errors`). CONNECTIONLOSS says that an operation was done or not: `read` repeats
what only reads; who writes has to look. A SESSIONEXPIRED ends the running handler, and the driver waits for Expired.

Not here: the connection, the session, ACLs (the host knows them by the path), chroots (the host prepends one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from attrs import define, field, frozen

from datatree.errors import ErrorCode as ZooKeeperError

__all__ = [
    "ANY_VERSION",
    "Check",
    "Children",
    "Connected",
    "CoordinationError",
    "Create",
    "Delete",
    "Driver",
    "Event",
    "Exists",
    "Expired",
    "Get",
    "Multi",
    "Operation",
    "Pause",
    "Result",
    "Results",
    "Set",
    "Stat",
    "Steps",
    "Submit",
    "Suspended",
    "WatchFired",
    "ZooKeeperError",
    "chunks",
    "look",
    "read",
]

ANY_VERSION: Final = -1
BATCH_MAX: Final = 500
"""The most operations that are sent together, so that the members of the service need not hold back what follows."""


@frozen
class Create:
    """Create a znode. sequential: ten digits are appended to the path; the result has the whole path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@frozen
class Get:
    """Data and stat. A watch is set only if the znode exists; it fires when the data changes or the znode goes."""

    path: str
    watch: bool = False


@frozen
class Exists:
    """The stat. A watch is set in any case; it fires when the znode comes, changes or goes."""

    path: str
    watch: bool = False


@frozen
class Children:
    """The names of the children, sorted. The watch fires when one comes or goes, or the znode itself goes."""

    path: str
    watch: bool = False


@frozen
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@frozen
class Delete:
    path: str
    version: int = ANY_VERSION


@frozen
class Check:
    """Only inside a Multi: the version of a znode."""

    path: str
    version: int


@frozen
class Multi:
    """All parts or none. `Result.parts` has one result each; if one failed, `Result.error` is its error."""

    parts: tuple[Create | Set | Delete | Check, ...]


Operation: TypeAlias = Create | Get | Exists | Children | Set | Delete | Multi


@frozen
class Pause:
    """Yielded in place of operations: the handler goes on after so long."""

    ms: int


@frozen
class Stat:
    """version: of the data. czxid: the zxid of the create. ephemeral_owner: a session id, 0 if persistent."""

    version: int = 0
    czxid: int = 0
    ephemeral_owner: int = 0
    ctime_ms: int = 0


@frozen
class Result:
    """What an operation led to; fields that it does not have are empty."""

    error: ZooKeeperError = ZooKeeperError.OK
    path: str = ""
    data: bytes = b""
    stat: Stat = Stat()
    children: tuple[str, ...] = ()
    parts: tuple[Result, ...] = ()

    @property
    def ok(self) -> bool:
        return self.error == ZooKeeperError.OK

    @property
    def is_lost(self) -> bool:
        """Nobody knows whether it was applied."""
        return self.error in _LOST

    @property
    def is_missing(self) -> bool:
        return self.error == ZooKeeperError.NONODE

    def must(self, path: str) -> Result:
        """This result if it is a success. Raises CoordinationError."""
        if not self.ok:
            raise CoordinationError(path, self.error)
        return self


_LOST: Final = frozenset(
    {ZooKeeperError.CONNECTIONLOSS, ZooKeeperError.OPERATIONTIMEOUT, ZooKeeperError.REQUESTTIMEOUT}
)
_ENDED: Final = frozenset({ZooKeeperError.SESSIONEXPIRED, ZooKeeperError.SESSIONMOVED, ZooKeeperError.AUTHFAILED})

_T = TypeVar("_T")
_Operation = TypeVar("_Operation", bound=Operation)
Steps: TypeAlias = Generator[tuple[Operation, ...] | Pause, tuple[Result, ...], _T]
"""A handler, or a part of one (`yield from`)."""


class CoordinationError(Exception):
    """The service refused what it should not: the handler cannot go on."""

    def __init__(self, path: str, error: ZooKeeperError) -> None:
        super().__init__(f"{path}: {error.name}")
        self.path = path
        self.error = error


def chunks(operations: Iterable[_Operation]) -> Iterator[tuple[_Operation, ...]]:
    """Operations in batches of BATCH_MAX."""
    asked = tuple(operations)
    for at in range(0, len(asked), BATCH_MAX):
        yield asked[at : at + BATCH_MAX]


def read(operations: Iterable[Operation]) -> Steps[tuple[Result, ...]]:
    """The results of operations that only read; those whose answer is lost are asked again."""
    asked = tuple(operations)
    results: list[Result] = []
    for chunk in chunks(asked):
        results += yield chunk
    while lost := [index for index, result in enumerate(results) if result.is_lost]:
        again: list[Result] = []
        for chunk in chunks(asked[index] for index in lost):
            again += yield chunk
        for index, result in zip(lost, again, strict=True):
            results[index] = result
    return tuple(results)


def look(path: str) -> Steps[Result | None]:
    """The data of a znode that comes and goes, None if it is not there. A watch is set in either case."""
    while True:
        (found,) = yield from read((Get(path, watch=True),))
        if not found.is_missing:
            return found.must(path)
        (exists,) = yield from read((Exists(path, watch=True),))
        if exists.is_missing:
            return None
        exists.must(path)


# ---------------------------------------------------------------------------------------------- between host and driver


@frozen
class Connected:
    """session_timeout_ms: what was negotiated."""

    session_id: int
    session_timeout_ms: int = 6000


@frozen
class Suspended:
    """The connection is lost; the session may go on."""


@frozen
class Expired:
    """The session is gone, with its ephemeral znodes and watches."""


@frozen
class WatchFired:
    path: str


@frozen
class Results:
    batch: int
    results: tuple[Result, ...]


@frozen
class Submit:
    """An effect: send these operations."""

    batch: int
    operations: tuple[Operation, ...]


@frozen
class Event:
    """Something to be handled. An event with a name is not queued twice; it reads what changed when it runs."""

    name: str
    begin: Callable[[], Steps[None]] = field(eq=False)
    is_unique: bool = True


@define
class Driver:
    """One queue, and at most one handler that runs."""

    _queue: deque[Event] = field(factory=deque)
    _running: Steps[None] | None = None
    _is_new: bool = False
    _to_ask: tuple[Operation, ...] | None = None
    _to_send: tuple[Result, ...] | None = None
    """What the running handler is sent next."""
    _outstanding: int | None = None
    _paused_until_ms: int | None = None
    _batches: int = 0
    is_connected: bool = False

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._queue

    @property
    def size(self) -> int:
        """How many events wait or run."""
        return len(self._queue) + (self._running is not None)

    @property
    def deadline_ms(self) -> int | None:
        return self._paused_until_ms

    def offer(self, event: Event) -> None:
        if not (event.is_unique and any(each.name == event.name and each.is_unique for each in self._queue)):
            self._queue.append(event)

    def clear(self) -> None:
        """Forget the running handler and all events."""
        if self._running is not None:
            self._running.close()
        self._queue.clear()
        self._stop()

    def on_connected(self) -> None:
        self.is_connected = True

    def on_suspended(self) -> None:
        self.is_connected = False

    def on_results(self, answer: Results) -> None:
        if answer.batch != self._outstanding:
            return
        self._outstanding = None
        if any(result.error in _ENDED for result in answer.results):
            self.clear()
            self.is_connected = False
        else:
            self._to_send = answer.results

    def advance(self, now_ms: int) -> Iterable[Submit]:
        """Run handlers until one waits, or none is left. What a handler raises ends it, and is raised."""
        while self._begin():
            if self._paused_until_ms is not None and now_ms >= self._paused_until_ms:
                self._paused_until_ms, self._to_send = None, ()
            if self._to_send is not None:
                self._resume(now_ms)
            elif self._to_ask is not None and self.is_connected:
                asked, self._to_ask = self._to_ask, None
                self._batches += 1
                self._outstanding = self._batches
                yield Submit(self._batches, asked)
            else:
                return

    def _begin(self) -> bool:
        if self._running is None and self._queue and self.is_connected:
            self._running = self._queue.popleft().begin()
            self._is_new, self._to_send = True, ()
        return self._running is not None

    def _resume(self, now_ms: int) -> None:
        running, sent = self._running, self._to_send
        assert running is not None
        assert sent is not None
        is_over = True
        try:
            asked = next(running) if self._is_new else running.send(sent)
            is_over = False
        except StopIteration:
            return
        finally:
            if is_over:
                self._stop()
        self._is_new, self._to_send = False, None
        if isinstance(asked, Pause):
            self._paused_until_ms = now_ms + asked.ms
        elif not asked:
            self._to_send = ()
        else:
            self._to_ask = asked

    def _stop(self) -> None:
        self._running = self._to_ask = self._to_send = self._outstanding = self._paused_until_ms = None
