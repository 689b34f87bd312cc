"""Checks the files of a running server, at a low rate, in a task beside the loop (C7 scrubbing).

    task    Scrubber.run        a round every `scrub.intervalSeconds`; after damage that only a snapshot can repair, the
                                next round comes after `AGAIN_SECONDS`, to see that it was taken
    step                        `Storage.scrub_step`, in a thread of trio's; between two steps it waits for as long as
                                `scrub.maxBytesPerSecond` asks for

Damage is posted for the next turn, which reports and repairs it (`zab.member.trees.scrubbing`).
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from datatree.log.zxid import BEFORE_ALL
from datatree.recovery.scrub import Scrub
from zab.host.journal.journal import Journal
from zab.member.storage.events import DamageFound
from zab.member.storage.storage import Storage
from zab.member.trees.scrubbing import AGAIN_SECONDS

journal = Journal("scrubber")


class Scrubber:
    """The scrubber of a server. `interval_seconds` is above 0."""

    def __init__(
        self, storage: Storage, post: Callable[[DamageFound], None], interval_seconds: int, bytes_per_second: int
    ) -> None:
        self._storage = storage
        self._post = post
        self._interval_seconds = interval_seconds
        self._bytes_per_second = bytes_per_second

    async def run(self) -> None:
        """Scrub until cancelled. The first round comes later, since the start has just read everything."""
        pause_seconds = self._interval_seconds
        while True:
            await trio.sleep(pause_seconds)
            try:
                is_open = await self.read_through()
            except OSError as error:
                journal.error("a damaged file cannot be set aside", reason=str(error))
                is_open = True
            pause_seconds = min(AGAIN_SECONDS, self._interval_seconds) if is_open else self._interval_seconds

    async def read_through(self) -> bool:
        """Take one round. True: it found damage that a snapshot has to replace. Raises OSError."""
        scrub = Scrub(self._storage.disk, self._storage.log)
        is_over, is_open, read_bytes = False, False, 0
        while not is_over:
            is_over, found = await trio.to_thread.run_sync(self._storage.scrub_step, scrub)
            for each in found:
                is_open = is_open or each.needs > BEFORE_ALL
                self._post(each)
            await trio.sleep((scrub.read_bytes - read_bytes) / self._bytes_per_second)
            read_bytes = scrub.read_bytes
        journal.debug("all files are read through", bytes=read_bytes)
        return is_open
