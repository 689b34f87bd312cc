"""The records of ledgers that lack copies, and the locks of those that are being repaired: handlers.

    mark(root, ledger, bookies, wall_ms)       that these bookies lack entries, in addition to what the record says
    take(root, name, session, rng, skipped, put_off)
                                               any record that nobody has locked: locked, then read
    remove(root, ledger, version)              the ledger is repaired; unless the record was marked again meanwhile
    unlock(root, ledger, session)
    list_records(root, count_max)              for operators

BookKeeper's auditors, workers and bookies use the same znodes (`zab.ledger.metadata.underreplication`). A worker reads
the record after it has the lock, and deletes it with the version that it read: a bookie that is added meanwhile is not
forgotten. All begin at random places of the tree, so that they do not compete for the first record.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from random import Random
from typing import Final

from zab.coordination.operations import (
    Children,
    CoordinationError,
    Create,
    Delete,
    Get,
    Set,
    ZooKeeperError,
)
from zab.coordination.steps import Steps, read
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.paths import parents_of
from zab.ledger.metadata.repair_locks import (
    SOMEBODY_ELSE,
    TRIES_MAX,
    Record,
    create,
    lock,
    make_parents,
    read_record,
    unlock,
)
from zab.ledger.metadata.underreplication import (
    LOCKS,
    RECORDS,
    REPLICATION_LAYOUT,
    Underreplicated,
    decode_record,
    encode_record,
    encode_replication_layout,
    is_replication_layout_served,
    ledger_of_leaf,
    record_path,
)

LEVELS: Final = 4
"""Directories between the root of the records and a record."""
DIRECTORIES_MAX: Final = 1_000
"""So many directories are looked into for one record."""


def prepare(root: str) -> Steps[None]:
    """Make what auto-recovery needs. Raises InvalidMetadataError if records are laid out in another way."""
    layout = f"{root}/{REPLICATION_LAYOUT}"
    yield from make_parents(root, f"{root}/{RECORDS}/x")
    yield from make_parents(root, f"{root}/{LOCKS}/x")
    yield from create(layout, encode_replication_layout())
    (found,) = yield from read((Get(layout),))
    if not is_replication_layout_served(found.must(layout).data):
        raise InvalidMetadataError("the records of auto-recovery are laid out in another way")


def mark(root: str, ledger: int, bookies: Iterable[BookieId], wall_ms: int) -> Steps[bool]:
    """Have a record that names these bookies. Whether anything had to be written."""
    path, missing = record_path(root, ledger), tuple(dict.fromkeys(bookies))
    for _ in range(TRIES_MAX):
        (found,) = yield from read((Get(path),))
        if found.is_missing:
            (done,) = yield (Create(path, encode_record(Underreplicated(missing, wall_ms))),)
            if done.is_missing:
                yield from make_parents(root, path)
                continue
        else:
            before = decode_record(found.must(path).data)
            after = before
            for bookie in missing:
                after = after.merged(bookie)
            if after == before:
                return False
            (done,) = yield (Set(path, encode_record(after), found.stat.version),)
        if done.ok:
            return True
        if not (done.is_lost or done.error in SOMEBODY_ELSE):
            done.must(path)
    raise CoordinationError(path, ZooKeeperError.BADVERSION)


# -------------------------------------------------------------------------------------------------------------- workers


def take(
    root: str,
    name: BookieId,
    session: int,
    rng: Random,
    skipped: Container[int],
    put_off: Container[int] = frozenset(),
) -> Steps[Record | None]:
    """Lock a record, not one of those skipped, and read it; one that is put off only if there is no other. None: there
    is none that is not locked."""
    (listed,) = yield from read((Children(f"{root}/{LOCKS}"),))
    locked = frozenset(listed.children)
    to_visit = [(f"{root}/{RECORDS}", LEVELS)]
    others: list[int] = []
    for _ in range(DIRECTORIES_MAX):
        if not to_visit:
            break
        path, levels = to_visit.pop()
        (listed,) = yield from read((Children(path),))
        if listed.is_missing:
            continue
        names = list(listed.must(path).children)
        rng.shuffle(names)
        if levels:
            to_visit += [(f"{path}/{each}", levels - 1) for each in names]
            continue
        for leaf in names:
            ledger = ledger_of_leaf(leaf)
            if ledger is None or ledger in skipped or leaf in locked:
                continue
            if ledger in put_off:
                others.append(ledger)
                continue
            record = yield from _lock_and_read(root, ledger, name, session)
            if record is not None:
                return record
    for ledger in others:
        record = yield from _lock_and_read(root, ledger, name, session)
        if record is not None:
            return record
    return None


def _lock_and_read(root: str, ledger: int, name: BookieId, session: int) -> Steps[Record | None]:
    if not (yield from lock(root, ledger, name, session)):
        return None
    try:
        record = yield from read_record(root, ledger)
    except InvalidMetadataError:
        record = None
    if record is None:
        yield from unlock(root, ledger, session)
    return record


def remove(root: str, ledger: int, version: int) -> Steps[bool]:
    """Delete the record of this version, and the directories that are empty then. False: it was marked again."""
    path = record_path(root, ledger)
    while True:
        (deleted,) = yield (Delete(path, version),)
        if deleted.ok or deleted.is_missing:
            break
        if deleted.error == ZooKeeperError.BADVERSION:
            return False
        if not deleted.is_lost:
            deleted.must(path)
    inner = [each for each in parents_of(root, path) if each.startswith(f"{root}/{RECORDS}/")]
    for each in reversed(inner):
        (gone,) = yield (Delete(each),)
        if not gone.ok:
            break
    return True


# ------------------------------------------------------------------------------------------------------------ operators


def list_records(root: str, count_max: int) -> Steps[tuple[Record, ...]]:
    """The records with the lowest ids, at most so many. One that cannot be read names no bookie."""
    found: list[Record] = []
    yield from _list(root, f"{root}/{RECORDS}", LEVELS, count_max, found)
    return tuple(found)


def _list(root: str, path: str, levels: int, count_max: int, found: list[Record]) -> Steps[None]:
    if len(found) >= count_max:
        return
    (listed,) = yield from read((Children(path),))
    if listed.is_missing:
        return
    for name in listed.must(path).children:
        if levels:
            yield from _list(root, f"{path}/{name}", levels - 1, count_max, found)
        elif (ledger := ledger_of_leaf(name)) is not None and len(found) < count_max:
            try:
                record = yield from read_record(root, ledger)
            except InvalidMetadataError:
                record = Record(ledger, Underreplicated(()), -1)
            if record is not None:
                found.append(record)


def list_locks(root: str) -> Steps[frozenset[int]]:
    """The ledgers that are being repaired, or looked at by a bookie."""
    (listed,) = yield from read((Children(f"{root}/{LOCKS}"),))
    ledgers = map(ledger_of_leaf, listed.children)
    return frozenset(each for each in ledgers if each is not None)
