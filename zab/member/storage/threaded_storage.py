"""The storage of a member with a log thread: the port `StorageQueue`, in the server and in the simulator.

Not here: the thread (`zab.host.storage.log_thread`, `zab.simulator.world.log_thread`), and the storage itself
(`storage`).
"""

from __future__ import annotations

from typing import Protocol

from datatree.log.zxid import Zxid
from zab.member.storage.events import StorageEffect
from zab.member.storage.storage import Storage


class LogThread(Protocol):
    """Carries out storage effects in order, and calls the storage when it is idle."""

    @property
    def is_parked(self) -> bool:
        """Whether the thread sleeps, so that `nudge` has an effect."""
        ...

    def put(self, effect: StorageEffect) -> None:
        """Queue one effect."""
        ...

    def nudge(self) -> None:
        """Wake the thread, since something has to be written when the log is idle."""
        ...


class ThreadedStorage:
    """The port `zab.member.ports.StorageQueue` over a log thread."""

    def __init__(self, storage: Storage, log_thread: LogThread) -> None:
        self._storage = storage
        self._log_thread = log_thread
        self.waits = storage.waits
        self.put = log_thread.put

    def mark_moved(self, zxid: Zxid) -> None:
        self._storage.mark = zxid
        # After the mark is set: a storage that is about to write when idle sees it.
        if self._log_thread.is_parked:
            self._log_thread.nudge()
