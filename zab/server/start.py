"""Locks the data directory at a start, and recovers from it.

Both raise ServerFailedError, exit code 3.

Not here: recovery itself (`datatree.recovery.recover`).
"""

from __future__ import annotations

import contextlib
import os

from datatree.log.aside import DAMAGED_DIRECTORY
from datatree.log.epochs import DIRECTORY
from datatree.recovery.holes import Hole
from datatree.recovery.recover import recover
from datatree.recovery.recovered import Recovered
from datatree.recovery.restoring import RESTORED, drop_foreign, take_staged
from datatree.snapshot import SnapshotError
from zab.host.journal.journal import Journal
from zab.host.loop.loop import now_ms
from zab.host.storage.disk import DirectoryInUseError, RealDisk
from zab.member.membership.damage import is_alone
from zab.member.settings.config import Config
from zab.member.storage.hole_fill import find, put
from zab.service.disk_space import make_room
from zab.service.failure import DATA_DIRECTORY_ERROR, ServerFailedError

journal = Journal("server")


def of_zookeeper(config: Config) -> str | None:
    """Why a start would begin empty beside data of ZooKeeper; None: it would not."""
    if _has_files(os.path.join(config.storage.data_dir, DIRECTORY)):
        return None
    for directory in dict.fromkeys((config.storage.data_dir, config.storage.data_log_dir)):
        theirs = os.path.join(directory, "version-2")
        if os.path.isdir(theirs) and any(name.startswith(("log.", "snapshot.")) for name in os.listdir(theirs)):
            return (
                f"{theirs} has data of ZooKeeper, which are not read, and there are none of this server: `zab restore` "
                "makes a dataDir out of them; or name another dataDir, to begin without"
            )
    return None


def _has_files(directory: str) -> bool:
    try:
        return bool(os.listdir(directory))
    except FileNotFoundError:
        return False


def open_disk(config: Config) -> RealDisk:
    if not config.storage.data_dir_autocreate and not os.path.isdir(config.storage.data_dir):
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{config.storage.data_dir} does not exist")
    try:
        foreign = of_zookeeper(config)
        if foreign is not None:
            raise ServerFailedError(DATA_DIRECTORY_ERROR, foreign)
        return RealDisk(config.storage.data_dir, config.storage.data_log_dir)
    except DirectoryInUseError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"{config.storage.data_dir}: {error.strerror}") from error
    except OSError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, str(error)) from error


def recover_from(disk: RealDisk, config: Config, filled: Hole | None) -> tuple[Recovered, Hole | None]:
    """Recover, after a restored snapshot is put in place and `filled` is written; returns also the hole that others may
    fill."""
    began_ms = now_ms()
    try:
        make_room(disk, config.storage.disk_low_bytes)
        _take(disk, config)
        if filled is not None:
            _put(disk, filled)
        recovered = recover(disk, config.server_id)
        hole = find(disk, recovered, filled)
    except OSError as error:
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"cannot recover: {error}") from error
    for problem in recovered.problems:
        journal.warning("recovery found a problem", problem=problem)
    if recovered.damage and is_alone(config):
        found = "; ".join(map(str, recovered.damage))
        raise ServerFailedError(DATA_DIRECTORY_ERROR, f"the history is damaged: {found}. {_way_out(config)}")
    for damage in recovered.damage:
        journal.error(
            "the history is damaged -> count for nothing until the others have synchronized this member",
            damage=damage,
            kept_in=DAMAGED_DIRECTORY,
        )
    journal.info(
        "recovered",
        zxid=f"{recovered.last[0]:#x}",
        mark=f"{recovered.mark:#x}",
        snapshot=f"{recovered.snapshot_zxid:#x}",
        amnesiac=recovered.amnesiac,
        marked=recovered.marked,
        took_ms=now_ms() - began_ms,
    )
    return recovered, hole


def _take(disk: RealDisk, config: Config) -> None:
    if drop_foreign(disk):
        journal.warning("the restored snapshot belongs to another history -> ignored")
    try:
        taken = take_staged(disk, config.server_id)
    except SnapshotError as error:
        reason = f"what was restored cannot be read: {error}; without that file the start goes on as before"
        raise ServerFailedError(DATA_DIRECTORY_ERROR, reason) from error
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(config.storage.data_dir, RESTORED))
    if taken is not None:
        journal.warning(
            "this member goes on with a snapshot that was restored",
            zxid=f"{taken.zxid:#x}",
            lineage=taken.lineage.hex(),
            kept_in=taken.before,
        )


def _put(disk: RealDisk, hole: Hole) -> None:
    after, upto = f"{hole.after[0]:#x}", f"{hole.position[0]:#x}"
    if put(disk, hole):
        journal.info("the hole in the log is filled", after=after, upto=upto)
    else:
        journal.warning("the files have changed -> the hole in the log is not filled", after=after, upto=upto)


def _way_out(config: Config) -> str:
    """What to do about a damaged history that no other member has. Nothing is set aside automatically."""
    return (
        f"Nobody else has it, so nothing is changed: zab restore {config.storage.data_dir} --to DIR makes a new "
        "directory out of what can be read"
    )
