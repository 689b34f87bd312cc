"""How a managed ledger is deleted: its list says so first, then its ledgers go, then its cursors, then it.

A crash in between leaves a log that says it is being deleted; an owner that claims it to delete it goes on. The ledger
that was written last is closed before: a bookie that forgets a ledger still refuses the entries of its writer, but
nothing that is not closed is ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve

from zab.coordination.operations import Children, Delete, Exists, Get, ZooKeeperError
from zab.coordination.steps import Steps, delete_one, read
from zab.ledger.managed.cursor_state import decode_cursor
from zab.ledger.managed.log_info import CURSORS, OWNER, InvalidLogError, LedgerInfo, LogState
from zab.ledger.managed.store import PartRefused, Taken, VersionedLog, Written, write_log
from zab.ledger.managed.trimming import TRIMMED_AT_ONCE_MAX
from zab.ledger.metadata.ledger_metadata import VersionedMetadata
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.store.ledgers import delete_ledger, read_ledger


def delete_log(
    root: str,
    log: VersionedLog,
    ended: VersionedMetadata | None,
    wall_ms: int,
    left: Callable[[Iterable[LedgerInfo]], None] = lambda _ledgers: None,
) -> Steps[Taken | None]:
    """Delete this owner's log. `ended`: its last ledger, which is closed, and whose end the list does not have. `left`:
    told which ledgers the list no longer names."""
    info = log.info
    if ended is not None and info.open_ledger is not None and info.open_ledger.id == ended.ledger:
        end = ended.metadata
        info = info.with_end(ended.ledger, max(end.last, 0), end.length, wall_ms)
    if info.state is not LogState.DELETING:
        info = evolve(info, state=LogState.DELETING)
    if info != log.info:
        written = yield from write_log(log, info)
        if not isinstance(written, Written):
            return _taken(written)
        log = written.log
    while log.info.ledgers:
        count = min(len(log.info.ledgers), TRIMMED_AT_ONCE_MAX)
        paths = [ledger_path(root, each.id) for each in log.info.ledgers[:count]]
        there = yield from read(Exists(path) for path in paths)
        pieces = [Delete(path) for path, each in zip(paths, there, strict=True) if not each.is_missing]
        written = yield from write_log(log, log.info.without(count), pieces)
        if isinstance(written, Taken):
            return written
        if isinstance(written, Written):
            left(log.info.ledgers[:count])
            log = written.log
    return (yield from _delete_znode(root, log))


def _taken(written: Taken | PartRefused) -> Taken:
    assert isinstance(written, Taken)
    return written


def _delete_cursors(root: str, path: str) -> Steps[None]:
    (listed,) = yield from read((Children(path),))
    if listed.is_missing:
        return
    for name in listed.must(path).children:
        (found,) = yield from read((Get(f"{path}/{name}"),))
        yield from delete_one(f"{path}/{name}")
        if found.ok:
            try:
                ledger = decode_cursor(found.data).ledger
            except InvalidLogError:
                continue
            yield from delete_if_closed(root, ledger)
    yield from delete_one(path)


def delete_if_closed(root: str, ledger: int) -> Steps[None]:
    """What is left over is found by the sweep, which fences it first."""
    versioned = (yield from read_ledger(root, ledger)) if ledger >= 0 else None
    if versioned is not None and versioned.metadata.is_closed:
        yield from delete_ledger(root, versioned)


def _delete_znode(root: str, log: VersionedLog) -> Steps[Taken | None]:
    """The log itself, with its cursors and the hint; an owner that claims it now is too late. Raises CoordinationError
    if it has children that are no part of a log."""
    while True:
        yield from _delete_cursors(root, f"{log.path}/{CURSORS}")
        yield from delete_one(f"{log.path}/{OWNER}")
        (gone,) = yield (Delete(log.path, log.version),)
        if gone.ok or gone.is_missing:
            return None
        if gone.error == ZooKeeperError.BADVERSION:
            return Taken(None)
        (listed,) = yield from read((Children(log.path),))
        # An earlier owner may have made its hint again.
        is_again = gone.error == ZooKeeperError.NOTEMPTY and {*listed.children} <= {CURSORS, OWNER}
        if not gone.is_lost and not is_again:
            gone.must(log.path)
