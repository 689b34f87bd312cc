"""`zab recover`: a new ensemble begins with what one stopped member has, after a majority lost its data.

    zab recover /var/lib/zab              says what would be kept and lost, and changes nothing
    zab recover --force /var/lib/zab      does it

A member without a majority does not lead: it cannot prove that it has what others acknowledged. The operator can say
that there is nothing better. Then a new lineage begins with the member's tree, at the first zxid of an epoch after all
that it has heard of. No member of the old ensemble takes part in the new one by mistake, and its
leader needs every voter once, as any first start does (B3 first start); the others bring empty directories.

What is in the log after the known high-water mark is kept: the lost leader may have acknowledged it to clients, and a
client that was told nothing must expect both. So nothing is lost that this member has.

    DIR/version-1                       the new history: snapshot.<zxid>, acceptedEpoch, currentEpoch, member
    DIR/version-1.before-<zxid>         the old files, all of them; below --log-dir too

The new files are written aside and synced, then the names are exchanged. The directory is locked meanwhile.

Deliberately not here: moments of the past, several directories, damaged ones and those of ZooKeeper; `zab restore`
makes an ensemble out of these.

Exit codes: 0, also where it is only said what would be done; 1 it cannot be done, and the reason; 2 wrong usage.
"""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import frozen

from datatree.log.batch import LINEAGE_BYTES
from datatree.log.epochs import DIRECTORY, load_member
from datatree.record import RecordError, decode_fields
from datatree.recovery.beginning import begin_history
from datatree.recovery.recover import examine
from datatree.recovery.recovered import Recovered
from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, hexadecimal, json_line, time_text
from zab.cli.new_members import EPOCH_MAX, Format, Target, asides, own_id, sync_path
from zab.cli.terminal import count_of
from zab.host.storage.disk import DirectoryInUseError, RealDisk

__all__ = ["recover_command"]

_HISTORY: Final = ("log.", "snapshot.")
_BEFORE: Final = f"{DIRECTORY}.before-"


class RefusedError(Exception):
    """It cannot be done, and why."""


@frozen
class Found:
    """What the member has, its tree at the end of its history, and what the new history begins with."""

    recovered: Recovered
    server_id: int
    zxid: int

    @property
    def tail_count(self) -> int:
        """Transactions after the known high-water mark."""
        return sum(batch.count for batch in self.recovered.pending)


@frozen
class Begun:
    """The new history, its file, and where the old ones are."""

    lineage: bytes
    path: Path
    old: list[Path]


def recover_command(
    directory: Annotated[Path, typer.Argument(metavar="DATADIR", help="The dataDir of a stopped member.")],
    force: Annotated[bool, typer.Option("--force", help="Do it. Without it, only print what would be done.")] = False,
    log_directory: Annotated[
        Path | None, typer.Option("--log-dir", metavar="DIR", help="Its dataLogDir, if it has one.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """For when no leader can be elected any more, and never will be: the others are lost for good.

    What only they had is lost. The other voters start with empty directories, all of them once.
    """
    roots = list(dict.fromkeys(each.expanduser().absolute() for each in (directory, log_directory or directory)))
    try:
        _check(roots, has_log=log_directory is not None)
        with _locked(roots) as disk:
            found = _find(disk, roots)
            for line in () if json else _said(found):
                print(line)
            begun = _begin(found, roots) if force else None
            if json:
                print(json_line(_fields(found, begun)))
            elif begun is not None:
                for line in _begun_lines(found, begun):
                    print(line)
            if not force:
                print(f"nothing was changed: zab recover --force {directory} does it", file=sys.stderr)
    except RefusedError as error:
        fail(error)
    except OSError as error:
        fail(f"{error.filename or roots[0]}: {error.strerror or error}")


# ------------------------------------------------------------------------------------------------------ what there is


def _check(roots: list[Path], *, has_log: bool) -> None:
    """Refuse a directory without a history of ours, before anything is made there."""
    root = roots[0]
    if not root.is_dir():
        raise RefusedError(f"{root} is no directory")
    if root.name == DIRECTORY:
        raise RefusedError(f"name the data directory, {root.parent}")
    if (root / ".restore").exists():
        raise RefusedError(f"{root / '.restore'} is what an attempt left that was cut off; remove it")
    names = [name for each in roots for name in _names(each / DIRECTORY)]
    if any(name.startswith(_HISTORY) for name in names):
        if not has_log and not any(name.startswith("log.") for name in names):
            raise RefusedError(
                f"{root / DIRECTORY} has no log: it has not run since it was recovered or restored, or the log is "
                f"elsewhere; say where it is with --log-dir, or --log-dir {root}"
            )
        return
    before = [name for name in _names(root) if name.startswith(_BEFORE)]
    if before and not (root / DIRECTORY).exists():
        raise RefusedError(f"a recovery was cut off: rename {root / before[-1]} to {DIRECTORY}, and begin again")
    if any(name.startswith(_HISTORY) for name in _names(root / "version-2")):
        raise RefusedError(f"{root} is a directory of ZooKeeper; zab restore {root} --to … makes members out of it")
    raise RefusedError(f"{root} holds no history; a member without one is synchronized by the others")


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []


@contextlib.contextmanager
def _locked(roots: list[Path]) -> Iterator[RealDisk]:
    try:
        disk = RealDisk(str(roots[0]), str(roots[-1]))
    except DirectoryInUseError:
        raise RefusedError(f"a member runs on {roots[0]}; stop it first") from None
    try:
        yield disk
    finally:
        disk.close()


def _find(disk: RealDisk, roots: list[Path]) -> Found:
    """What the member would find at its start. Raises RefusedError where that may be less than it had."""
    elsewhere = f"zab restore {roots[0]} --to … makes an ensemble out of what can be read"
    recovered = examine(disk)
    for problem in recovered.problems:
        print(f"zab: {problem}", file=sys.stderr)
    if recovered.damage:
        raise RefusedError(f"the history is damaged: {'; '.join(map(str, recovered.damage))}. {elsewhere}")
    member = load_member(disk)
    if member is None or recovered.epochs is None:
        raise RefusedError(
            f"{roots[0]} is not known to hold a whole history: its record or its epochs are missing. {elsewhere}"
        )
    if recovered.mismatch_zxid is not None:
        raise RefusedError(f"at {recovered.mismatch_zxid:#x} its tree is not the one of its leader. {elsewhere}")
    if recovered.empty:
        raise RefusedError(f"{roots[0]} holds no history; a member without one is synchronized by the others")
    own = own_id(roots[0])
    if own is not None and own != member.server_id:
        raise RefusedError(f"{roots[0] / 'myid'} says {own}, but the directory belongs to member {member.server_id}")
    epoch = max(recovered.epochs[0], recovered.last[0] >> 32)
    if epoch >= EPOCH_MAX:
        raise RefusedError(f"no epoch comes after {epoch}")
    try:
        for batch in recovered.pending:
            for txn in decode_fields(batch.body, batch.first, batch.count):
                recovered.tree.apply(txn, is_watched=False)
    except RecordError as error:
        raise RefusedError(f"batch {batch.first:#x} holds no transactions: {error}. {elsewhere}") from None
    return Found(recovered, member.server_id, (epoch + 1) << 32 | 1)


def _fields(found: Found, begun: Begun | None) -> dict[str, Any]:
    """For JSON: what is kept, and what was begun with it; null where nothing was changed."""
    recovered = found.recovered
    assert recovered.epochs is not None
    return {
        "member": found.server_id,
        "ensemble": recovered.lineage.hex(),
        "epoch": recovered.epochs[1],
        "zxid": hexadecimal(recovered.last[0]),
        "time": time_text(recovered.recent[-1].time) if recovered.recent else None,
        "znode_count": recovered.tree.znode_count,
        "session_count": len(recovered.tree.sessions),
        "uncommitted_count": found.tail_count,
        "new_ensemble": None if begun is None else begun.lineage.hex(),
        "new_zxid": None if begun is None else hexadecimal(found.zxid),
        "path": None if begun is None else str(begun.path),
        "old_files": None if begun is None else [str(each) for each in begun.old],
    }


def _said(found: Found) -> Iterator[str]:
    """What is kept, and what is lost."""
    recovered, tree = found.recovered, found.recovered.tree
    when = ""
    if recovered.recent:
        moment = datetime.fromtimestamp(recovered.recent[-1].time / 1000, UTC)
        when = f", {moment.isoformat(timespec='milliseconds')}"
    last = recovered.last[0]
    assert recovered.epochs is not None
    yield f"member {found.server_id} of ensemble {recovered.lineage.hex()}, epoch {recovered.epochs[1]}"
    yield f"kept: everything up to zxid {last:#x}{when}"
    yield f"      {count_of(tree.znode_count, 'znode')}, {count_of(len(tree.sessions), 'session')}"
    if found.tail_count:
        tail = count_of(found.tail_count, "transaction")
        yield f"      of that, {tail} after {recovered.mark:#x} may not have been committed, nor acknowledged"
    yield f"lost: whatever others had after {last:#x}, though clients may have been told that it is done"
    yield "      all sessions, with their ephemerals, when they expire"


# ---------------------------------------------------------------------------------------------------------- doing it


def _begin(found: Found, roots: list[Path]) -> Begun:
    """Write the new history aside, set the old one aside, and exchange the names."""
    target, lineage = Target(found.server_id, roots[0]), secrets.token_bytes(LINEAGE_BYTES)
    before = f"{_BEFORE}{found.zxid:x}"
    with asides([target], Format.NATIVE):
        disk = RealDisk(str(target.aside), lock=False)
        path = begin_history(disk, found.recovered.tree, found.zxid, lineage, found.server_id)
        _exchange(target, before)
    for root in roots[1:]:
        # A crash before this leaves a log of another lineage, which is ignored.
        os.rename(root / DIRECTORY, root / before)
        sync_path(root)
    return Begun(lineage, roots[0] / path, [root / before for root in roots])


def _begun_lines(found: Found, begun: Begun) -> Iterator[str]:
    yield f"begun: ensemble {begun.lineage.hex()} at zxid {found.zxid:#x}"
    yield f"member {found.server_id}: {begun.path}"
    for place in begun.old:
        yield f"old files: {place}"
    yield "now start all voters, the others with empty data directories; a majority is not enough the first time"


def _exchange(target: Target, before: str) -> None:
    os.rename(target.directory / DIRECTORY, target.directory / before)
    try:
        os.rename(target.aside / DIRECTORY, target.directory / DIRECTORY)
    except OSError:
        os.rename(target.directory / before, target.directory / DIRECTORY)
        raise
    sync_path(target.directory)
