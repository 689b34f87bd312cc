"""`zab changes --to-log NAME` keeps every change in a managed ledger, exactly once, also across `kill -9`; `--from-log
NAME` goes on in it where servers no longer have the log.

Exactly once: an entry has some changes, and the place in the feed after them (`zab.ledgers.kept_changes`). A command
that begins takes the log over, and goes on after the last entry. The owner before can append nothing more, and ends at
once with exit code 1.

The log is made by `zab ledger-log create`. Not here: what is kept when (`zab.cli.znodes.publishing`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import typer
from attrs import define, field, frozen

from zab.cli.exits import fail
from zab.cli.ledger.caller import perform
from zab.cli.ledger.options import STORE, password_of, root_of
from zab.cli.terminal import in_line
from zab.cli.znodes.publishing import Timing, Wanted, below_of, publish
from zab.client import Change, Changes, Place
from zab.client.nursery import hidden_nursery
from zab.ledger.managed.log_info import InvalidLogError, check_name
from zab.ledgers import LedgerError, LogFencedError, LoggedChanges, ManagedLog, NoSuchLogError, StoreSettings
from zab.ledgers.kept_changes import SETTINGS, KeptChanges
from zab.ledgers.store import LedgerStore

__all__ = ["ChangeLog"]

FENCED: Final = "another process keeps this log now"


@frozen(kw_only=True)
class ChangeLog:
    """A log of changes, as the command line names it."""

    log: str
    root: str
    password_file: Path | None

    def keep(self, context: typer.Context, *, prefix: str, since: int | None, count: int | None) -> None:
        """Until Ctrl-C, or for so many changes. Ends the command with the exit code of an error."""
        below_of(context, prefix, "--to-log")
        self._perform(context, "--to-log", lambda store, key: self._keep(store, key, prefix, since, count))

    def follow(
        self,
        context: typer.Context,
        *,
        prefix: str,
        since: int | None,
        show: Callable[[Changes | LoggedChanges], Awaitable[None]],
    ) -> None:
        """Show the changes, those of the log too. Ends the command with the exit code of an error."""

        async def work(store: LedgerStore, key: bytes) -> None:
            begin = since
            if begin is None:
                await store.zk.sync()
                begin = store.zk.last_zxid
            await show(store.changes(self.log, begin, prefix, password=key))

        self._perform(context, "--from-log", work)

    def _perform(
        self, context: typer.Context, option: str, work: Callable[[LedgerStore, bytes], Awaitable[None]]
    ) -> None:
        try:
            check_name(self.log)
        except InvalidLogError as error:
            raise typer.BadParameter(str(error), param_hint=option) from None
        key = password_of("", self.password_file)
        context.meta[STORE] = StoreSettings(root=root_of(self.root))
        perform(context, lambda store: work(store, key))

    async def _keep(self, store: LedgerStore, key: bytes, prefix: str, since: int | None, count: int | None) -> None:
        wanted = Wanted(to=self.log, feed="a log", prefix=prefix, since=since, count=count)
        try:
            async with store.open_log(self.log, settings=SETTINGS, password=key) as log:
                keeper = _Kept(self.log, KeptChanges(log, store.zk.operations.inner(prefix).decode()), since)
                await _while_owned(log, lambda: publish(keeper, wanted, store.zk))
        except NoSuchLogError as error:
            fail(f"{error}; zab ledger-log create {in_line(self.log)} makes it")
        except LogFencedError:
            fail(f"log {in_line(self.log)}: {FENCED}")


async def _while_owned(log: ManagedLog, act: Callable[[], Awaitable[None]]) -> None:
    """Raises why the log is lost, also while nothing is appended."""
    lost: list[LedgerError] = []

    async def watch() -> None:
        lost.append(await log.lost())
        nursery.cancel_scope.cancel()

    async with hidden_nursery() as nursery:
        nursery.start_soon(watch)
        await act()
        nursery.cancel_scope.cancel()
    if lost:
        raise lost[0]


@define(eq=False)
class _Kept:
    """The log as what keeps changes."""

    log: str
    _kept: KeptChanges
    _since: int | None
    timing: Timing = field(factory=lambda: Timing(None))

    async def begin(self) -> Place | None:
        place = await self._kept.begin()
        if place is None and self._since is None and self._kept.is_trimmed:
            fail(f"log {in_line(self.log)} has no entries any more: say with --since where it begins; 0 is all")
        return place

    async def keep(self, changes: Sequence[Change], place: Place) -> None:
        await self._kept.append(changes, place)
