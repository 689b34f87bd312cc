"""Files that are read again when they change, while a service runs.

    watched = WatchedFile(path, read)       `watched.content` is the result of `read`
    await Reread(watched, changed, sentence).run()

If a file cannot be used, the content from before stays in force, and the journal says why, once for each reason.

Not here: the content of each file (`secret_file`, `users_file`, `tls_stores`).
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
"""How often the files are checked."""
CERTIFICATES_KEPT: Final = "the certificates cannot be read again -> those before stay"

Content = TypeVar("Content")

journal = Journal("server")


class WatchedFile(Generic[Content]):
    """One file of a running server, and its `content`."""

    def __init__(self, path: str, read: Callable[[str], Content], *others: str) -> None:
        """`others`: further files on which the result of `read` depends. This, and `read_again`, raise what `read`
        raises."""
        self._path = path
        self._others = others
        self._read = read
        self._seen = self._look()
        self.content = read(path)

    def read_again(self) -> bool:
        """Read the file again if it has changed. True: it had. If `read` raises, the content stays."""
        seen = self._look()
        if seen in (None, self._seen):
            return False
        before, self.content = self.content, self._read(self._path)
        self._seen = seen
        return self.content != before

    def _look(self) -> tuple[int, ...] | None:
        """A value that differs if the files have changed; None while one of them is missing."""
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
    """A file that a service reads again."""

    watched: WatchedFile[Any]
    changed: Callable[[], None]
    """Called after the content has changed."""
    kept: str
    """The line of the journal for files that cannot be used."""

    async def run(self) -> None:
        """Check the file until cancelled."""
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
