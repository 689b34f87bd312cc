"""`zab ledger`: creates, writes, reads, lists, checks and deletes replicated ledgers."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.checking import check_command, seal_command
from zab.cli.ledger.listing import list_command, show_command
from zab.cli.ledger.options import STORE
from zab.cli.ledger.reading import read_command, tail_command
from zab.cli.ledger.writing import append_command, create_command, delete_command, recover_command
from zab.cli.terminal import say
from zab.ledgers import ROOT, Protocol, StoreSettings
from zab.ledgers.store import LedgerStore

__all__ = ["ledger_app"]

ledger_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@ledger_app.callback()
def _ledger(
    context: typer.Context,
    root: Annotated[str, typer.Option("--root", metavar="PATH", help="The znode that ledgers are below.")] = ROOT,
    protocol: Annotated[Protocol, typer.Option("--protocol", help="Of BookKeeper, for adds and reads.")] = Protocol.V2,
) -> None:
    """Ledgers, compatible with BookKeeper's, whose metadata are in the ensemble at -s."""
    if not root.startswith("/") or root.endswith("/"):
        raise typer.BadParameter(f"{root!r} is not the path of a znode", param_hint="--root")
    context.meta[STORE] = StoreSettings(root=root, protocol=protocol)


@ledger_app.command("format")
def format_command(context: typer.Context, json: JsonOption = False) -> None:
    """Make the znodes that ledgers and bookies need. Refused if they are there."""
    instance = str(uuid.uuid4())

    async def work(store: LedgerStore) -> None:
        root = store.settings.root
        parent = root.rpartition("/")[0]
        if parent:
            await store.zk.ensure_path(parent, store.settings.acl)
        if not await store.format(instance):
            fail(f"there are ledgers below {root} already")
        say(json_line({"root": root, "instance": instance}) if json else f"Formatted {root}, instance {instance}")

    perform(context, work, has_root=False)


ledger_app.command("create")(create_command)
ledger_app.command("append")(append_command)
ledger_app.command("read")(read_command)
ledger_app.command("tail")(tail_command)
ledger_app.command("close")(recover_command)
ledger_app.command("recover")(recover_command)
ledger_app.command("delete")(delete_command)
ledger_app.command("list")(list_command)
ledger_app.command("show")(show_command)
ledger_app.command("check")(check_command)
ledger_app.command("seal")(seal_command)
