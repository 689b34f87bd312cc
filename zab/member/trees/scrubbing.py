"""What a running member does about damage that is found while its files are read through (C7 scrubbing).

    a record        is written again, of what the storage knows of it (`storage`)
    a snapshot      is set aside; if it was the newest, one of the tree as it is takes its place
    the log         if a snapshot above it is there, nothing depends on it. Else one of the tree as it is is taken:
                    after a restart it is where the history begins, and the damage lies wholly below it

Where none can be taken now, since one is being written, the tree is disputed, or the batch is not applied yet, the next
round finds the same again: it comes after `AGAIN_SECONDS`.

Not here: reading (`datatree.recovery.scrub`), and how quickly (`zab.server.scrubber`).
"""

from __future__ import annotations

from typing import Final

from zab.member.state.metrics import Metrics
from zab.member.storage.events import DamageFound
from zab.member.trees.snapshots import Snapshots

AGAIN_SECONDS: Final = 60


def on_damage_found(snapshots: Snapshots, metrics: Metrics, event: DamageFound) -> None:
    """Count it; and take a snapshot, if one is needed and can be taken now."""
    metrics.damage_found += 1
    if event.needs:
        snapshots.take_of_damaged(event.needs)
