"""Fills a hole in the log of a simulated member from the others; `zab.server.hole_filler` does the same with
connections. An answer takes no time; members that are cut off or paused give none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from datatree.recovery.holes import Hole, HoleError
from zab.member.storage.hole_fill import FILL_MS, request, should_ask, take
from zab.member.storage.snapshot_request import RefusedError, history_of
from zab.protocol.peer import Peer
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

PAUSE_US: Final = 1000
"""The time between the end of a process whose hole is filled and the next process."""


class HoleFiller:
    """Fills the hole of one process. `others` returns the disks of the members that it reaches, in each round."""

    def __init__(
        self,
        process: Process,
        peer: Peer,
        hole: Hole,
        others: Callable[[], list[FaultyDisk]],
        filled: Callable[[Hole], None],
    ) -> None:
        self._process = process
        self._peer = peer
        self._hole = hole
        self._others = others
        self._filled = filled

    def start(self) -> None:
        self._process.later(FILL_MS * MS, self._round)

    def _round(self) -> None:
        if not self._peer.amnesiac:
            return
        hole = self._hole.anew()
        if should_ask(self._peer) and self._is_whole(hole):
            self._process.say(f"the hole in its log after {hole.after[0]:#x} is filled up to {hole.position[0]:#x}")
            self._filled(hole)
        else:
            self.start()

    def _is_whole(self, hole: Hole) -> bool:
        is_going_on = True
        while is_going_on:
            is_going_on = False
            for disk in self._others():
                try:
                    while hole.wanted is not None and take(hole, history_of(disk, request(hole))):
                        is_going_on = True
                except (RefusedError, HoleError):
                    continue
                if hole.wanted is None:
                    return True
        return False
