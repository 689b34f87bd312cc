"""What a leader knows of its followers: how far each has got, and when it was last level with the leader.

A follower says where it is by where it fetches from: everything before that offset is in its log. Whether it keeps up
is judged by time: it is level if it has fetched up to where the leader's log ended at its previous fetch.

Source: KIP-16 (lag in time), KIP-903 (the epoch of its broker: what an earlier life had tells nothing).
"""

from __future__ import annotations

import attrs

UNKNOWN = -1
NEVER = -(1 << 62)


@attrs.define
class FollowerState:
    """One follower. Times are monotonic ms."""

    log_end: int = UNKNOWN
    log_start: int = UNKNOWN
    broker_epoch: int = UNKNOWN
    caught_up_at: int = NEVER
    """When it last had all that the leader had."""
    fetched_at: int = NEVER
    leader_end_then: int = UNKNOWN
    """Where the leader's log ended at its last fetch."""
    told_mark: int = UNKNOWN
    """The high watermark that it was told last."""

    def fetched(self, now: int, offset: int, log_start: int, leader_end: int, broker_epoch: int) -> bool:
        """It fetched from `offset`, before anything was read for it. False: a former life of its broker did, and
        nothing is noted."""
        if broker_epoch < self.broker_epoch:
            return False
        if broker_epoch > self.broker_epoch:
            # Another life: what the former one had may be gone with its disk.
            self.log_end = UNKNOWN
            self.caught_up_at = self.fetched_at = NEVER
            self.leader_end_then = self.told_mark = UNKNOWN
            self.broker_epoch = broker_epoch
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif self.leader_end_then != UNKNOWN and offset >= self.leader_end_then:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.log_end, self.log_start = offset, log_start
        self.fetched_at, self.leader_end_then = now, leader_end
        return True

    def is_caught_up(self, now: int, leader_end: int, lag_max_ms: int) -> bool:
        """Whether it keeps up: it has everything, or had it not long ago."""
        return self.log_end == leader_end or now - self.caught_up_at <= lag_max_ms
