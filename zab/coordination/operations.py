"""Operations for the coordination service, and their results, as pure code asks for them.

Errors are ZooKeeper's codes (`datatree.errors`). CONNECTIONLOSS says that an operation was done or not.

Not here: who asks for them (`zab.coordination.steps`), the connection, the session, ACLs (the host knows them by the
path), chroots (the host prepends one).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from datatree.errors import ErrorCode as ZooKeeperError

__all__ = [
    "ANY_VERSION",
    "Check",
    "Children",
    "CoordinationError",
    "Create",
    "Delete",
    "Exists",
    "Get",
    "Multi",
    "Operation",
    "Result",
    "Set",
    "Stat",
    "Sync",
    "ZooKeeperError",
]

ANY_VERSION: Final = -1


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
class Sync:
    """Before a read that must not be old: later reads of this session find every write that was answered to anybody
    before. A read alone may be old, since one member answers it from its own tree."""

    path: str


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


Operation: TypeAlias = Create | Get | Exists | Children | Sync | Set | Delete | Multi


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


class CoordinationError(Exception):
    """The service refused what it should not: the handler cannot go on."""

    def __init__(self, path: str, error: ZooKeeperError) -> None:
        super().__init__(f"{path}: {error.name}")
        self.path = path
        self.error = error
