"""Ledgers in the coordination service: handlers that read, create, change and delete them.

    read_ledger(root, ledger)                    the newest metadata: a sync, then a read
    create_ledger(root, metadata)                with a new id (`ids`); the ledger has no fragment without a znode
    change_ledger(root, versioned, new)          one compare-and-set, checked by `zab.ledger.metadata.changes`
    delete_ledger(root, versioned)               only a closed one
    list_ledgers(root, after, count_max)         ids in order, page by page

A write is never repeated over another one: its version is that of what was read. When the answer to a write is lost,
what the znode contains decides: an unchanged version says that it was not done; the wanted value says that it was. In
between is `Lost`: somebody wrote since, so the caller decides by what it wanted. CoordinationError: the service refuses
for another reason.

Directories of ids come and go: BookKeeper's clients delete empty ones while others create ledgers in them.

Not here: the bytes of znodes (`zab.ledger.metadata.serialized`), which change is right.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from zab.coordination.operations import (
    Children,
    CoordinationError,
    Create,
    Delete,
    Get,
    Result,
    Set,
    Sync,
    ZooKeeperError,
)
from zab.coordination.steps import Steps, read
from zab.ledger.metadata.changes import ALL_CHANGES, Change, ForbiddenChangeError, check_change
from zab.ledger.metadata.ledger_metadata import (
    FORMAT_VERSION,
    InvalidMetadataError,
    LedgerMetadata,
    VersionedMetadata,
)
from zab.ledger.metadata.paths import inner_names, ledger_path, ledgers_in, parents_of, top_names
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.ledger.store.ids import new_ledger_id

CREATE_TRIES_MAX: Final = 100
"""How often the directories of an id are made again before a create is given up."""


@frozen
class Changed:
    """The write was done; this is what is there now."""

    versioned: VersionedMetadata


@frozen
class Refused:
    """The write was not done. `current`: what is there, None if the ledger is gone."""

    current: VersionedMetadata | None


@frozen
class Lost:
    """The write was done or not, and somebody has written since."""


@frozen
class Deleted:
    """The ledger is gone."""


@frozen
class Created:
    """The ledger is there, and open: its writer may begin."""

    versioned: VersionedMetadata


@frozen
class CreatedAndRecovered:
    """The ledger was created, and the answer was lost. Before that was noticed, somebody recovered it, or began to: it
    is empty, and nobody can write it. `versioned`: what is there now."""

    versioned: VersionedMetadata


ChangeOutcome: TypeAlias = Changed | Refused | Lost
CreateOutcome: TypeAlias = Created | CreatedAndRecovered

# ---------------------------------------------------------------------------------------------------------------- reads


def read_ledger(root: str, ledger: int, *, watch: bool = False) -> Steps[VersionedMetadata | None]:
    """The newest metadata, None if there is no such ledger. Raises InvalidMetadataError for bytes that are none."""
    path = ledger_path(root, ledger)
    _, found = yield from read((Sync(path), Get(path, watch)))
    return _versioned(path, ledger, found)


def _versioned(path: str, ledger: int, found: Result) -> VersionedMetadata | None:
    if found.is_missing:
        return None
    return VersionedMetadata(ledger, decode_metadata(found.must(path).data), found.stat.version)


# --------------------------------------------------------------------------------------------------------------- writes


def create_ledger(root: str, metadata: LedgerMetadata) -> Steps[CreateOutcome]:
    """A new ledger with these first metadata, which have a token: it decides whether a create whose answer was lost was
    this one."""
    if not metadata.token or metadata.format_version != FORMAT_VERSION or not metadata.is_open:
        raise ForbiddenChangeError("a ledger begins open, with a token, in the newest format")
    while True:
        ledger = yield from new_ledger_id(root)
        versioned = yield from _create_as(root, ledger, metadata)
        if versioned is not None:
            return Created(versioned) if versioned.metadata.is_open else CreatedAndRecovered(versioned)


def _create_as(root: str, ledger: int, metadata: LedgerMetadata) -> Steps[VersionedMetadata | None]:
    """Create it under this id; None if another ledger has it."""
    path = ledger_path(root, ledger)
    data = encode_metadata(metadata)
    for _ in range(CREATE_TRIES_MAX):
        (created,) = yield (Create(path, data),)
        if created.ok:
            return VersionedMetadata(ledger, metadata, created.stat.version)
        if created.error == ZooKeeperError.NODEEXISTS or created.is_lost:
            _, found = yield from read((Sync(path), Get(path)))
            if not found.is_missing:
                try:
                    there = _versioned(path, ledger, found)
                except InvalidMetadataError:
                    return None
                return there if there is not None and _is_own(there.metadata, metadata) else None
        elif created.is_missing:
            yield from make_parents(root, path)
        else:
            created.must(path)
    raise CoordinationError(path, ZooKeeperError.NONODE)


def _is_own(there: LedgerMetadata, wanted: LedgerMetadata) -> bool:
    """Pulsar's ledgers have no token, or 0."""
    return bool(there.token) and there.token == wanted.token and there.format_version == FORMAT_VERSION


def make_parents(root: str, path: str) -> Steps[None]:
    """The directories between the root and this path. One that vanishes meanwhile is made by the next try."""
    results = yield tuple(Create(each) for each in parents_of(root, path))
    for each, result in zip(parents_of(root, path), results, strict=True):
        if not (result.is_lost or result.error in _COMES_AND_GOES):
            result.must(each)


_COMES_AND_GOES: Final = frozenset(
    {ZooKeeperError.OK, ZooKeeperError.NODEEXISTS, ZooKeeperError.NONODE, ZooKeeperError.NOTEMPTY}
)


def change_ledger(
    root: str, versioned: VersionedMetadata, new: LedgerMetadata, allowed: frozenset[Change] = ALL_CHANGES
) -> Steps[ChangeOutcome]:
    """Replace what was read by `new`, if it is there still. Raises ForbiddenChangeError for a change that nobody may
    make, or not one of `allowed`."""
    check_change(versioned.metadata, new, allowed)
    ledger, path = versioned.ledger, ledger_path(root, versioned.ledger)
    data = encode_metadata(new)
    while True:
        (written,) = yield (Set(path, data, versioned.version),)
        if written.ok:
            return Changed(VersionedMetadata(ledger, new, written.stat.version))
        if written.is_missing:
            return Refused(None)
        if not written.is_lost and written.error != ZooKeeperError.BADVERSION:
            written.must(path)
        current = yield from read_ledger(root, ledger)
        if not written.is_lost:
            return Refused(current)
        if current is None:
            return Lost()
        if current.metadata == new:
            return Changed(current)
        if current.version != versioned.version:
            return Lost()


def delete_ledger(root: str, versioned: VersionedMetadata) -> Steps[Deleted | Refused]:
    """Delete a closed ledger, if it is as it was read; one that is gone counts as deleted. Raises ForbiddenChangeError
    if it is not closed: its writer could go on adding to bookies that have forgotten it."""
    if not versioned.metadata.is_closed:
        raise ForbiddenChangeError("a ledger is deleted that is not closed")
    path = ledger_path(root, versioned.ledger)
    while True:
        (deleted,) = yield (Delete(path, versioned.version),)
        if deleted.ok or deleted.is_missing:
            break
        if not deleted.is_lost and deleted.error != ZooKeeperError.BADVERSION:
            deleted.must(path)
        current = yield from read_ledger(root, versioned.ledger)
        if current is None:
            break
        if not deleted.is_lost or current.version != versioned.version:
            return Refused(current)
    # A directory that is not empty, or gone, stays as it is; one that is left over does no harm.
    yield tuple(Delete(each) for each in reversed(parents_of(root, path)))
    return Deleted()


# -------------------------------------------------------------------------------------------------------------- listing


def list_ledgers(root: str, after: int = -1, count_max: int = 10_000) -> Steps[tuple[int, ...]]:
    """The ids above `after`, in order, at most `count_max`: fewer only at the end. What is created or deleted meanwhile
    may be in it or not; a directory that vanishes is empty."""
    found: list[int] = []
    _, listed = yield from read((Sync(root), Children(root)))
    for name in top_names(listed.must(root).children):
        # The short tree has three levels, the long one five.
        yield from _walk(root, f"{root}/{name}", 2 if len(name) == 2 else 4, after, count_max, found)
    return tuple(found)


def _walk(root: str, path: str, levels: int, after: int, count_max: int, found: list[int]) -> Steps[None]:
    """Add the ledgers below `path`, which are so many levels below it."""
    if len(found) >= count_max or _last_below(root, path, levels) <= after:
        return
    (listed,) = yield from read((Children(path),))
    if listed.is_missing:
        return
    names = listed.must(path).children
    if levels == 1:
        found += [ledger for ledger in ledgers_in(root, path, names) if ledger > after][: count_max - len(found)]
        return
    for name in inner_names(names):
        yield from _walk(root, f"{path}/{name}", levels - 1, after, count_max, found)


def _last_below(root: str, path: str, levels: int) -> int:
    """The largest id whose digits begin with those of this path."""
    return int(path.removeprefix(root).replace("/", "") + "9999" * levels)
