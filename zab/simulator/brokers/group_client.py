"""A machine on which one member of a consumer group runs, process after process."""

from __future__ import annotations

from typing import Any

from zab.simulator.brokers.committed_offsets import GroupJudge
from zab.simulator.brokers.group_member import GroupMember, Style
from zab.simulator.brokers.scripted_client import BACKOFF_US, Script, ScriptedClient, Sleep
from zab.simulator.world.schedule import MS


class GroupClient(ScriptedClient):
    """Keeps one member of a group running: after its end comes the next one, with the same instance id if it has one.
    Of a static member the next process may come before the last one has noticed anything."""

    def __init__(self, *surroundings: Any, judge: GroupJudge, style: Style, delay_us: int) -> None:
        """`delay_us`: the time until the first one."""
        super().__init__(*surroundings)
        self.judge = judge
        self.style = style
        self.member = self.make()
        self._delay_us = delay_us
        self._last_life_us = 0

    def make(self) -> GroupMember:
        """The next process."""
        return GroupMember(self, self.judge, self.style)

    def start(self) -> None:
        self.perform(self._live())

    def calm_down(self) -> None:
        """Also joins once more: what a static cooperative member was to give up when it crashed is nobody's until the
        next rebalance."""
        super().calm_down()
        self.member.must_join = True

    def _live(self) -> Script[None]:
        yield Sleep(self._delay_us)
        while not self.is_stopped:
            self.member.start()
            outlives = 0
            while self.member.is_alive and not self.is_stopped:
                yield Sleep(100 * MS)
                if self.style.instance_id is not None and self.chance(0.003):
                    outlives = 1
                    break
            if not outlives:
                self.leave()
            yield self.pause(self.rng.choice((10, 1_000, 5_000)) * MS if not self.is_calm else BACKOFF_US)
            self.member = self.make()
