"""`zab bookie`: `run`, one bookie in this process (`zab.cli.servers.bookie`), and `inspect`, what is in the directory
of one (`zab.cli.files.bookie_inspect`)."""

from __future__ import annotations

import typer

from zab.cli.files.bookie_inspect import inspect_command
from zab.cli.servers.bookie import run_command

__all__ = ["bookie_app"]

bookie_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@bookie_app.callback()
def _bookie() -> None:
    """Bookies, which store replicated ledgers for clients of BookKeeper."""


bookie_app.command("run")(run_command)
bookie_app.command("inspect")(inspect_command)
