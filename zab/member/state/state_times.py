"""How long a member has been in its state; only for its figures. All in ms of the monotonic clock."""

from __future__ import annotations

from zab.member.state.metrics import Metrics
from zab.protocol.states import FOLLOWING, LEADING, OBSERVING, State


class Times:
    """Is told when the state changes, and adds durations to the metrics."""

    def __init__(self, metrics: Metrics, now: int) -> None:
        self._metrics = metrics
        self.started_at = self.served_at = now
        """When the process began, and when it last began to serve clients."""
        self._looking_since: int | None = now
        self._found_at = now
        self._unavailable_since: int | None = None

    def looks(self, now: int) -> None:
        """The member looks for a leader."""
        self._metrics.looking_count += 1
        if self._looking_since is None:
            self._looking_since = now

    def found(self, now: int) -> None:
        """The member has a leader, or is the leader."""
        if self._looking_since is not None:
            self._metrics.election_time.add(now - self._looking_since)
            self._looking_since = None
            self._found_at = now

    def serves(self, now: int, state: State) -> None:
        self.served_at = now
        metrics = self._metrics
        if self._unavailable_since is not None:
            metrics.unavailable_time.add(now - self._unavailable_since)
            if state == LEADING:
                metrics.leader_unavailable_time.add(now - self._unavailable_since)
            self._unavailable_since = None
        if state == FOLLOWING:
            metrics.follower_sync_time.add(now - self._found_at)
        elif state == OBSERVING:
            metrics.observer_sync_time.add(now - self._found_at)

    def serves_nobody(self, now: int) -> None:
        if self._unavailable_since is None:
            self._unavailable_since = now
