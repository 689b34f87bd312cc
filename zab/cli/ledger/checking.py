"""`zab ledger check`, `seal`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zab.cli.exits import REFUSED, USAGE, fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import LedgerArgument, entries_of
from zab.cli.progress import progress
from zab.cli.terminal import count_of, say
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledgers.store import LedgerStore
from zab.ledgers.tools import LedgerCheck, check_ledger, seal_at


def check_command(
    context: typer.Context,
    ledger: Annotated[int | None, typer.Argument(metavar="[LEDGER]", min=0, show_default=False)] = None,
    is_all: Annotated[bool, typer.Option("--all", help="All closed ledgers.")] = False,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="Look for so many entries of each.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Ask bookies whether they have the entries that they should have. Changes nothing.

    The exit code is 1 if a copy is missing, or a bookie does not answer.
    """
    if (ledger is None) is not is_all:
        raise typer.BadParameter("give either LEDGER or --all")
    faulty: list[LedgerCheck] = []

    async def one(store: LedgerStore, number: int, metadata: LedgerMetadata) -> None:
        found = await check_ledger(store, number, metadata, sample=sample)
        if json:
            say(json_line(_fields(found)))
        elif not found.is_whole or not is_all:
            for text in _lines(found):
                say(text)
        if not found.is_whole:
            faulty.append(found)

    async def work(store: LedgerStore) -> None:
        if ledger is not None:
            await one(store, ledger, await store.metadata(ledger))
            return
        with progress("checked", "ledger", tells_end=False) as told:
            async for info in store.ledgers():
                if info.metadata is not None and info.metadata.is_closed:
                    await one(store, info.id, info.metadata)
                    told.add()
        if not json:
            say(f"{count_of(told.count, 'ledger')}, {len(faulty)} with faults")

    perform(context, work)
    if faulty:
        raise typer.Exit(REFUSED)


def _fields(found: LedgerCheck) -> dict[str, Any]:
    return {
        "ledger": found.ledger,
        "is_whole": found.is_whole,
        "checked": found.checked,
        "lost": found.lost,
        "missing": [
            {"bookie": bookie, "runs": [list(run) for run in runs]} for bookie, runs in sorted(found.missing.items())
        ],
        "silent": [{"bookie": bookie, "status": status.value} for bookie, status in sorted(found.silent.items())],
    }


def _lines(found: LedgerCheck) -> list[str]:
    if found.is_whole:
        return [f"ledger {found.ledger}: whole, {found.checked} copies"]
    lines = [f"ledger {found.ledger}: bookie {each} says {status.value}" for each, status in found.silent.items()]
    for bookie, runs in sorted(found.missing.items()):
        ranges = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs[:10])
        more = ", …" if len(runs) > 10 else ""
        lines.append(f"ledger {found.ledger}: bookie {bookie} lacks {ranges}{more}")
    if found.lost:
        lines.append(f"ledger {found.ledger}: {entries_of(found.lost)} on none of the bookies")
    return lines


def seal_command(
    context: typer.Context,
    ledger: LedgerArgument,
    at: Annotated[int, typer.Option("--at", metavar="ENTRY", min=-1, help="Its last entry; -1: it is empty.")],
    is_data_loss: Annotated[
        bool, typer.Option("--data-loss", help="Entries after it are lost, even if they were acknowledged.")
    ] = False,
    confirmed: Annotated[
        str | None,
        typer.Option("--yes", metavar="LEDGER", help="The id, instead of asking.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Close a ledger at an entry, for one that cannot be recovered: too many of its bookies are gone for good.

    Try `zab ledger recover` first. Entries after ENTRY are lost, even if they were acknowledged; entries before it may
    be unreadable.
    """
    if not is_data_loss:
        fail(f"entries of ledger {ledger} after {at} would be lost; --data-loss says that you want that", USAGE)
    if confirmed is None:
        confirmed = typer.prompt(f"Entries of ledger {ledger} after {at} will be lost. Type its id to go on", err=True)
    if confirmed.strip() != str(ledger):
        fail("that is not the id: nothing was changed")

    async def work(store: LedgerStore) -> None:
        metadata = await seal_at(store, ledger, at)
        if json:
            say(json_line({"ledger": ledger, "last": metadata.last, "length": metadata.length}))
        else:
            say(f"Ledger {ledger} is closed, with {entries_of(metadata.last + 1)}, {metadata.length} bytes")

    perform(context, work)
