"""`zab ledger read`, `tail`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zab.cli.json_form import JsonOption, data_fields, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import LedgerArgument, PasswordFileOption, PasswordOption, password_of
from zab.cli.terminal import say
from zab.ledger.entries.envelope import Entry
from zab.ledgers.store import LedgerStore


def read_command(
    context: typer.Context,
    ledger: LedgerArgument,
    first: Annotated[int, typer.Argument(metavar="[FIRST", min=0, help="The first entry.", show_default=False)] = 0,
    last: Annotated[
        int | None, typer.Argument(metavar="[LAST]]", min=0, help="The last one; else all.", show_default=False)
    ] = None,
    is_recovering: Annotated[bool, typer.Option("--recover", help="Close the ledger first, to read it whole.")] = False,
    is_unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="Up to LAST, even if it is not confirmed and may be gone later.")
    ] = False,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Print the payloads of entries, each on a line.

    Of a ledger that is not closed, what is known to be confirmed: its writer goes on.
    """
    key = password_of(password, password_file)

    async def work(store: LedgerStore) -> None:
        reader = await (store.open(ledger, key) if is_recovering else store.open_no_recovery(ledger, key))
        async with reader:
            end = last
            if end is None:
                end = await reader.read_last_confirmed()
            if end >= first:
                async for entry in reader.entries(first, end, is_unconfirmed=is_unconfirmed):
                    _tell(entry, json=json)

    perform(context, work)


def tail_command(
    context: typer.Context,
    ledger: LedgerArgument,
    first: Annotated[int, typer.Argument(metavar="[FIRST]", min=0, help="The first entry.", show_default=False)] = 0,
    password: PasswordOption = "",
    password_file: PasswordFileOption = None,
    json: JsonOption = False,
) -> None:
    """Print entries as they are confirmed, until the ledger is closed, or Ctrl-C."""
    key = password_of(password, password_file)

    async def work(store: LedgerStore) -> None:
        async with await store.open_no_recovery(ledger, key) as reader:
            async for entry in reader.tail(first):
                _tell(entry, json=json)
                sys.stdout.flush()

    perform(context, work)


def _tell(entry: Entry, *, json: bool) -> None:
    if json:
        fields = {"ledger": entry.ledger, "entry": entry.id, "length": entry.length}
        say(json_line({**fields, **data_fields(entry.payload)}))
        return
    if sys.stdout.isatty():
        say(entry.payload.decode("utf-8", "backslashreplace"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(entry.payload + b"\n")
