"""One request in the client's hands, and what the client learns from a connection. Pure data.

A `ClientRequest` carries everything that is needed when its reply arrives: how to read the reply's body, and which
watch is registered from then on. So the connection decodes and registers in the order of the bytes, and the task that
asked only picks up the result.

Events are what a `Connection` reports, effects what a `Session` wants done; both are closed sets.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from attrs import define

from zab.client.core.exceptions import RequestError, ZabError
from zab.client.core.records import State, WatchEvent
from zab.client.core.watches import Table

__all__ = [
    "Answered",
    "Asker",
    "Became",
    "ClientRequest",
    "Decode",
    "Done",
    "Effect",
    "Event",
    "Notified",
    "Opened",
    "Registration",
    "Tell",
]

T = TypeVar("T")

# Reads a reply's body, from the offset on. Raises JuteError.
Decode: TypeAlias = Callable[[bytes, int], T]


@define
class Registration:
    """The watch that a request registers: in `table` when it succeeds, in `missing` when there is no such znode."""

    path: bytes
    watcher: Hashable
    table: Table
    missing: Table | None = None


class Asker(Protocol):
    """Is woken when a request is over."""

    def wake(self) -> None: ...


@define(eq=False)
class ClientRequest(Generic[T]):
    """path: as the caller gave it, for error messages. body: encoded already.

    Once it is over, `result` or `error` is set, and `asker` is woken, if there is one.
    """

    opcode: int
    body: bytes
    decode: Decode[T]
    path: str | None = None
    registration: Registration | None = None
    asker: Asker | None = None
    is_over: bool = False
    result: T | None = None
    error: ZabError | None = None

    def end(self, result: T | None, error: ZabError | None) -> None:
        self.is_over, self.result, self.error = True, result, error
        if self.asker is not None:
            self.asker.wake()


@define
class Opened:
    """The server took the session: the connection carries requests from here on."""

    session_id: int
    password: bytes
    timeout_ms: int
    read_only: bool


@define
class Expired:
    """The server no longer knows the session, and closes the connection."""


@define
class Answered:
    """`error` is the code of the reply's header; `result` what `decode` made of the body, None after an error."""

    request: ClientRequest[Any]
    error: int
    zxid: int
    result: Any


@define
class Notified:
    """A watch fired."""

    zxid: int
    type: int
    path: bytes


Event: TypeAlias = Opened | Expired | Answered | Notified


@define
class Done:
    """The request is over: with a result, or with an error."""

    request: ClientRequest[Any]
    result: Any = None
    error: RequestError | None = None


@define
class Tell:
    """The watcher is told of `event`."""

    watcher: Hashable
    event: WatchEvent


@define
class Became:
    """The session's state changed."""

    state: State


Effect: TypeAlias = Done | Tell | Became
