"""The record of a ledger that lacks copies, and the lock of who repairs it, or looks at it: handlers.

    lock(root, ledger, bookie, session)      whether this session has it now
    read_record(root, ledger)                under the lock
    unlock(root, ledger, session)

BookKeeper's bookies and workers take the same locks. Not here: who marks and repairs (`zab.ledger.replication`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.coordination.operations import CoordinationError, Create, Delete, Get, Sync, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.paths import parents_of
from zab.ledger.metadata.underreplication import (
    Underreplicated,
    decode_record,
    encode_lock,
    lock_path,
    record_path,
)

TRIES_MAX: Final = 100
"""How often a write is tried again, because others changed the znode or its directories meanwhile."""
SOMEBODY_ELSE: Final = frozenset({ZooKeeperError.NONODE, ZooKeeperError.NODEEXISTS, ZooKeeperError.BADVERSION})
"""The errors that say that another client was there first."""


@frozen
class Record:
    """The record of a ledger. `version`: of its znode."""

    ledger: int
    content: Underreplicated
    version: int


def lock(root: str, ledger: int, name: BookieId, session: int) -> Steps[bool]:
    """Have the lock of this ledger in this session, in the name of this bookie; whether it is so."""
    path = lock_path(root, ledger)
    for _ in range(TRIES_MAX):
        (created,) = yield (Create(path, encode_lock(name), ephemeral=True),)
        if created.ok:
            return True
        if created.is_missing:
            yield from make_parents(root, path)
        elif created.is_lost:
            owner = yield from _owner_of(path)
            if owner is not None:
                return owner == session
        elif created.error == ZooKeeperError.NODEEXISTS:
            return False
        else:
            created.must(path)
    raise CoordinationError(path, ZooKeeperError.NONODE)


def unlock(root: str, ledger: int, session: int) -> Steps[None]:
    """Have this lock no more. One that another session has by now stays."""
    path = lock_path(root, ledger)
    while True:
        (deleted,) = yield (Delete(path),)
        if not deleted.is_lost:
            if not deleted.is_missing:
                deleted.must(path)
            return
        if (yield from _owner_of(path)) != session:
            return


def _owner_of(path: str) -> Steps[int | None]:
    _, found = yield from read((Sync(path), Get(path)))
    return None if found.is_missing else found.must(path).stat.ephemeral_owner


def read_record(root: str, ledger: int) -> Steps[Record | None]:
    """The record as it is now; None: there is none. Raises InvalidMetadataError."""
    path = record_path(root, ledger)
    _, found = yield from read((Sync(path), Get(path)))
    if found.is_missing:
        return None
    return Record(ledger, decode_record(found.must(path).data), found.stat.version)


def make_parents(root: str, path: str) -> Steps[None]:
    """The directories of a znode below `root`."""
    for each in parents_of(root, path):
        yield from create(each, b"")


def create(path: str, data: bytes) -> Steps[None]:
    """Make it, unless it is there. A directory whose parent vanishes meanwhile is made by the next try."""
    while True:
        (created,) = yield (Create(path, data),)
        if not created.is_lost:
            if created.error not in SOMEBODY_ELSE:
                created.must(path)
            return
