"""What a member counts about itself, for `mntr`, `srvr` and `stat`: plain numbers, raised where the event happens.

The names are ZooKeeper's, without the prefix `zk_`. A latency is a `Summary` in milliseconds. That of a write is the
time from the turn in which it came to the one in which it was answered. That of a read which does not wait is 0, since
a turn has one time.

Counters begin with the process and only grow, but for `reset` (`srst`).

Not here: gauges, which are read from the member when somebody asks (`four_letter`), and percentiles.
"""

from __future__ import annotations

import attrs


@attrs.define
class Summary:
    """Count, sum, least and largest of a value."""

    count: int = 0
    total: int = 0
    least: int = 0
    largest: int = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count `value`, seen so many times."""
        if not times:
            return
        if value > self.largest:
            self.largest = value
        if value < self.least or not self.count:
            self.least = value
        self.count += times
        self.total += value * times

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


@attrs.define
class Metrics:
    """One per process."""

    packets_received: int = 0
    packets_sent: int = 0
    readlatency: Summary = attrs.Factory(Summary)
    updatelatency: Summary = attrs.Factory(Summary)
    proposal_size: Summary = attrs.Factory(Summary)
    """Bytes of the batches that this member proposed."""
    last_proposal_size: int = -1
    connection_token_deficit: Summary = attrs.Factory(Summary)
    """Tokens that were missing when a session was asked for, and granted."""
    auth_failed_count: int = 0
    longest_turn_ns: int = 0
    """Processor time of the longest turn: no work of one client makes it longer than a slice."""

    bytes_received_count: int = 0
    connection_request_count: int = 0
    connection_rejected: int = 0
    connection_drop_count: int = 0
    connection_revalidate_count: int = 0
    revalidate_count: int = 0
    sessionless_connections_expired: int = 0
    stale_sessions_expired: int = 0
    commit_count: int = 0
    proposal_count: int = 0
    looking_count: int = 0
    snap_count: int = 0
    snapshot_error_count: int = 0
    digest_mismatches_count: int = 0
    large_requests_rejected: int = 0
    writes_without_room_count: int = 0
    unsuccessful_handshake: int = 0
    throttled_ops: int = 0
    stale_requests: int = 0
    stale_requests_dropped: int = 0
    request_throttle_wait_count: int = 0
    sessions_throttled: int = 0
    """Ours: clients that asked for a session and found no token; in connection_rejected, too."""
    sessions_refused: int = 0
    """Ours: clients that came back to a session with a wrong password."""
    members_refused: int = 0
    """Ours: connections to the ports of members that ended without proof."""
    connections_closed_for_output: int = 0
    """Ours: for more unsent output than `outputLimitBytes` or `totalOutputLimitBytes` allow; in connection_drop_count,
    too."""
    connections_closed_for_input: int = 0
    """Ours: for unfinished frames, with which all together were beyond `totalInputLimitBytes`; likewise."""
    audit_records_lost: int = 0
    """Ours: of the audit log, since it could not be written fast enough, or at all."""

    def latency(self) -> Summary:
        """Of reads and writes together."""
        parts = [part for part in (self.readlatency, self.updatelatency) if part.count]
        if not parts:
            return Summary()
        return Summary(
            sum(part.count for part in parts),
            sum(part.total for part in parts),
            min(part.least for part in parts),
            max(part.largest for part in parts),
        )

    @classmethod
    def counter_names(cls) -> list[str]:
        """The counters, in the order in which they are shown."""
        names = [attribute.name for attribute in attrs.fields(cls)]
        return names[names.index("bytes_received_count") :]

    def reset(self) -> None:
        """Forget packets and latencies, as `srst` does."""
        self.packets_received = self.packets_sent = 0
        self.readlatency, self.updatelatency, self.proposal_size = Summary(), Summary(), Summary()
        self.last_proposal_size = -1
        self.longest_turn_ns = 0
