"""`zab audit`: what auto-recovery does, and its switches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, json_line, time_text
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import STORE
from zab.cli.terminal import say
from zab.coordination.steps import Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.repair_locks import Record
from zab.ledger.replication.election import who_is_auditor
from zab.ledger.replication.records import list_locks, list_records
from zab.ledger.replication.sweep import Kind
from zab.ledger.replication.switches import (
    disable,
    enable,
    is_disabled,
    read_check_time,
    read_delay,
    write_delay,
)
from zab.ledgers import ROOT, StoreSettings
from zab.ledgers.store import LedgerStore

__all__ = ["audit_app"]

COUNTED_MAX = 10_000
"""So many records are counted."""

audit_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@audit_app.callback()
def _audit(
    context: typer.Context,
    root: Annotated[str, typer.Option("--root", metavar="PATH", help="The znode that ledgers are below.")] = ROOT,
) -> None:
    """Auto-recovery of replicated ledgers, also BookKeeper's, in the ensemble at -s."""
    if not root.startswith("/") or root.endswith("/"):
        raise typer.BadParameter(f"{root!r} is not the path of a znode", param_hint="--root")
    context.meta[STORE] = StoreSettings(root=root)


@audit_app.command("status")
def status_command(context: typer.Context, json: JsonOption = False) -> None:
    """Print who is the auditor, whether auto-recovery is enabled, and how many ledgers lack copies."""

    async def work(store: LedgerStore) -> None:
        root = store.settings.root
        found = await store.run(lambda: _status(root))
        if json:
            say(json_line(found))
            return
        for name, value in found.items():
            shown = f"{value}" if name != "records" or value < COUNTED_MAX else f"{value} or more"
            say(f"{name.replace('_', ' ')}: {'-' if value is None else shown}")

    perform(context, work)


def _status(root: str) -> Steps[dict[str, Any]]:
    auditor = yield from who_is_auditor(root)
    disabled = yield from is_disabled(root)
    delay = yield from read_delay(root)
    records = yield from list_records(root, COUNTED_MAX)
    locks = yield from list_locks(root)
    found: dict[str, Any] = {
        "auditor": auditor,
        "enabled": not disabled,
        "delay_s": None if delay is None else delay.seconds,
        "records": len(records),
        "locked": len(locks),
    }
    for kind in Kind:
        time_ms = yield from read_check_time(root, kind.path)
        found[f"{kind.name.lower()}_checked"] = None if time_ms is None else time_text(time_ms)
    return found


@audit_app.command("run")
def run_command(
    context: typer.Context,
    delay: Annotated[
        int | None,
        typer.Option("--delay", min=0, metavar="SECONDS", help="Set the delay before lost bookies are replaced."),
    ] = None,
) -> None:
    """Have the auditor search for lost bookies at once, whatever the delay is."""

    async def work(store: LedgerStore) -> None:
        root = store.settings.root

        def steps() -> Steps[tuple[int, BookieId | None]]:
            before = yield from read_delay(root)
            seconds = (0 if before is None else before.seconds) if delay is None else delay
            yield from write_delay(root, seconds)
            return seconds, (yield from who_is_auditor(root))

        seconds, auditor = await store.run(steps)
        done = "Asked the auditor to search"
        if auditor is None:
            done = "No process runs auto-recovery: the first one searches"
        say(f"{done}; the delay is {seconds} s")

    perform(context, work)


@audit_app.command("disable")
def disable_command(context: typer.Context) -> None:
    """Begin no audits and no repairs, while bookies are restarted."""

    async def work(store: LedgerStore) -> None:
        root = store.settings.root
        changed = await store.run(lambda: disable(root))
        say("Disabled" if changed else "It was disabled already")

    perform(context, work)


@audit_app.command("enable")
def enable_command(context: typer.Context) -> None:
    """Audit and repair again."""

    async def work(store: LedgerStore) -> None:
        root = store.settings.root
        changed = await store.run(lambda: enable(root))
        say("Enabled" if changed else "It was enabled already")

    perform(context, work)


@audit_app.command("records")
def records_command(
    context: typer.Context,
    count: Annotated[int, typer.Option("--count", min=1, help="At most so many, from the lowest id on.")] = 1_000,
    json: JsonOption = False,
) -> None:
    """Print which ledgers lack copies, on which bookies."""

    async def work(store: LedgerStore) -> None:
        root = store.settings.root
        records: tuple[Record, ...] = await store.run(lambda: list_records(root, count))
        locks: frozenset[int] = await store.run(lambda: list_locks(root))
        rows: list[tuple[str, ...]] = []
        for each in records:
            since = None if each.content.ctime_ms is None else time_text(each.content.ctime_ms)
            missing, is_locked = list(each.content.missing), each.ledger in locks
            if json:
                fields = {"ledger": each.ledger, "missing": missing, "since": since, "locked": is_locked}
                say(json_line(fields))
            rows.append((str(each.ledger), ", ".join(missing) or "-", cell(since), "yes" if is_locked else "no"))
        if rows and not json:
            for text in columns([("ledger", "missing on", "since", "locked"), *rows]):
                say(text)

    perform(context, work)
