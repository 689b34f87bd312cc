"""`zab segment FILE…`: what is in the files of a broker's log directory, ours or Kafka's (`segment_files`).

The broker may be running: nothing is written, and no lock is taken; the last batch of a log may then be half there. On
standard error comes damage, with file and position; the files after it are printed all the same.

Exit codes: 0; 1 a file is damaged, cannot be read, or is none of a broker; 2 wrong usage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zab.cli.exits import REFUSED
from zab.cli.files.segment_files import DamagedError, Row, UnknownFileError, rows
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import say
from zab.partition.records.libraries import MissingLibraryError
from zab.wire.visible import in_line

__all__ = ["segment_command"]

_Files = Annotated[list[Path], typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)]
_Records = Annotated[bool, typer.Option("--records", help="Print the records of batches, too.")]


def segment_command(files: _Files, records: _Records = False, json: JsonOption = False) -> None:
    """A log (`.log`), its indexes (`.index`, `.timeindex`, `.txnindex`), its producers (`.snapshot`), a checkpoint, or
    `partition.metadata` and `meta.properties`."""
    has_failed = False
    for path in files:
        if len(files) > 1 and not json:
            say(f"{path}:")
        try:
            for row in rows(path, with_records=records):
                say(json_line(row) if json else _text(row))
        except (DamagedError, UnknownFileError, MissingLibraryError) as error:
            has_failed = True
            sys.stdout.flush()
            say(f"zab: {error}", sys.stderr)
    if has_failed:
        raise typer.Exit(REFUSED)


def _text(row: Row) -> str:
    """The fields that have a value, with what can be seen of it."""
    shown = [f"{name} {_value(value)}" for name, value in row.items() if name != "type" and _is_shown(name, value)]
    return f"{row['type']:<8} " + "  ".join(shown)


def _is_shown(name: str, value: Any) -> bool:
    return value is not None and value is not False and value != [] and not name.endswith("encoding")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each['name']}={_value(each['data'])}" for each in value)
    return "yes" if value is True else in_line(str(value))
