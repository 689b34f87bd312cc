"""What operators set for all auditors and workers, and what auditors note for their successors: handlers.

disable        exists: nothing is audited, and no repair begins
delay          how long a bookie may be away before its ledgers are marked. Written again with the value that it
               has, it makes the auditor search for lost bookies at once, as BookKeeper's `triggeraudit` does
check times    when each check of all ledgers was last done
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.coordination.operations import CoordinationError, Create, Exists, Get, Set, Sync, ZooKeeperError
from zab.coordination.steps import Steps, create_one, delete_one, read
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.underreplication import (
    DISABLE,
    LOST_BOOKIE_RECOVERY_DELAY,
    decode_check_time,
    decode_delay,
    encode_check_time,
    encode_delay,
)
from zab.ledger.replication.records import prepare

TRIES_MAX: Final = 100


@frozen
class Delay:
    """`version`: of the znode; one that is higher than before is a request to search at once."""

    seconds: int
    version: int


def is_disabled(root: str, *, watch: bool = False) -> Steps[bool]:
    path = f"{root}/{DISABLE}"
    (found,) = yield from read((Exists(path, watch),))
    return not found.is_missing and found.must(path).ok


def disable(root: str) -> Steps[bool]:
    """Whether that was changed."""
    yield from prepare(root)
    return (yield from create_one(f"{root}/{DISABLE}"))


def enable(root: str) -> Steps[bool]:
    """Whether that was changed."""
    return (yield from delete_one(f"{root}/{DISABLE}"))


def read_delay(root: str, *, watch: bool = False) -> Steps[Delay | None]:
    """None: nobody has set one, or it is no number."""
    path = f"{root}/{LOST_BOOKIE_RECOVERY_DELAY}"
    _, found = yield from read((Sync(path), Get(path, watch)))
    if found.is_missing:
        return None
    try:
        return Delay(decode_delay(found.must(path).data), found.stat.version)
    except InvalidMetadataError:
        return None


def write_delay(root: str, seconds: int) -> Steps[None]:
    """Set the delay; with the value that it has, the auditor searches at once."""
    yield from prepare(root)
    yield from _write(f"{root}/{LOST_BOOKIE_RECOVERY_DELAY}", encode_delay(seconds))


def first_delay(root: str, seconds: int) -> Steps[None]:
    """Set the delay, unless it is set."""
    yield from create_one(f"{root}/{LOST_BOOKIE_RECOVERY_DELAY}", encode_delay(seconds))


def read_check_time(root: str, name: str) -> Steps[int | None]:
    """When this check was last done, in milliseconds since 1970; None: never."""
    path = f"{root}/{name}"
    (found,) = yield from read((Get(path),))
    if found.is_missing:
        return None
    try:
        return decode_check_time(found.must(path).data)
    except InvalidMetadataError:
        return None


def write_check_time(root: str, name: str, wall_ms: int) -> Steps[None]:
    yield from _write(f"{root}/{name}", encode_check_time(wall_ms))


def _write(path: str, data: bytes) -> Steps[None]:
    """Replace what is there."""
    for _ in range(TRIES_MAX):
        (written,) = yield (Set(path, data),)
        if written.is_missing:
            (written,) = yield (Create(path, data),)
        if written.ok:
            return
        if not (written.is_lost or written.error in (ZooKeeperError.NODEEXISTS, ZooKeeperError.NONODE)):
            written.must(path)
    raise CoordinationError(path, ZooKeeperError.NONODE)
