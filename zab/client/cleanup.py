"""The job that deletes znodes which their owner no longer wants, even if the owner was cancelled. A `BackgroundJob`,
pure.

    created                   delete it
    perhaps created           the answer to its create was lost, or nobody waited for it: sync, then delete it
    perhaps, under any path   sync, list the parent, and delete what carries the owner's mark in its name
    perhaps another owner's   the path is shared: sync, read it, and delete it if it is the owner's

    SYNC --answered--> LIST or READ --answered--> DELETE … --answered--> done
    any --the connection was lost--> repeated on the next one; for a shared path, from SYNC on

The sync comes first because a create that was in flight when its connection ended may still be done: once a sync of
this session is answered, it has been done or never will be. So what the list does not show does not exist.

Invariants:
- A cleanup of an ephemeral ends: the znode is deleted, or its session is over, and the znode with it.
- Only a znode with the mark or the path is deleted; at a shared path, only one with this `Sign`. It is no error if the
  znode is gone. (Between reading and deleting, another client may have replaced the znode. Owners that share a path
  have to accept that.)
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from zab.client.core.backends import Waiter
from zab.client.core.exceptions import ConnectionLossError, NoNodeError, ZabError
from zab.client.core.operations import Operation, Operations
from zab.client.core.records import Stat

__all__ = ["Cleanup", "Sign"]


class Step(Enum):
    SYNC = "sync"
    LIST = "list"
    READ = "read"
    DELETE = "delete"


class Sign(NamedTuple):
    """How an owner recognizes its znode at a shared path. czxid 0: unknown; then `data` is what only this owner
    writes."""

    session_id: int
    data: bytes
    czxid: int

    def is_on(self, data: bytes | None, stat: Stat) -> bool:
        is_own = stat.ephemeral_owner == self.session_id and (data or b"") == self.data
        return is_own and self.czxid in (0, stat.czxid)


class Cleanup:
    """A job for `Client.undertake`.

    paths: the znodes to delete. marked: (parent, mark) if the paths have to be found first; the root is "". is_sure: no
    create of these paths can be in flight. sign: that of the znode, if its path is shared. error: why the znodes cannot
    be deleted.
    """

    def __init__(
        self,
        operations: Operations,
        waiter: Waiter,
        paths: Iterable[str] = (),
        marked: tuple[str, str] | None = None,
        *,
        is_sure: bool = False,
        sign: Sign | None = None,
    ) -> None:
        self.is_done = False
        self.error: ZabError | None = None
        self._operations = operations
        self._waiter = waiter
        self._paths = dict.fromkeys(paths)
        self._marked = marked
        self._sign = sign
        self._step = Step.DELETE if is_sure and marked is None and sign is None else Step.SYNC
        self._asked: Operation[Any] | None = None

    async def heard(self) -> None:
        """Returns when the znodes are deleted, or when the connection was lost, since it may then take long. For one
        caller."""
        await self._waiter.wait()

    def next(self) -> Operation[Any] | None:
        if self._asked is not None or self.is_done:
            return None
        if self._step is Step.DELETE:
            if not self._paths:
                self._end()
                return None
            self._asked = self._operations.delete(next(iter(self._paths)), -1)
        elif self._step is Step.SYNC:
            self._asked = self._operations.sync("/")
        elif self._step is Step.READ:
            self._asked = self._operations.get(next(iter(self._paths)))
        else:
            assert self._marked is not None
            self._asked = self._operations.get_children(self._marked[0] or "/")
        return self._asked

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        assert operation is self._asked
        self._asked = None
        if isinstance(error, ConnectionLossError):
            if self._sign is not None:
                # By the time of the next connection another client's znode may be there.
                self._step = Step.SYNC
            self._waiter.wake()
            return
        if error is not None and not isinstance(error, NoNodeError):
            self._end(error)
            return
        if self._step is Step.SYNC:
            self._step = self._after_sync
        elif self._step is Step.READ:
            assert self._sign is not None
            self._step = Step.DELETE
            if error is not None or not self._sign.is_on(*result):
                self._end()
        elif self._step is Step.LIST:
            assert self._marked is not None
            parent, mark = self._marked
            names = [] if error is not None else result
            self._paths.update((f"{parent}/{name}", None) for name in names if name.startswith(mark))
            self._step = Step.DELETE
        else:
            assert operation.path is not None
            del self._paths[operation.path]

    @property
    def _after_sync(self) -> Step:
        if self._marked is not None:
            return Step.LIST
        return Step.DELETE if self._sign is None else Step.READ

    def ended(self, reason: ZabError) -> None:
        self._end()

    def _end(self, error: ZabError | None = None) -> None:
        self.is_done, self.error = True, error
        self._waiter.wake()
