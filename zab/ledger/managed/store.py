"""Managed ledgers in the coordination service: handlers that read, create, claim, change and list them.

    read_log(logs, name)                     the newest list: a sync, then a read
    claim_log(logs, name, owner, …)          become the owner: the next epoch, by compare-and-set
    write_log(versioned, new, parts)         the list, and writes of ledgers, in one multi: all or nothing

Whoever holds a `VersionedLog` of its own epoch may change the list, and nobody else: a claim changes the version, so
every later write of an earlier owner is refused. When the answer to a write is lost, what the list contains decides.

Not here: when a list is changed, and to what (`owner`).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from attrs import evolve, frozen

from zab.coordination.operations import (
    Check,
    Children,
    CoordinationError,
    Create,
    Delete,
    Get,
    Multi,
    Result,
    Set,
    Sync,
    ZooKeeperError,
)
from zab.coordination.steps import Pause, Steps, read
from zab.ledger.managed.log_info import (
    InvalidLogError,
    LogConfig,
    LogInfo,
    LogState,
    decode_log,
    encode_log,
    log_path,
    name_of,
)

CLAIMS_MAX = 20
"""How often a claim that others were faster than is tried again."""
CLAIM_PAUSE_MS = 50
"""The longest pause before the second claim; it doubles each time, up to 32 times that."""

Part: TypeAlias = Create | Set | Delete | Check


@frozen
class VersionedLog:
    """What a read of a log's znode found. `version`: of the znode's data, for the next write."""

    path: str
    info: LogInfo
    version: int


@frozen
class Written:
    """The list is this one now, and all parts were done."""

    log: VersionedLog


@frozen
class Taken:
    """Nothing was done by this write: the list is not as it was read. `current`: what is there, None if the log is
    gone."""

    current: VersionedLog | None


@frozen
class PartRefused:
    """Nothing was done: this part was refused, and the list is as it was."""

    part: int
    error: ZooKeeperError


@frozen
class NoLog:
    """There is no such log, or it is being deleted."""


@frozen
class Contended:
    """Others claimed it, again and again."""


WriteOutcome: TypeAlias = Written | Taken | PartRefused
ClaimOutcome: TypeAlias = VersionedLog | NoLog | Contended


def read_log(logs: str, name: str, *, watch: bool = False) -> Steps[VersionedLog | None]:
    """The newest list, None if there is no such log. Raises InvalidLogError for bytes that are none."""
    return (yield from _read_path(log_path(logs, name), watch=watch))


def _read_path(path: str, *, watch: bool = False) -> Steps[VersionedLog | None]:
    _, found = yield from read((Sync(path), Get(path, watch)))
    if found.is_missing:
        return None
    return VersionedLog(path, decode_log(found.must(path).data), found.stat.version)


def list_logs(logs: str) -> Steps[tuple[str, ...]]:
    """The names of all logs, in the order of their znodes."""
    _, listed = yield from read((Sync(logs), Children(logs)))
    if listed.is_missing:
        return ()
    return tuple(name_of(each) for each in listed.must(logs).children)


# --------------------------------------------------------------------------------------------------------------- claim


def claim_log(
    logs: str,
    name: str,
    owner: str,
    *,
    config: LogConfig | None,
    created_ms: int,
    rng: Random,
    deletes: bool = False,
) -> Steps[ClaimOutcome]:
    """Become the owner in place of any other; with `config` the log is made if there is none. `owner`: random, and new.

    A terminated log is not claimed: nobody writes it. One that is being deleted is claimed only to go on with
    that (`deletes`)."""
    path = log_path(logs, name)
    for tried in range(CLAIMS_MAX):
        if tried:
            yield Pause(1 + rng.randrange(CLAIM_PAUSE_MS << min(tried - 1, 5)))
        found = yield from _read_path(path)
        if found is None:
            if config is None:
                return NoLog()
            made = yield from _create(path, LogInfo(config=config, created_ms=created_ms, owner=owner))
            if made is not None:
                return made
        elif found.info.state is LogState.TERMINATED and not deletes:
            return found
        elif found.info.state is LogState.DELETING and not deletes:
            return NoLog()
        else:
            claimed = yield from write_log(found, found.info.claimed(owner))
            if isinstance(claimed, Written):
                return claimed.log
    return Contended()


def _create(path: str, info: LogInfo) -> Steps[VersionedLog | None]:
    """A new log; None if somebody else made one."""
    while True:
        (made,) = yield (Create(path, encode_log(info)),)
        if made.ok:
            return VersionedLog(path, info, 0)
        if made.is_missing:
            yield from _make_znode(path.rpartition("/")[0])
        elif made.is_lost or made.error == ZooKeeperError.NODEEXISTS:
            found = yield from _read_path(path)
            if found is not None:
                return found if found.info == info else None
        else:
            made.must(path)


def _make_znode(path: str) -> Steps[None]:
    """An empty one, if there is none; its parents too. Raises CoordinationError, also if nothing is there at all, as in
    a chroot that does not exist."""
    while True:
        (made,) = yield (Create(path),)
        parent = path.rpartition("/")[0]
        if made.is_missing and parent:
            yield from _make_znode(parent)
        elif not made.is_lost:
            if made.error != ZooKeeperError.NODEEXISTS:
                made.must(path)
            return


# --------------------------------------------------------------------------------------------------------------- write


def write_log(versioned: VersionedLog, new: LogInfo, parts: Sequence[Part] = ()) -> Steps[WriteOutcome]:
    """Write the list together with these parts, if it is still as it was read. `new` differs from what was read."""
    assert new != versioned.info
    path, data = versioned.path, encode_log(new)
    while True:
        (written,) = yield (Multi((Set(path, data, versioned.version), *parts)),)
        if written.ok:
            return Written(evolve(versioned, info=new, version=versioned.version + 1))
        if not written.is_lost:
            refused, error = _refused_part(written)
            if refused > 0:
                return PartRefused(refused - 1, error)
            if error not in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
                raise CoordinationError(path, error)
            return Taken((yield from _read_or_none(path)))
        current = yield from _read_or_none(path)
        if current is not None and current.info == new:
            return Written(current)
        if current is None or current.version != versioned.version:
            return Taken(current)


def _refused_part(written: Result) -> tuple[int, ZooKeeperError]:
    """The first part that was refused, and why. Raises CoordinationError if the service does not say."""
    for at, part in enumerate(written.parts):
        if part.error not in (ZooKeeperError.OK, ZooKeeperError.RUNTIMEINCONSISTENCY):
            return at, part.error
    raise CoordinationError("multi", written.error)


def _read_or_none(path: str) -> Steps[VersionedLog | None]:
    """What is there; what is no list is nobody's."""
    try:
        return (yield from _read_path(path))
    except InvalidLogError:
        return None
