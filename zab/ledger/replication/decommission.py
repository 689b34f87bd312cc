"""A bookie goes for good: its ledgers are marked, and when no ledger names it its cookie is deleted.

It must not run. Workers copy its entries meanwhile, as for any bookie that is lost; a ledger whose writer lives is
closed by them. Decommissioning may be stopped and begun again. After that, no bookie can start under this name with
the old data, and a new one may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from zab.coordination.operations import Delete, Exists, ZooKeeperError
from zab.coordination.steps import Pause, Steps, read
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.layout import COOKIES
from zab.ledger.replication.passes import each_page, read_metadata
from zab.ledger.replication.records import mark, prepare
from zab.ledger.replication.registered import registered_names


@frozen
class Decommissioned:
    """No ledger names it, and its cookie is gone. `had_cookie`: whether there was one."""

    had_cookie: bool


@frozen
class StillRegistered:
    """It runs."""


@frozen
class Unreadable:
    """The metadata of so many ledgers cannot be read, so nobody knows whether they name it."""

    ledgers: int


DecommissionOutcome: TypeAlias = Decommissioned | StillRegistered | Unreadable


def decommission(
    root: str,
    bookie: BookieId,
    wall_ms: Callable[[], int],
    progress: Callable[[int], None],
    *,
    ledgers_per_s: int = 500,
    pause_ms: int = 5_000,
) -> Steps[DecommissionOutcome]:
    """`progress`: called with how many ledgers name it, after each time that all were searched."""
    yield from prepare(root)
    while True:
        if bookie in (yield from registered_names(root)):
            return StillRegistered()
        named, unreadable = yield from _mark_all(root, bookie, wall_ms, ledgers_per_s)
        progress(named)
        if not named:
            return Unreadable(unreadable) if unreadable else (yield from _delete_cookie(root, bookie))
        yield Pause(pause_ms)


def count_ledgers(root: str, bookie: BookieId, *, ledgers_per_s: int = 500) -> Steps[int]:
    """How many ledgers name this bookie."""
    pages, named = each_page(ledgers_per_s), 0
    while (ids := (yield from pages.next(root))) is not None:
        found, _ = yield from read_metadata(root, ids)
        named += sum(bookie in each.metadata.bookies for each in found)
        yield Pause(pages.pause_ms(len(ids)))
    return named


def _mark_all(root: str, bookie: BookieId, wall_ms: Callable[[], int], per_s: int) -> Steps[tuple[int, int]]:
    pages, named, unreadable = each_page(per_s), 0, 0
    while (ids := (yield from pages.next(root))) is not None:
        found, not_read = yield from read_metadata(root, ids)
        unreadable += not_read
        for each in found:
            if bookie in each.metadata.bookies:
                named += 1
                yield from mark(root, each.ledger, (bookie,), wall_ms())
        yield Pause(pages.pause_ms(len(ids)))
    return named, unreadable


def _delete_cookie(root: str, bookie: BookieId) -> Steps[DecommissionOutcome]:
    """Unless it has come back meanwhile."""
    path, was_lost = f"{root}/{COOKIES}/{bookie}", False
    while True:
        (found,) = yield from read((Exists(path),))
        if found.is_missing:
            return Decommissioned(was_lost)
        version = found.must(path).stat.version
        if bookie in (yield from registered_names(root)):
            return StillRegistered()
        (deleted,) = yield (Delete(path, version),)
        was_lost = was_lost or deleted.is_lost
        if deleted.ok:
            return Decommissioned(had_cookie=True)
        if not (deleted.is_lost or deleted.is_missing or deleted.error == ZooKeeperError.BADVERSION):
            deleted.must(path)
