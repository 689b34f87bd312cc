"""Files that are read again while a service runs, when one of them has changed.

    watched = WatchedFile(path, read)       what `read` makes of the file is `watched.content`
    await Reread(watched, changed, sentence).run()

What cannot be used stays out: what there was before stays in force, and the journal says why, once for each reason.

Not here: what is in which file (`secret_file`, `users_file`, `tls_stores`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import attrs
import trio

from zab.host.files.private_file import PrivateFileError
from zab.host.journal.journal import Journal
from zab.tls.stores import StoreError

LOOK_SECONDS: Final = 2.0
"""How often the files are looked at."""

Content = TypeVar("Content")

journal = Journal("server")


class WatchedFile(Generic[Content]):
    """One file of a running server. What it holds is `content`."""

    def __init__(self, path: str, read: Callable[[str], Content], *others: str) -> None:
        """`others`: files that what `read` makes depends on, too. This, and `read_again`, raise what `read` raises."""
        self._path = path
        self._others = others
        self._read = read
        self._seen = self._look()
        self.content = read(path)

    def read_again(self) -> bool:
        """Whether there is something else in it now. If `read` raises, what there was stays."""
        seen = self._look()
        if seen in (None, self._seen):
            return False
        before, self.content = self.content, self._read(self._path)
        self._seen = seen
        return self.content != before

    def _look(self) -> tuple[int, ...] | None:
        """What tells one content of the files from another; None while one of them is not there."""
        found: tuple[int, ...] = ()
        for path in (self._path, *self._others):
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                return None
            found += status.st_mtime_ns, status.st_size, status.st_ino
        return found


@attrs.frozen
class Reread:
    """One row of what a service reads again."""

    watched: WatchedFile[Any]
    changed: Callable[[], None]
    """Called after what is in the files has changed."""
    kept: str
    """What the journal says when the files cannot be used."""

    async def run(self) -> None:
        """Until cancelled."""
        failure = ""
        while True:
            await trio.sleep(LOOK_SECONDS)
            try:
                is_changed = await trio.to_thread.run_sync(self.watched.read_again)
            except (PrivateFileError, StoreError) as error:
                if str(error) != failure:
                    journal.error(self.kept, reason=error)
                failure = str(error)
                continue
            failure = ""
            if is_changed:
                self.changed()
