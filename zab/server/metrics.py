"""What a member counts about itself, for `mntr`, `srvr` and `stat`: plain numbers, raised where the event happens.

The names are ZooKeeper's, without the prefix `zk_`. A counter is an attribute; a latency is a `Summary` in milliseconds.
Counters begin with the process and only grow; `reset` is for `srst`.

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
    latency: Summary = attrs.Factory(Summary)
    """Of every answered request."""
    readlatency: Summary = attrs.Factory(Summary)
    updatelatency: Summary = attrs.Factory(Summary)
    """From the request to its reply, of writes of this member's clients."""
    proposal_size: Summary = attrs.Factory(Summary)
    """Bytes of a batch, on the leader."""
    last_proposal_size: int = -1

    bytes_received_count: int = 0
    response_bytes: int = 0
    connection_request_count: int = 0
    connection_rejected: int = 0
    connection_drop_count: int = 0
    connection_revalidate_count: int = 0
    revalidate_count: int = 0
    sessionless_connections_expired: int = 0
    stale_sessions_expired: int = 0
    auth_failed_count: int = 0
    commit_count: int = 0
    proposal_count: int = 0
    looking_count: int = 0
    snap_count: int = 0
    snapshot_error_count: int = 0
    digest_mismatches_count: int = 0
    request_commit_queued: int = 0
    learner_proposal_received_count: int = 0
    learner_commit_received_count: int = 0
    large_requests_rejected: int = 0
    unsuccessful_handshake: int = 0
    node_created_watch_count: int = 0
    node_deleted_watch_count: int = 0
    node_changed_watch_count: int = 0
    node_children_watch_count: int = 0

    def reset(self) -> None:
        """Forget the packets and latencies, as `srst` does."""
        self.packets_received = self.packets_sent = 0
        self.latency, self.readlatency, self.updatelatency = Summary(), Summary(), Summary()
        self.proposal_size, self.last_proposal_size = Summary(), -1
