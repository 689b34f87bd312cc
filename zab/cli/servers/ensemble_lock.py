"""The lock of a local ensemble's directory: one `zab ensemble` at a time writes the files of its members.

The lock is a file in the directory, locked with `flock` for as long as the command runs, so it is gone with the
process, however that ends. It contains the id of the process, for the message to a second one.

Not here: the locks of the members on their own data directories (`zab.host.storage.disk`).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "lock"


class EnsembleInUseError(Exception):
    """Another process runs an ensemble in this directory."""


class EnsembleLock:
    """The lock on a directory, held from the constructor to `release`."""

    def __init__(self, directory: Path) -> None:
        """Raises EnsembleInUseError, and OSError if the file cannot be written."""
        path = directory / LOCK_FILE
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            holder = path.read_text().strip()
            raise EnsembleInUseError(f"process {holder}" if holder else "another process") from None
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        os.close(self._descriptor)
