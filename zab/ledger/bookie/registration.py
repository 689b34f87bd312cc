"""The registration of a bookie: an ephemeral znode that says that it serves, and how.

    available/<bookie>            it takes adds
    available/readonly/<bookie>   it serves reads and recovery

To change, the new znode is made first and the old one deleted after it: for a moment both are there, and never none.
A znode of another session is waited for, at most `WAIT_MS`, and never deleted: its owner may be alive. After the
session expired the bookie goes on serving, and is registered again in the next one.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.coordination.operations import Create, Delete, Get, Set, Sync, ZooKeeperError
from zab.coordination.steps import Pause, Steps, read
from zab.ledger.metadata.layout import AVAILABLE, READ_ONLY

WAIT_MS: Final = 60_000
"""How long the znode of a session that ended is waited for: longer than sessions last without their owners."""
LOOK_MS: Final = 1_000
"""How often it is looked for."""


@frozen
class Registered:
    read_only: bool


@frozen
class NameTaken:
    """Another session holds the name."""

    path: str


def register(root: str, bookie: str, data: bytes, session: int, *, read_only: bool) -> Steps[Registered | NameTaken]:
    """Be registered in this way, and in no other. Raises CoordinationError."""
    paths = (f"{root}/{AVAILABLE}/{bookie}", f"{root}/{READ_ONLY}/{bookie}")
    wanted, other = paths[read_only], paths[not read_only]
    is_ours = yield from _hold(wanted, data, session)
    if not is_ours:
        return NameTaken(wanted)
    yield from _let_go(other, session)
    return Registered(read_only)


def _hold(path: str, data: bytes, session: int) -> Steps[bool]:
    """Have the znode in this session; whether it is so."""
    waited_ms = 0
    while True:
        (created,) = yield (Create(path, data, ephemeral=True),)
        if created.ok:
            return True
        if created.is_missing:
            parent = path.rpartition("/")[0]
            (made,) = yield (Create(parent),)
            if not made.is_lost and made.error != ZooKeeperError.NODEEXISTS:
                made.must(parent)
            continue
        if not (created.is_lost or created.error == ZooKeeperError.NODEEXISTS):
            created.must(path)
        _, found = yield from read((Sync(path), Get(path)))
        if found.is_missing:
            continue
        if found.must(path).stat.ephemeral_owner == session:
            if found.data != data:
                (changed,) = yield (Set(path, data),)
                if changed.is_lost or changed.is_missing:
                    continue
                changed.must(path)
            return True
        if waited_ms >= WAIT_MS:
            return False
        yield Pause(LOOK_MS)
        waited_ms += LOOK_MS


def _let_go(path: str, session: int) -> Steps[None]:
    """Have no znode there of this session."""
    while True:
        _, found = yield from read((Sync(path), Get(path)))
        if found.is_missing or found.must(path).stat.ephemeral_owner != session:
            return
        (deleted,) = yield (Delete(path),)
        if not deleted.is_lost and not deleted.is_missing:
            deleted.must(path)
            return
