"""`zab bookie`: `run`, one bookie in this process, `autorecovery`, auto-recovery alone (`zab.cli.servers.bookie`),
`inspect`, what is in the directory of one (`zab.cli.files.bookie_inspect`), and what can be asked of all bookies."""

from __future__ import annotations

import typer

from zab.cli.bookies.members import decommission_command, list_command, show_command
from zab.cli.files.bookie_inspect import inspect_command
from zab.cli.servers.bookie import autorecovery_command, run_command
from zab.cli.time_limit import timed

__all__ = ["bookie_app"]

bookie_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@bookie_app.callback()
def _bookie() -> None:
    """Bookies, which store replicated ledgers for clients of BookKeeper."""


bookie_app.command("run")(run_command)
bookie_app.command("autorecovery")(autorecovery_command)
bookie_app.command("inspect")(inspect_command)
bookie_app.command("list")(timed(list_command))
bookie_app.command("show")(timed(show_command))
bookie_app.command("decommission")(timed(decommission_command))
