"""`zab bookie list`, `show`, `decommission`: the bookies of an ensemble's ledgers."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from zab.cli.columns import cell, columns
from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import STORE
from zab.cli.terminal import count_of, say
from zab.coordination.operations import Children
from zab.coordination.steps import Steps, read
from zab.ledger.entries.ids import BookieId, is_bookie_id
from zab.ledger.metadata.layout import COOKIES
from zab.ledger.metadata.service_info import ServiceInfo
from zab.ledger.replication.decommission import (
    Decommissioned,
    StillRegistered,
    Unreadable,
    count_ledgers,
    decommission,
)
from zab.ledger.replication.election import who_is_auditor
from zab.ledger.replication.switches import is_disabled
from zab.ledger.store.bookies import RegisteredBookies, node_of, read_bookies
from zab.ledgers import ROOT, StoreSettings
from zab.ledgers.store import LedgerStore

RootOption = Annotated[str, typer.Option("--root", metavar="PATH", help="The znode that ledgers are below.")]
BookieArgument = Annotated[str, typer.Argument(metavar="BOOKIE", help="The id of a bookie.", show_default=False)]


def list_command(context: typer.Context, root: RootOption = ROOT, json: JsonOption = False) -> None:
    """Print all bookies: those that are registered, and those that have a cookie alone."""
    context.meta[STORE] = StoreSettings(root=root)

    async def work(store: LedgerStore) -> None:
        found = await store.run(lambda: _all_bookies(root))
        if json:
            for fields in found:
                say(json_line(fields))
        elif found:
            names = ("bookie", "state", "address", "rack", "free")
            for text in columns([names, *(tuple(cell(each[name]) for name in names) for each in found)]):
                say(text)

    perform(context, work)


def _all_bookies(root: str) -> Steps[list[dict[str, Any]]]:
    registered: RegisteredBookies = yield from read_bookies(root, watch=False)
    (cookies,) = yield from read((Children(f"{root}/{COOKIES}"),))
    found = [_fields(each, "available", info) for each, info in registered.available.items()]
    found += [_fields(each, "read-only", info) for each, info in registered.read_only.items()]
    known = {each["bookie"] for each in found}
    found += [_fields(BookieId(each), "down", None) for each in cookies.children if each not in known]
    return sorted(found, key=lambda each: str(each["bookie"]))


def _fields(bookie: BookieId, state: str, info: ServiceInfo | None) -> dict[str, Any]:
    endpoint = None if info is None else info.bookie_endpoint
    about = None if info is None else node_of(bookie, info)
    return {
        "bookie": bookie,
        "state": state,
        "address": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        "rack": None if about is None else about.rack,
        "free": None if about is None else about.free,
    }


def show_command(
    context: typer.Context, bookie: BookieArgument, root: RootOption = ROOT, json: JsonOption = False
) -> None:
    """Print one bookie, and how many ledgers name it: all metadata are read."""
    context.meta[STORE] = StoreSettings(root=root)

    async def work(store: LedgerStore) -> None:
        found = await store.run(lambda: _all_bookies(root))
        fields = next((each for each in found if each["bookie"] == bookie), None)
        if fields is None:
            fail(f"there is no bookie {bookie}")
        fields["ledgers"] = await store.run(lambda: count_ledgers(root, BookieId(bookie)))
        if json:
            say(json_line(fields))
            return
        for name, value in fields.items():
            say(f"{name}: {'-' if value is None else value}")

    perform(context, work)


def decommission_command(
    context: typer.Context,
    bookie: BookieArgument,
    root: RootOption = ROOT,
) -> None:
    """Have all entries of a bookie that is down copied to others, wait for that, and delete its cookie.

    Auto-recovery has to run somewhere. The command may be stopped, and begun again.
    """
    if not is_bookie_id(bookie):
        raise typer.BadParameter(f"{bookie!r} is no name of a bookie", param_hint="BOOKIE")
    context.meta[STORE] = StoreSettings(root=root)

    async def work(store: LedgerStore) -> None:
        def steps() -> Steps[object]:
            return (yield from decommission(root, BookieId(bookie), _wall_ms, _Progress(), pause_ms=1_000))

        if await store.run(lambda: who_is_auditor(root)) is None:
            say("no process runs auto-recovery: entries are copied once one does", sys.stderr)
        elif await store.run(lambda: is_disabled(root)):
            say("auto-recovery is disabled: entries are copied after zab audit enable", sys.stderr)

        match await store.run(steps):
            case Decommissioned(had_cookie):
                say(f"{bookie} is decommissioned" + ("" if had_cookie else "; it had no cookie"))
            case StillRegistered():
                fail(f"{bookie} runs: stop it first")
            case Unreadable(ledgers):
                fail(f"the metadata of {ledgers} ledgers cannot be read: they may name {bookie}")

    perform(context, work)


class _Progress:
    """Tells how many ledgers are left, whenever that has changed."""

    def __init__(self) -> None:
        self._told: int | None = None

    def __call__(self, named: int) -> None:
        if named != self._told:
            self._told = named
            say(f"still on it: {count_of(named, 'ledger')}")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
