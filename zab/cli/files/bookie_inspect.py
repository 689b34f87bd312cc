"""`zab bookie inspect DIR`: what is in the directory of a bookie, and whether all of it is whole.

Every byte is read and verified, piece by piece. Nothing is written. A bookie that runs is refused, since it goes on
writing, unless `--no-lock` is given; what it removes meanwhile is then told as gone.

Exit codes: 0 all of it is whole; 1 something is damaged, missing, or not there; 2 wrong usage.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zab.cli.exits import REFUSED, fail
from zab.cli.files.bookie_parts import (
    Line,
    entry_rows,
    files_of,
    journal_rows,
    segment_rows,
    state_rows,
    whole_rows,
)
from zab.cli.json_form import JsonOption, json_line
from zab.cli.progress import progress
from zab.cli.terminal import say
from zab.ledger.bookie.inspection import Finding, Inspection
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest
from zab.ledger.entries.ids import ID_MAX
from zab.wire.visible import in_line

__all__ = ["inspect_command"]

LOCK_FILE: Final = "lock"
"""The lock of a bookie, in each of its directories (`zab.bookie.storage`)."""
_ROWS: Final[dict[str, Callable[[Inspection], Iterator[Line]]]] = {
    "journal": journal_rows,
    "segments": segment_rows,
    "state": state_rows,
}


class DigestName(StrEnum):
    """The digests of ledgers, as options name them."""

    CRC32 = "crc32"
    HMAC = "hmac"
    CRC32C = "crc32c"
    DUMMY = "dummy"


def inspect_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The ledger directory of a bookie.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[journal|segments|state|entry LEDGER ENTRY]",
            help="Print this part of it. Without it, only what is wrong, and a summary.",
            show_default=False,
        ),
    ] = None,
    journal_directory: Annotated[
        Path | None, typer.Option("--journal-dir", metavar="DIR", help="Its journal directory, if that is another one.")
    ] = None,
    no_lock: Annotated[bool, typer.Option("--no-lock", help="Read even while the bookie runs.")] = False,
    digest: Annotated[
        DigestName | None, typer.Option("--digest", help="With entry: check this digest, and print the payload.")
    ] = None,
    password: Annotated[
        str, typer.Option("--password", metavar="TEXT", help="With --digest: the ledger's password.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Everything is verified; nothing is changed. Exit code 1: something is wrong."""
    rows = _rows_for(words or [], digest, password)
    roots = [each.expanduser().absolute() for each in (directory, journal_directory) if each is not None]
    for root in roots:
        if not root.is_dir():
            fail(f"{root}: there is no such directory")
    with _locked(roots, no_lock=no_lock):
        try:
            inspection = Inspection(files_of(roots[0], roots[-1]))
            if inspection.is_empty:
                fail(f"{directory}: no bookie has written into this directory")
            has_faults = _show(inspection, rows, json=json)
        except BrokenPipeError:
            # Whoever reads the output has had enough: `zab.cli.main` ends the command.
            raise
        except OSError as error:
            fail(f"{error.filename or directory}: {error.strerror or error}")
    sys.stdout.flush()
    if has_faults:
        raise typer.Exit(REFUSED)


def _rows_for(
    words: list[str], digest: DigestName | None, password: str
) -> Callable[[Inspection], Iterator[Line]] | None:
    """What prints the part that is asked for; None: the whole."""
    is_entry = words[:1] == ["entry"]
    if digest is not None and not is_entry:
        raise typer.BadParameter("it is for `entry LEDGER ENTRY`", param_hint="--digest")
    if password and digest is None:
        raise typer.BadParameter("it needs --digest", param_hint="--password")
    if is_entry and len(words) == 3:
        opener = None if digest is None else Digest(DigestType[digest.name], password.encode())
        ledger, entry = map(_id, words[1:])
        return lambda inspection: _found_rows(inspection, ledger, entry, opener)
    if not words:
        return None
    if len(words) == 1 and words[0] in _ROWS:
        return _ROWS[words[0]]
    raise typer.BadParameter(f"{' '.join(words)!r} is none of journal, segments, state, entry LEDGER ENTRY")


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > ID_MAX:
        raise typer.BadParameter(f"{text!r} is no id of a ledger or an entry")
    return int(text)


def _found_rows(inspection: Inspection, ledger: int, entry: int, digest: Digest | None) -> Iterator[Line]:
    is_there = False
    for line in entry_rows(inspection, ledger, entry, digest):
        is_there = is_there or not isinstance(line, Finding)
        yield line
    if not is_there:
        sys.stdout.flush()
        fail(f"entry {entry} of ledger {ledger} is not in this directory")


@contextmanager
def _locked(roots: list[Path], *, no_lock: bool) -> Iterator[None]:
    """No bookie starts meanwhile, unless it may."""
    taken: list[int] = []
    try:
        for root in [] if no_lock else roots:
            try:
                taken.append(os.open(root / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC))
                fcntl.flock(taken[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
            except FileNotFoundError:
                continue
            except BlockingIOError:
                fail(f"{root}: a bookie runs on it: stop it, or give --no-lock")
            except OSError as error:
                fail(f"{error.filename or root}: {error.strerror or error}")
        yield
    finally:
        for each in taken:
            os.close(each)


def _show(inspection: Inspection, rows: Callable[[Inspection], Iterator[Line]] | None, *, json: bool) -> bool:
    """Print the lines; whether something is wrong. Raises OSError."""
    has_faults = False
    with progress("read", "file", prints_lines=True, tells_errors=False) as told:
        lines = whole_rows(inspection, told.add) if rows is None else _with_first(inspection, rows)
        for line in lines:
            if isinstance(line, Finding):
                has_faults = has_faults or line.kind.is_fault
                _say_finding(line, json=json, is_apart=rows is not None)
            else:
                has_faults = has_faults or line.get("is_digest_right") is False
                say(json_line(line) if json else _text(line))
    return has_faults


def _with_first(inspection: Inspection, rows: Callable[[Inspection], Iterator[Line]]) -> Iterator[Line]:
    yield from inspection.findings
    yield from rows(inspection)


def _say_finding(found: Finding, *, json: bool, is_apart: bool) -> None:
    """What is wrong is among the lines if there is nothing else, and else on standard error."""
    if json:
        fields = {"type": str(found.kind), "path": found.path, "offset": found.offset, "reason": found.reason}
        say(json_line(fields))
    elif is_apart:
        sys.stdout.flush()
        say(f"zab: {found.kind}: {found}", sys.stderr)
    else:
        say(f"{found.kind}: {found}")


def _text(row: dict[str, Any]) -> str:
    """The fields that have a value."""
    shown = [f"{name} {_value(value)}" for name, value in row.items() if name != "type" and _is_shown(name, value)]
    return f"{row['type']:<10} " + "  ".join(shown)


def _is_shown(name: str, value: Any) -> bool:
    return value is not None and value is not False and value != [] and name != "encoding"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "yes" if value is True else in_line(str(value))
