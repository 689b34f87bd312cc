"""Runs the work of one ledger command: opens a store, runs it, and exits with the code of its error.

Exit codes (`zab.cli.exits`): 1 a LedgerError that is definite, or a read that cannot be done; 3 one after which it is
unknown what became of a write; otherwise as for commands of znodes.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Final

import typer
from attrs import evolve

from zab.cli.exits import REFUSED, UNREACHABLE, fail
from zab.cli.ledger.options import STORE
from zab.cli.terminal import say
from zab.cli.znodes.caller import Caller
from zab.cli.znodes.caller import perform as perform_on_znodes
from zab.cli.znodes.opening import stores_of
from zab.client import Client
from zab.ledger.entries.ids import BookieId
from zab.ledgers import (
    SECURED_ACL,
    AppendUnknownError,
    LedgerError,
    LedgerFencedError,
    MetadataUnavailableError,
    NoSuchRootError,
    StoreSettings,
    open_store,
)
from zab.ledgers.store import LedgerStore

_UNKNOWN: Final = (AppendUnknownError, LedgerFencedError, MetadataUnavailableError)


def perform(context: typer.Context, work: Callable[[LedgerStore], Awaitable[None]], *, has_root: bool = True) -> None:
    """Run the work on a store with the settings of the command line."""
    failures: list[LedgerError] = []
    refused: dict[BookieId, str] = {}
    """Why TLS with bookies has failed."""

    async def on_store(zk: Client, caller: Caller) -> None:
        settings: StoreSettings = context.meta[STORE]
        if caller.options.secure_ledgers:
            settings = evolve(settings, acl=SECURED_ACL)
        if caller.options.bookie_tls:
            settings = evolve(settings, tls=stores_of(caller.options), tls_failed=refused.__setitem__)
        try:
            async with open_store(zk, settings=settings, has_root=has_root) as store:
                await work(store)
        except LedgerError as error:
            failures.append(error)

    perform_on_znodes(context, on_store)
    for bookie, reason in refused.items():
        say(f"zab: TLS with the bookie {bookie} has failed: {reason}", sys.stderr)
    for error in failures:
        more = "; zab ledger format makes it" if isinstance(error, NoSuchRootError) else ""
        fail(f"{error}{more}", UNREACHABLE if isinstance(error, _UNKNOWN) and not error.definite else REFUSED)
