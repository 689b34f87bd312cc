"""`zab ledger list`, `show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, data_fields, json_line, time_text
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import LedgerArgument, entries_of
from zab.cli.terminal import in_line, say
from zab.ledger.entries.ids import NONE
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, LedgerState
from zab.ledgers.store import LedgerInfo, LedgerStore
from zab.ledgers.tools import Replica, replicas_of


def list_command(
    context: typer.Context,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only these: open, in_recovery, closed; once for each."),
    ] = None,
    bookie: Annotated[
        str | None, typer.Option("--bookie", metavar="ID", help="Only ledgers with entries on it.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print all ledgers with their states."""
    wanted = {each.upper() for each in state or ()}
    unknown = wanted - {each.name for each in LedgerState}
    if unknown:
        raise typer.BadParameter(f"{sorted(unknown)[0].lower()} is no state", param_hint="--state")

    def is_wanted(info: LedgerInfo) -> bool:
        metadata = info.metadata
        if metadata is None:
            return not wanted and bookie is None
        return (not wanted or metadata.state.name in wanted) and (bookie is None or bookie in metadata.bookies)

    async def work(store: LedgerStore) -> None:
        rows = []
        async for info in store.ledgers():
            if is_wanted(info) and json:
                say(json_line(_listed(info)))
            elif is_wanted(info):
                rows.append(_row(info))
        if rows:
            for text in columns([("ledger", "state", "entries", "bytes", "quorums", "fragments"), *rows]):
                say(text)

    perform(context, work)


def _listed(info: LedgerInfo) -> dict[str, Any]:
    found = info.metadata
    return {
        "ledger": info.id,
        "state": None if found is None else found.state.name,
        "last": None if found is None or not found.is_closed else found.last,
        "length": None if found is None or not found.is_closed else found.length,
        "ensemble": None if found is None else found.ensemble_size,
        "write": None if found is None else found.write_quorum,
        "ack": None if found is None else found.ack_quorum,
        "fragments": None if found is None else len(found.fragments),
        "fault": info.fault or None,
    }


def _row(info: LedgerInfo) -> tuple[str, ...]:
    found = info.metadata
    if found is None:
        return (str(info.id), "UNREADABLE", "-", "-", "-", in_line(info.fault))
    entries, length = (found.last + 1, found.length) if found.is_closed else (None, None)
    return (
        str(info.id),
        found.state.name,
        cell(entries),
        cell(length),
        f"{found.ensemble_size}/{found.write_quorum}/{found.ack_quorum}",
        str(len(found.fragments)),
    )


def show_command(
    context: typer.Context,
    ledger: LedgerArgument,
    with_replicas: Annotated[bool, typer.Option("--replicas", help="Ask each bookie what it has.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the metadata of a ledger, and what its bookies have."""

    async def work(store: LedgerStore) -> None:
        metadata = await store.metadata(ledger)
        replicas = await replicas_of(store, ledger, metadata) if with_replicas else None
        if json:
            say(json_line(_shown(ledger, metadata, replicas)))
        else:
            _print(ledger, metadata, replicas)

    perform(context, work)


def _shown(ledger: int, of: LedgerMetadata, replicas: list[Replica] | None) -> dict[str, Any]:
    return {
        "ledger": ledger,
        "state": of.state.name,
        "last": of.last if of.is_closed else None,
        "length": of.length if of.is_closed else None,
        "ensemble": of.ensemble_size,
        "write": of.write_quorum,
        "ack": of.ack_quorum,
        "digest_type": of.digest_type.name,
        "created": None if of.ctime_ms is None else time_text(of.ctime_ms),
        "custom": {key: data_fields(value) for key, value in of.custom.items()},
        "fragments": [{"first": each.first, "bookies": list(each.ensemble)} for each in of.fragments],
        "replicas": None
        if replicas is None
        else [
            {
                "bookie": each.bookie,
                "status": each.status.value,
                "count": each.count,
                "runs": None if each.runs is None else [list(run) for run in each.runs],
                "last_confirmed": each.lac,
            }
            for each in replicas
        ],
    }


def _print(ledger: int, of: LedgerMetadata, replicas: list[Replica] | None) -> None:
    end = f" with {entries_of(of.last + 1)}, {of.length} bytes" if of.is_closed else ""
    say(f"ledger {ledger}: {of.state.name}{end}")
    say(f"quorums {of.ensemble_size}/{of.write_quorum}/{of.ack_quorum}, digest {of.digest_type.name}")
    for key, value in of.custom.items():
        say(f"custom {in_line(key)} = {in_line(value.decode('utf-8', 'backslashreplace'))}")
    for text in columns([("from", "bookies"), *((str(each.first), " ".join(each.ensemble)) for each in of.fragments)]):
        say(text)
    if replicas is not None:
        head = ("bookie", "entries", "says") if of.is_closed else ("bookie", "entries", "says", "confirmed")
        rows = [(each.bookie, cell(each.count), each.status.value, _confirmed(each)) for each in replicas]
        for text in columns([head, *(row[: len(head)] for row in rows)]):
            say(text)


def _confirmed(of: Replica) -> str:
    return "none" if of.lac == NONE else cell(of.lac)
