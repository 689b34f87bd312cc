"""`zab fsck DIR`: what is wrong with the files of a stopped member, and what will happen at its next start.

It reads every byte that counts, including what a start does not look at: older snapshots, and the log below the newest
one. If a snapshot was restored, and a start has begun to continue with it, it examines that. It changes nothing, and
takes no lock. A running member reads through its files by itself (`zab.server.scrubber`).

Exit codes: 0 all of it is whole; 1 something is damaged, or it cannot be looked at; 2 wrong usage.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import evolve, frozen

from datatree.history import DATA_DIRECTORY, Evidence, unread
from datatree.log.epochs import DIRECTORY, load_epochs, load_mark, load_member
from datatree.log.transaction_log import TransactionLog
from datatree.recovery.holes import Hole, find_hole
from datatree.recovery.recover import examine
from datatree.recovery.recovered import Recovered
from datatree.recovery.restoring import GoesOn, goes_on_with
from datatree.recovery.scrub import Scrub
from datatree.snapshot import SnapshotError, load_snapshot, snapshot_files, verify_snapshot
from zab.cli.exits import REFUSED, fail
from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.terminal import count_of
from zab.host.storage.disk import LOCK_FILE, RealDisk

__all__ = ["fsck_command"]

_HISTORY: Final = ("log.", "snapshot.")


class Kind(StrEnum):
    """How bad it is that a file differs from what was written."""

    DAMAGE = "damage"
    RECORD = "record"
    PROBLEM = "problem"


@frozen
class Finding:
    """One problem, with the path below the data directory."""

    kind: Kind
    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


@frozen
class Looked:
    """The report: which history, what was found, and what happens at the next start."""

    lineage: bytes
    zxid: int
    held: str
    """How many znodes the tree has, if known."""
    findings: list[Finding]
    verdict: str
    is_damaged: bool
    is_amnesiac: bool = False


def fsck_command(
    directory: Annotated[Path, typer.Argument(metavar="DATADIR", help="The dataDir of a stopped member.")],
    log_directory: Annotated[
        Path | None, typer.Option("--log-dir", metavar="DIR", help="Its dataLogDir, if it has one.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Nothing is changed. Exit code 1: something is damaged."""
    roots = list(dict.fromkeys(each.expanduser().absolute() for each in (directory, log_directory or directory)))
    try:
        _check(roots)
        looked = _look(RealDisk(str(roots[0]), str(roots[-1]), lock=False), roots)
    except OSError as error:
        fail(f"{error.filename or roots[0]}: {error.strerror or error}")
    for line in _json(looked) if json else _text(looked):
        print(line)
    sys.stdout.flush()
    if looked.findings:
        raise typer.Exit(REFUSED)


def _check(roots: list[Path]) -> None:
    """Refuse missing directories, and the directory of a running member."""
    for root in roots:
        if not root.is_dir():
            fail(f"{root}: there is no such directory")
    for root in roots:
        if _is_locked(root / LOCK_FILE):
            fail(f"a member runs on {root}: it reads through its files by itself, and its journal says what it finds")


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _look(disk: RealDisk, roots: list[Path]) -> Looked:
    """Examine what a start continues with."""
    try:
        given = goes_on_with(disk)
        if given is not None and not given.is_begun:
            verify_snapshot(disk, given.path)
    except SnapshotError as error:
        looked = _look_at_history(disk, roots)
        verdict = "its next start ends with exit code 3: what was restored cannot be read; remove it, and give it again"
        return evolve(looked, findings=[_damage(error), *looked.findings], is_damaged=True, verdict=verdict)
    if given is None:
        return _look_at_history(disk, roots)
    if given.is_begun:
        return _look_at_staged(disk, given)
    verdict = f"at its next start it sets all of this aside, and goes on with {given.path}, which was restored"
    return evolve(_look_at_history(disk, roots), verdict=verdict)


def _look_at_staged(disk: RealDisk, given: GoesOn) -> Looked:
    """A start has begun to go on with it."""
    findings, held = [], ""
    try:
        held = _held(load_snapshot(disk, given.path)[1].znode_count, given.header.zxid)
    except SnapshotError as error:
        findings.append(_damage(error))
    verdict = f"at its next start it sets aside what is left here, beside {given.before}, and goes on with {given.path}"
    verdict += ", which was restored"
    if findings:
        verdict += "; that is damaged, so it counts for nothing until the others have synchronized it"
    return Looked(given.header.lineage, given.header.zxid, held, findings, verdict, is_damaged=bool(findings))


def _look_at_history(disk: RealDisk, roots: list[Path]) -> Looked:
    names = [name for root in roots if (root / DIRECTORY).is_dir() for name in os.listdir(root / DIRECTORY)]
    if not any(name.startswith(_HISTORY) for name in names):
        fail(f"{roots[0]} holds no history")
    if len(roots) == 1 and not _has_state(disk, roots[0], names):
        fail(f"{roots[0]} has logs alone: {DATA_DIRECTORY}, and this directory with --log-dir")
    recovered = examine(disk)
    reason = None if any(name.startswith("log.") for name in names) else unread([_without_log(roots[0], recovered)])
    if reason is not None:
        fail(f"{reason}, with --log-dir")
    hole, findings = find_hole(disk, recovered), _findings(disk, recovered)
    return Looked(
        recovered.lineage,
        recovered.last[0],
        "" if recovered.damage else _held(recovered.tree.znode_count, recovered.mark),
        findings,
        _verdict(recovered, hole, findings),
        is_damaged=bool(recovered.damage),
        is_amnesiac=recovered.amnesiac,
    )


def _has_state(disk: RealDisk, root: Path, names: list[str]) -> bool:
    """Whether it is more than the dataLogDir of a member, which does not show how the next start goes."""
    if any(name.startswith("snapshot.") for name in names) or (root / "myid").exists():
        return True
    return load_member(disk) is not None or load_epochs(disk) is not None or load_mark(disk) is not None


def _without_log(root: Path, recovered: Recovered) -> Evidence:
    """What is known about the end of a history with snapshots only. That they do not reach it is not damage: a
    `dataLogDir` was not named."""
    disk = RealDisk(str(root), lock=False)
    known = load_mark(disk)
    committed = known[1] if known is not None and known[0] == recovered.lineage else 0
    return Evidence(
        name=str(root),
        is_native=True,
        has_records=load_member(disk) is not None or load_epochs(disk) is not None,
        has_log=False,
        snapshot=max(snapshot_files(disk), default=None),
        committed=committed,
        mark=committed,
        epoch=recovered.epochs[1] if recovered.epochs is not None else 0,
    )


def _held(znode_count: int, zxid: int) -> str:
    return f", {count_of(znode_count, 'znode')} at {zxid:#x}"


def _damage(error: SnapshotError) -> Finding:
    return Finding(Kind.DAMAGE, error.path, error.offset, error.reason)


def _findings(disk: RealDisk, recovered: Recovered) -> list[Finding]:
    """The worst first; each place once."""
    damage = [Finding(Kind.DAMAGE, each.path, each.offset, each.reason) for each in recovered.damage]
    found = [Finding(Kind.PROBLEM, each.path, each.offset, each.reason) for each in recovered.problems]
    scrub = Scrub(disk, TransactionLog(disk, recovered.log), sets_aside=False)
    while not scrub.step():
        pass
    for each in scrub.take():
        found.append(Finding(Kind.RECORD if each.is_record else Kind.PROBLEM, each.path, each.offset, each.reason))
    named = {each.path for each in damage}
    for finding in sorted(found, key=lambda each: (each.kind is Kind.PROBLEM, each.path)):
        if finding.path not in named:
            named.add(finding.path)
            damage.append(finding)
    return damage


def _verdict(recovered: Recovered, hole: Hole | None, findings: list[Finding]) -> str:
    """What happens at the next start."""
    if recovered.damage:
        filled = ""
        if hole is not None:
            filled = f" or, without a quorum of others, until any of them has filled the hole after {hole.after[0]:#x}"
        return (
            f"at its next start it counts for nothing until the others have synchronized it{filled}, and what is there "
            "is kept in version-1.damaged; if it is alone, it ends with exit code 3, and zab restore makes a new "
            "directory out of what can be read"
        )
    if recovered.amnesiac:
        return "at its next start it counts for nothing until the others have synchronized it: a record is missing"
    if findings:
        return "at its next start it goes on: nothing depends on what is named here"
    return "whole"


def _text(looked: Looked) -> Iterator[str]:
    yield f"ensemble {looked.lineage.hex() or 'unknown'}"
    yield f"history up to zxid {looked.zxid:#x}{looked.held}"
    for finding in looked.findings:
        yield f"{finding.kind}: {finding}"
    yield looked.verdict


def _json(looked: Looked) -> Iterator[str]:
    for each in looked.findings:
        fields: dict[str, Any] = {"type": each.kind, "path": each.path, "offset": each.offset, "reason": each.reason}
        yield json_line(fields)
    yield json_line(
        {
            "type": "member",
            "ensemble": looked.lineage.hex() or None,
            "zxid": hexadecimal(looked.zxid),
            "is_whole": not looked.findings,
            "is_damaged": looked.is_damaged,
            "is_amnesiac": looked.is_amnesiac,
            "verdict": looked.verdict,
        }
    )
