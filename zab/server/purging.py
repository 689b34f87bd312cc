"""Removes old snapshots and log files, after each snapshot and every `autopurge.purgeInterval`.

Not here: which files are removed (`datatree.recovery.retention`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from datatree.log.zxid import Zxid
from zab.host.journal.journal import Journal
from zab.member.events import Answer
from zab.member.settings.storage import StorageSettings
from zab.member.storage.storage import Storage
from zab.quorum.ids import Link
from zab.server.being_read import BeingRead
from zab.server.snapshotter import Snapshotter

journal = Journal("server")


@attrs.frozen
class Purging:
    """The purges of one server. The thread that writes snapshots does the work."""

    settings: StorageSettings
    storage: Storage
    snapshotter: Snapshotter
    being_read: BeingRead
    put: Callable[[Answer], None]

    def purge(self, offered: Mapping[Link, Zxid]) -> None:
        """Remove the files that retention does not need, except those that a learner was offered or that are being
        read."""
        self.snapshotter.run(partial(self._purge, offered, frozenset(self.being_read)))

    def _purge(self, offered: Mapping[Link, Zxid], being_read: frozenset[int]) -> None:
        retained, log_bytes_max = self.settings.snap_retain_count, self.settings.max_pinned_log_bytes
        try:
            count, withdrawn = self.storage.purge(offered, being_read, retained, log_bytes_max)
        except OSError as error:
            journal.error("cannot remove old files", reason=str(error))
            return
        for answer in withdrawn:
            self.put(answer)
        if count:
            journal.info("removed old files", count=count)
