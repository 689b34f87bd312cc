"""The feed of changes, kept by somebody else: what `zab changes --to-topic` and `--to-log` have in common.

A `Keeper` has the changes, and with them the *place*: where the feed goes on after them. Both are there, or neither. So
a command that begins again goes on after the last change that is kept, also after `kill -9`.

While nothing changes below the prefix, the place is kept every PLACE_SECONDS if it has moved, so that a feed that
begins again does not ask for what servers have removed by then.

Limits: CHANGES_MAX changes, or BYTES_MAX, at a time; one change may have more. PREFIX_CHARS_MAX.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final, Protocol

import trio
import typer
from attrs import define, frozen

from zab.cli.arguments import ConnectionOptions
from zab.cli.progress import progress
from zab.cli.terminal import count_of, in_line, say
from zab.client import Change, Changes, Client, Place

__all__ = ["Keeper", "Timing", "Wanted", "below_of", "publish"]

CHANGES_MAX: Final = 1000
BYTES_MAX: Final = 4 << 20
PREFIX_CHARS_MAX: Final = 1000
PLACE_SECONDS: Final = 60.0
MORE_SECONDS: Final = 0.005
"""How long it is waited for a further change before those that came are kept."""


@frozen(kw_only=True)
class Wanted:
    """What is published. to: the name of what keeps it. feed: what else the command says of that. since: where a feed
    begins that has no place yet; None: now."""

    to: str
    feed: str
    prefix: str
    since: int | None
    count: int | None


class Keeper(Protocol):
    """What keeps the changes."""

    timing: Timing

    async def begin(self) -> Place | None:
        """Nobody else keeps changes here from now on; where the feed is. None: it is new."""

    async def keep(self, changes: Sequence[Change], place: Place) -> None:
        """The changes, and the place after them: both, or neither."""


@define
class Timing:
    """When a place has to be kept though nothing has changed. keep_seconds: also when it has not moved; None: never."""

    keep_seconds: float | None
    _place: Place | None = None
    _kept_at: float = 0.0

    def kept(self, place: Place | None) -> None:
        self._place, self._kept_at = place, time.monotonic()

    def is_late(self, place: Place | None) -> bool:
        if place is None:
            return False
        seconds = PLACE_SECONDS if place != self._place else self.keep_seconds
        return seconds is not None and time.monotonic() - self._kept_at >= seconds


def below_of(context: typer.Context, prefix: str, option: str) -> str:
    """The prefix with the chroot. Raises BadParameter for what cannot be published."""
    if not isinstance(context.obj, ConnectionOptions):
        raise typer.BadParameter("it is for the command line, not for the shell", param_hint=option)
    chroot = context.obj.hosts.partition("/")[2]
    below = f"/{chroot}{prefix}" if chroot else prefix
    if len(below) > PREFIX_CHARS_MAX:
        raise typer.BadParameter(f"it has more than {PREFIX_CHARS_MAX} characters", param_hint="--prefix")
    return below


async def publish(keeper: Keeper, wanted: Wanted, zk: Client) -> None:
    """Until Ctrl-C, or for so many changes."""
    place = await keeper.begin()
    begin: int | Place | None = place if place is not None else wanted.since
    if begin is None:
        await zk.sync()
        begin = zk.last_zxid
    changes = zk.changes(begin, wanted.prefix)
    if place is None:
        # Whoever is killed before the first change goes on from here, not from what is newest then.
        assert changes.place is not None
        await keeper.keep((), changes.place)
    keeper.timing.kept(changes.place)
    start = begin.zxid if isinstance(begin, Place) else begin
    say(f"publishing {wanted.prefix} to {wanted.to} from {start:#x} ({wanted.feed})", sys.stderr, flush=True)
    with progress("published", "change", tells_end=wanted.count is not None) as told:
        while wanted.count is None or told.count < wanted.count:
            left = CHANGES_MAX if wanted.count is None else min(CHANGES_MAX, wanted.count - told.count)
            found = await _some(changes, left)
            if found or keeper.timing.is_late(changes.place):
                assert changes.place is not None
                await keeper.keep(found, changes.place)
                keeper.timing.kept(changes.place)
            told.add(len(found))
    say(f"{count_of(told.count, 'change')} in {in_line(wanted.to)}")


async def _some(changes: Changes, most: int) -> list[Change]:
    """The next changes, as far as they come at once; none if nothing comes for PLACE_SECONDS."""
    found: list[Change] = []
    size = 0
    seconds = PLACE_SECONDS
    while len(found) < most and size < BYTES_MAX:
        with trio.move_on_after(seconds) as scope:
            change = await changes.receive()
            found.append(change)
            size += len(change.path) + len(change.data or b"")
        if scope.cancelled_caught:
            break
        seconds = MORE_SECONDS
    return found
