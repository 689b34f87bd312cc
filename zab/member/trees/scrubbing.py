"""Handles damage that scrubbing finds in the files of a running member (C7 scrubbing).

    a record        is written again, as the storage knows it (`storage`)
    a snapshot      is set aside; if it was the newest, a snapshot of the current tree replaces it
    the log         if there is a snapshot above the damage, nothing depends on it. Otherwise a snapshot of the current
                    tree is taken: after a restart the history begins there, above the damage

If no snapshot can be taken now, since one is being written, the tree is disputed, or the batch is not applied yet, the
next round, after `AGAIN_SECONDS`, finds the same damage again.

Not here: reading (`datatree.recovery.scrub`), and its speed (`zab.server.scrubber`).
"""

from __future__ import annotations

from typing import Final

from zab.member.state.metrics import Metrics
from zab.member.storage.events import DamageFound
from zab.member.trees.snapshots import Snapshots

AGAIN_SECONDS: Final = 60


def on_damage_found(snapshots: Snapshots, metrics: Metrics, event: DamageFound) -> None:
    """Count the damage, and take a snapshot if one is needed and possible now."""
    metrics.damage_found += 1
    if event.needs:
        snapshots.take_of_damaged(event.needs)
