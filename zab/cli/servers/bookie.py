"""`zab bookie run FILE`: one bookie in this process, for clients of BookKeeper; `zab bookie autorecovery FILE`: an
auditor and a worker without one.

It ends with one of the exit codes of `zab server`: 0 stopped as asked (SIGINT, SIGTERM), 1 unexpected, 2 usage or
configuration, 3 the directories of the data, 14 the port cannot be bound. `--check` ends with 0 or 2.

Not here: what a bookie does (`zab.bookie`), one beside a local ensemble (`zab.cli.servers.local_bookie`).
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from zab.cli.terminal import say

__all__ = ["autorecovery_command", "run_command"]


def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bookie's bk_server.conf.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check", help="Read FILE and the files of secrets in it, and print the first error.")
    ] = False,
) -> None:
    """Run one bookie, until SIGINT or SIGTERM.

    FILE has BookKeeper's keys. A key that cannot be honoured refuses the start; one that has no effect causes a
    warning. The members of the coordination service that metadataServiceUri names have to run, and its root has to be
    formatted.
    """
    if check:
        raise typer.Exit(_report(str(file)))
    from zab.bookie.__main__ import main

    raise typer.Exit(main(["--", str(file)]))


def autorecovery_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bookie's bk_server.conf.", show_default=False)],
) -> None:
    """Search for ledgers that lack copies and repair them, without a bookie, until SIGINT or SIGTERM.

    FILE has BookKeeper's keys. Beside a bookie, autoRecoveryDaemonEnabled=true in its file does the same.
    """
    from zab.bookie.configuration import StartRefusedError, load
    from zab.configuration.blocks.journal import JournalSettings
    from zab.host.process.run_service import USAGE_ERROR, run_service

    try:
        settings = load(str(file))
    except StartRefusedError as error:
        say(f"error: {error}")
        raise typer.Exit(USAGE_ERROR) from error
    from zab.bookie.auto_recovery import serve

    raise typer.Exit(run_service(partial(serve, settings), JournalSettings(), stops_with_parent=False))


def _report(file: str) -> int:
    """Print what was found; the exit code."""
    from zab.bookie.configuration import StartRefusedError, load
    from zab.host.process.run_service import USAGE_ERROR

    try:
        settings = load(file)
    except StartRefusedError as error:
        say(f"error: {error}")
        return USAGE_ERROR
    for warning in settings.warnings:
        say(f"warning: {file}: {warning}")
    place = settings.place
    say(f"{file}: its settings are good: port {place.port}, data in {settings.ledger_directory}")
    say(f"not checked: the port, the directories, the metadata (zab doctor {file} looks at directories and metadata)")
    return 0
