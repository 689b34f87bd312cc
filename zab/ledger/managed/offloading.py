"""Closed ledgers go to an object store: when, and in which order the list says so.

    1   copying   the list names a new copy by its uid: no object is written before that
    2             the host writes the objects, reads them back and compares (`CopyLedger`, `LedgerCopied`)
    3   done      the list says so, if it still names this uid; readers may use the objects
    4   off       after `keep_ms` one multi says that bookies do not have the ledger, and deletes its znode

Each step is a compare-and-set of the list, so that only its owner takes it. A copy whose owner stopped in 2 is never
used: the next try has another uid, and takes the place of the old one in the list. The list no longer names a copy
before its objects are removed (`RemoveObjects`); what a crash leaves is found by `SweepObjects`, which removes what the
list does not name. Uids are never used twice, so a copy that left the list does not come back.

The open ledger is never copied. Ledgers go in the order of the list, one at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from random import Random
from typing import Any, Final, Protocol

from attrs import evolve

from zab.coordination.operations import Delete, Exists
from zab.coordination.steps import Steps, read
from zab.ledger.managed.events import (
    CopyLedger,
    Failed,
    LedgerCopied,
    LogOffload,
    LogReason,
    ObjectsOf,
    Offloaded,
    OwnerState,
    RemoveObjects,
    SweepObjects,
)
from zab.ledger.managed.log_info import LedgerInfo, LogInfo, Offload, OffloadState
from zab.ledger.managed.objects import directory
from zab.ledger.managed.parts import Handlers
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.store import Taken, Written, write_log
from zab.ledger.managed.succession import Succession
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.store.bookies import read_instance
from zab.ledger.store.events import Completed

DROPPED_AT_ONCE_MAX: Final = 50
"""So many ledgers leave the bookies in one multi."""


# --------------------------------------------------------------------------------------------------------------- rules


def next_to_copy(info: LogInfo) -> LedgerInfo | None:
    """The first closed ledger without a copy that is done."""
    return next(
        (
            each
            for each in info.ledgers
            if each.entries is not None and (each.offload is None or not each.offload.is_done)
        ),
        None,
    )


def due_to_drop(info: LogInfo, wall_ms: int, keep_ms: int) -> list[LedgerInfo]:
    """Ledgers whose copy has been done for so long that bookies need not have them."""
    return [
        each
        for each in info.ledgers
        if each.offload is not None
        and each.offload.is_done
        and each.offload.is_on_bookies
        and wall_ms - each.offload.when_ms >= keep_ms
    ]


def next_drop_ms(info: LogInfo, keep_ms: int) -> int | None:
    """When, by the wall clock, the next ledger is due to leave the bookies."""
    times = [
        each.offload.when_ms + keep_ms
        for each in info.ledgers
        if each.offload is not None and each.offload.is_done and each.offload.is_on_bookies
    ]
    return min(times, default=None)


def objects_of(ledgers: Iterable[LedgerInfo]) -> tuple[ObjectsOf, ...]:
    """The copies of ledgers that are no longer in the list."""
    return tuple(ObjectsOf(each.offload.uri, each.id, each.offload.uid) for each in ledgers if each.offload is not None)


# ------------------------------------------------------------------------------------------------------------ handlers


def begin_copy(of: Succession, uid: str, uri: str, wall_ms: int) -> Steps[tuple[LedgerInfo, Offload | None] | None]:
    """Step 1, for the next ledger: what it is, and the copy whose place this one took. None: there is none; with
    `of.is_taken`: another owner has the log."""
    while True:
        log = of.known
        each = next_to_copy(log.info)
        if each is None:
            return None
        copy = Offload(state=OffloadState.COPYING, uid=uid, uri=uri, when_ms=wall_ms)
        written = yield from write_log(log, log.info.with_offload(each.id, copy))
        if isinstance(written, Written):
            of.wrote(written.log)
            return each, each.offload
        if isinstance(written, Taken) and not of.adopt(written.current):
            return None


def end_copy(of: Succession, ledger: int, uid: str, wall_ms: int) -> Steps[bool]:
    """Step 3. False: the list does not name this copy; with `of.is_taken`: another owner has the log."""
    while True:
        log = of.known
        each = log.info.at(ledger)
        if each is None or each.offload is None or each.offload.uid != uid:
            return False
        if each.offload.is_done:
            return True
        copy = evolve(each.offload, state=OffloadState.DONE, when_ms=wall_ms)
        written = yield from write_log(log, log.info.with_offload(ledger, copy))
        if isinstance(written, Written):
            of.wrote(written.log)
            return True
        if isinstance(written, Taken) and not of.adopt(written.current):
            return False


def drop_from_bookies(of: Succession, root: str, wall_ms: int, keep_ms: int) -> Steps[int]:
    """Step 4, for all that are due. Returns how many left; with `of.is_taken`: another owner has the log."""
    gone = 0
    while True:
        log = of.known
        due = due_to_drop(log.info, wall_ms, keep_ms)[:DROPPED_AT_ONCE_MAX]
        if not due:
            return gone
        info = log.info
        for each in due:
            assert each.offload is not None
            info = info.with_offload(each.id, evolve(each.offload, is_on_bookies=False))
        paths = [ledger_path(root, each.id) for each in due]
        there = yield from read(Exists(path) for path in paths)
        # An operator may have deleted one.
        parts = [Delete(path) for path, found in zip(paths, there, strict=True) if not found.is_missing]
        written = yield from write_log(log, info, parts)
        if isinstance(written, Written):
            of.wrote(written.log)
            gone += len(due)
        elif isinstance(written, Taken) and not of.adopt(written.current):
            return gone


# --------------------------------------------------------------------------------------------------------------- owner


class OffloadingOwner(Protocol):
    """The owner of the log, as this part sees it."""

    name: str
    root: str
    settings: LogSettings
    list: Succession
    now_ms: int
    state: OwnerState

    @property
    def wall_ms(self) -> int: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def failed(self) -> Failed: ...

    def offload_is_taken(self) -> None:
        """Another owner has the log."""


class Offloading:
    """What the owner of a log does about it. `out`: effects for the host."""

    def __init__(self, owner: OffloadingOwner, handlers: Handlers, rng: Random, out: list[Any]) -> None:
        self.trouble = ""
        """Why the last try failed, for people."""
        self._owner, self._handlers, self._rng, self._out = owner, handlers, rng, out
        self._copying: tuple[int, str] | None = None
        self._copied: LedgerCopied | None = None
        """The list does not say yet that this one is done."""
        self._calls: list[Hashable] = []
        self._count = 0
        """Ledgers that were copied since the first of these calls."""
        self._at: int | None = None
        self._directory: str | None = None

    @property
    def _works(self) -> bool:
        """Whether the owner is in a state in which the list may be changed by this part."""
        return self._owner.state in (OwnerState.OPEN, OwnerState.TERMINATED) and not self._owner.is_over

    @property
    def deadline_ms(self) -> int | None:
        return self._at if self._works else None

    def takes(self, each: Any) -> bool:
        """Whether this input is for this part."""
        match each:
            case LogOffload(token):
                self._on_call(token)
            case LedgerCopied():
                self._on_copied(each)
            case _:
                return False
        return True

    def check_times(self) -> None:
        if self._at is not None and self._at <= self._owner.now_ms and self._works:
            self.soon()

    def soon(self) -> None:
        """See whether there is something to be done."""
        if self._owner.settings.offload is not None and self._works and self._copying is None:
            self._at = None
            self._handlers.offer("offload", self._work)

    def begin_again(self) -> None:
        """The session is another one: what was under way in it is lost."""
        if self._copied is not None:
            self._end_soon(self._copied)
        else:
            self.soon()

    def end(self) -> None:
        """The owner is over."""
        self._answer(self._owner.failed)

    def removed(self, ledgers: Iterable[LedgerInfo]) -> None:
        """The list no longer names these ledgers."""
        objects = objects_of(ledgers)
        if objects:
            self._out.append(RemoveObjects(objects))

    # ----------------------------------------------------------------------------------------------------------- steps

    def _on_call(self, token: Hashable) -> None:
        if self._owner.is_over:
            self._out.append(Completed(token, self._owner.failed))
        elif self._owner.settings.offload is None:
            self._out.append(Completed(token, Failed(LogReason.NO_OBJECT_STORE)))
        else:
            self._calls.append(token)
            self.soon()

    def _work(self) -> Steps[None]:
        """The next thing that is to be done."""
        of, owner = self._owner.settings.offload, self._owner
        if of is None or not self._works or self._copying is not None:
            return
        if self._directory is None:
            instance = (yield from read_instance(owner.root)) or ""
            self._directory = directory(of.uri, instance, owner.name)
            uris = {each.offload.uri for each in owner.list.info.ledgers if each.offload is not None}
            self._out += [SweepObjects(each) for each in sorted({*uris, self._directory})]
        yield from drop_from_bookies(owner.list, owner.root, owner.wall_ms, of.keep_ms)
        uid = f"{self._rng.getrandbits(128):032x}"
        begun = None
        if not owner.list.is_taken:
            begun = yield from begin_copy(owner.list, uid, self._directory, owner.wall_ms)
        if owner.list.is_taken:
            owner.offload_is_taken()
        elif begun is None:
            self._answer(Offloaded(self._count))
            drop_ms = next_drop_ms(owner.list.info, of.keep_ms)
            self._at = None if drop_ms is None else owner.now_ms + max(1, drop_ms - owner.wall_ms)
        else:
            each, before = begun
            if before is not None:
                self._out.append(RemoveObjects((ObjectsOf(before.uri, each.id, before.uid),)))
            self._copying = each.id, uid
            self._out.append(CopyLedger(each.id, uid, self._directory, of.block_bytes))

    def _on_copied(self, copied: LedgerCopied) -> None:
        if (copied.ledger, copied.uid) != self._copying:
            return
        of = self._owner.settings.offload
        assert of is not None
        if copied.trouble:
            self._copying, self.trouble = None, copied.trouble
            self._at = self._owner.now_ms + of.retry_ms
            self._answer(Failed(LogReason.NOT_OFFLOADED, f"ledger {copied.ledger}: {copied.trouble}"))
        else:
            self._copied = copied
            self._end_soon(copied)

    def _end_soon(self, copied: LedgerCopied) -> None:
        self._handlers.offer("offloaded", lambda: self._end_copy(copied.ledger, copied.uid))

    def _end_copy(self, ledger: int, uid: str) -> Steps[None]:
        owner = self._owner
        if owner.is_over or self._copying != (ledger, uid):
            return
        is_done = yield from end_copy(owner.list, ledger, uid, owner.wall_ms)
        self._copying = self._copied = None
        if owner.list.is_taken:
            owner.offload_is_taken()
            return
        if is_done:
            self.trouble = ""
            self._count += 1
        elif self._directory is not None:
            self._out.append(RemoveObjects((ObjectsOf(self._directory, ledger, uid),)))
        self.soon()

    def _answer(self, outcome: Offloaded | Failed) -> None:
        calls, self._calls, self._count = self._calls, [], 0
        self._out.extend(Completed(token, outcome) for token in calls)
