"""What disks and unclean stops may cost: which replicas lost records, and when a partition may lose what was committed.

A broker that stops in any way but cleanly is unclean until it has caught up: the controller cannot know what it still
has, so it leaves every ISR and ELR. A replica is lossy if its disk really lost records that counted as stored: with
flush.mode=batch only synced ones do. KIP-966 promises that nothing
committed is lost while fewer than min.insync.replicas replicas are unclean; so a partition may lose records only if so
many are, and one of them is lossy.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from zab.simulator.brokers.judge import Key


@attrs.frozen
class Left:
    """What a log had when its process ended."""

    written_end: int
    synced_end: int
    stored_end: int
    """What is below it has counted for the high watermark."""
    with_power: bool

    @property
    def kept(self) -> int:
        """What has to be there at the next start."""
        return self.synced_end if self.with_power else self.written_end


class Losses:
    """See the docstring of the module. `min_in_sync`: the lowest that a topic ever had, by its name."""

    def __init__(self, min_in_sync: Mapping[str, int]) -> None:
        self._min_in_sync = min_in_sync
        self._left: dict[tuple[int, Key], Left] = {}
        self._unclean: dict[Key, set[int]] = {}
        self._lossy: dict[Key, set[int]] = {}

    def stopped(self, broker: int, left: Mapping[Key, Left], *, with_power: bool, is_clean: bool) -> None:
        """A process ended; `left` has what it knew of its logs. Logs that it had not opened are as they were before."""
        for (sid, key), before in list(self._left.items()):
            if sid == broker and with_power:
                self._left[sid, key] = attrs.evolve(before, with_power=True)
        for key, each in left.items():
            self._left[broker, key] = each
            if not is_clean:
                self._unclean.setdefault(key, set()).add(broker)

    def wiped(self, broker: int) -> None:
        """The disk of a broker that does not run was replaced by an empty one."""
        for sid, key in [each for each in self._left if each[0] == broker]:
            self._note_lossy(sid, key)
            del self._left[sid, key]

    def opened(self, broker: int, ends: Mapping[Key, int]) -> list[tuple[Key, int, Left]]:
        """The logs of a broker are recovered, and end there. Returns those that are shorter than they may be, with
        their ends."""
        short = []
        for sid, key in [each for each in self._left if each[0] == broker]:
            left, end = self._left.pop((sid, key)), ends.get(key)
            if end is None:
                continue
            # The process may end before it takes the log into use.
            self._left[sid, key] = Left(end, min(end, left.synced_end), min(end, left.stored_end), with_power=False)
            if end < left.kept:
                short.append((key, end, left))
            if end < left.stored_end:
                self._note_lossy(broker, key)
        return short

    def _note_lossy(self, broker: int, key: Key) -> None:
        self._unclean.setdefault(key, set()).add(broker)
        self._lossy.setdefault(key, set()).add(broker)

    def caught_up(self, broker: int, key: Key) -> None:
        """A replica has everything again."""
        for found in (self._unclean, self._lossy):
            if broker in found.get(key, ()):
                found[key].discard(broker)

    def is_lossy(self, broker: int, key: Key) -> bool:
        """Whether this replica may lack what it had."""
        return broker in self._lossy.get(key, ())

    def may_lose(self, topic: str, key: Key) -> bool:
        """Whether the partition may lose what was committed."""
        return bool(self._lossy.get(key)) and len(self._unclean[key]) >= self._min_in_sync[topic]
