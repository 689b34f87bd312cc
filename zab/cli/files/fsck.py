"""`zab fsck DIR`: what is wrong with the files of a stopped member, and what will happen at its next start.

Every byte that counts is read, also what a start does not look at: older snapshots, and the log below the newest one.
Nothing is changed, and no lock is taken. A running member reads through its files by itself (`zab.server.scrubber`).

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
from attrs import frozen

from datatree.log.epochs import DIRECTORY
from datatree.log.transaction_log import TransactionLog
from datatree.recovery.holes import Hole, find_hole
from datatree.recovery.recover import Recovered, examine
from datatree.recovery.restoring import goes_on_with
from datatree.recovery.scrub import Scrub
from zab.cli.exits import REFUSED, fail
from zab.cli.json_form import JsonOption, hexadecimal, json_line
from zab.cli.terminal import count_of
from zab.host.disk import LOCK_FILE, RealDisk

__all__ = ["fsck_command"]

_HISTORY: Final = ("log.", "snapshot.")


class Kind(StrEnum):
    """What it costs that a file is not what was written."""

    DAMAGE = "damage"
    RECORD = "record"
    PROBLEM = "problem"


@frozen
class Finding:
    """One of them, with the path from the data directory on."""

    kind: Kind
    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


def fsck_command(
    directory: Annotated[Path, typer.Argument(metavar="DATADIR", help="The dataDir of a stopped member.")],
    log_directory: Annotated[
        Path | None, typer.Option("--log-dir", metavar="DIR", help="Its dataLogDir, where it has one.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Nothing is changed. Exit code 1: something is damaged."""
    roots = list(dict.fromkeys(each.expanduser().absolute() for each in (directory, log_directory or directory)))
    try:
        _check(roots)
        disk = RealDisk(str(roots[0]), str(roots[-1]), lock=False)
        recovered = examine(disk)
        hole, findings, given = find_hole(disk, recovered), _findings(disk, recovered), goes_on_with(disk)
    except OSError as error:
        fail(f"{error.filename or roots[0]}: {error.strerror or error}")
    verdict = _verdict(recovered, hole, findings) if given is None else _verdict_of_given(given)
    for line in _json(recovered, findings, verdict) if json else _text(recovered, findings, verdict):
        print(line)
    sys.stdout.flush()
    if findings:
        raise typer.Exit(REFUSED)


def _check(roots: list[Path]) -> None:
    """Refuse what holds no history of ours, and the directory of a running member."""
    for root in roots:
        if not root.is_dir():
            fail(f"{root}: there is no such directory")
    names = [name for root in roots if (root / DIRECTORY).is_dir() for name in os.listdir(root / DIRECTORY)]
    if not any(name.startswith(_HISTORY) for name in names):
        fail(f"{roots[0]} holds no history")
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


def _verdict_of_given(path: str) -> str:
    return f"at its next start it sets all of this aside, and goes on with {path}, which was restored"


def _text(recovered: Recovered, findings: list[Finding], verdict: str) -> Iterator[str]:
    yield f"ensemble {recovered.lineage.hex() or 'unknown'}"
    until = f"history up to zxid {recovered.last[0]:#x}"
    if not recovered.damage:
        until += f", {count_of(recovered.tree.znode_count, 'znode')} at {recovered.mark:#x}"
    yield until
    for finding in findings:
        yield f"{finding.kind}: {finding}"
    yield verdict


def _json(recovered: Recovered, findings: list[Finding], verdict: str) -> Iterator[str]:
    for each in findings:
        fields: dict[str, Any] = {"type": each.kind, "path": each.path, "offset": each.offset, "reason": each.reason}
        yield json_line(fields)
    yield json_line(
        {
            "type": "member",
            "ensemble": recovered.lineage.hex() or None,
            "zxid": hexadecimal(recovered.last[0]),
            "is_whole": not findings,
            "is_damaged": bool(recovered.damage),
            "is_amnesiac": recovered.amnesiac,
            "verdict": verdict,
        }
    )
