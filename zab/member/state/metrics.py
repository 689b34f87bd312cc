"""What a member counts about itself: plain numbers, raised where the event happens.

The names are ZooKeeper's, without the prefix `zk_`. A latency is a `Summary` in milliseconds. The latency of a write is
the time from the turn in which it came to the one in which it was answered. A read that does not wait has 0, since a
turn has one time.

Counters begin with the process and only grow, except for `reset` (`srst`).

Not here: gauges, which are read from the member when somebody asks (`figures`).
"""

from __future__ import annotations

from typing import Final

import attrs

from datatree.opcodes import OpCode
from zab.service.summary import Summary

TRACE_MASK_DEFAULT: Final = 306
"""ZooKeeper's: client requests, session, quorum and server events, warnings."""


def _operations() -> dict[int, int]:
    return {int(opcode): 0 for opcode in OpCode if opcode not in (OpCode.NOTIFICATION, OpCode.ERROR)}


@attrs.define
class Metrics:
    """One per process."""

    packets_received: int = 0
    packets_sent: int = 0
    readlatency: Summary = attrs.Factory(Summary)
    updatelatency: Summary = attrs.Factory(Summary)
    propagation_latency: Summary = attrs.Factory(Summary)
    """From the time in a batch, by the leader's clock, to the turn that applied it here, by this member's clock."""
    proposal_size: Summary = attrs.Factory(Summary)
    """The sizes of the batches that this member proposed, in bytes."""
    last_proposal_size: int = -1
    connection_token_deficit: Summary = attrs.Factory(Summary)
    """Tokens that were missing when a session was granted."""
    fsynctime: Summary = attrs.Factory(Summary)
    """The time of one write and sync of the log. The log thread adds."""
    snapshottime: Summary = attrs.Factory(Summary)
    """The time to write a snapshot."""
    election_time: Summary = attrs.Factory(Summary)
    """From when this member began to look for a leader until it knew one."""
    unavailable_time: Summary = attrs.Factory(Summary)
    """Times without service, after this member has served."""
    leader_unavailable_time: Summary = attrs.Factory(Summary)
    """Times without service that ended with this member as leader."""
    follower_sync_time: Summary = attrs.Factory(Summary)
    """From when this member knew a leader until it served as its follower."""
    observer_sync_time: Summary = attrs.Factory(Summary)
    dbinittime: Summary = attrs.Factory(Summary)
    """The time of recovery: the snapshot, and the log after it."""
    startup_txns_loaded: Summary = attrs.Factory(Summary)
    """The transactions that recovery read from that log."""
    node_created_watch_count: Summary = attrs.Factory(Summary)
    """Connections that were notified of one creation of a znode, if there were any."""
    node_deleted_watch_count: Summary = attrs.Factory(Summary)
    node_changed_watch_count: Summary = attrs.Factory(Summary)
    node_children_watch_count: Summary = attrs.Factory(Summary)
    op_counts: dict[int, int] = attrs.Factory(_operations)
    """Client requests that were processed, by opcode."""
    fsync_threshold_exceed_count: int = 0
    """Syncs that took `fsync.warningthresholdms` or longer."""
    trace_mask: int = TRACE_MASK_DEFAULT
    """The value that `stmk` set. It has no effect."""
    auth_failed_count: int = 0
    longest_turn_ns: int = 0
    """Processor time of the longest turn: no work of one client makes it longer than a slice."""
    most_watches: int = 0
    """The most watches that one connection has had at any time."""

    bytes_received_count: int = 0
    response_bytes: int = 0
    """Bytes of answers and of watch events."""
    watch_bytes: int = 0
    """Bytes of watch events."""
    connection_request_count: int = 0
    connection_rejected: int = 0
    connection_drop_count: int = 0
    connection_revalidate_count: int = 0
    revalidate_count: int = 0
    cnxn_closed_without_zk_server_running: int = 0
    """Connections that asked for a session while this member served nobody."""
    sessionless_connections_expired: int = 0
    stale_sessions_expired: int = 0
    commit_count: int = 0
    proposal_count: int = 0
    looking_count: int = 0
    snap_count: int = 0
    snapshot_error_count: int = 0
    snapshot_rate_limited_count: int = 0
    restore_error_count: int = 0
    restore_rate_limited_count: int = 0
    digest_mismatches_count: int = 0
    large_requests_rejected: int = 0
    writes_without_room_count: int = 0
    unsuccessful_handshake: int = 0
    throttled_ops: int = 0
    stale_requests: int = 0
    stale_requests_dropped: int = 0
    request_throttle_wait_count: int = 0
    insecure_admin_count: int = 0
    """Requests of the admin server without TLS."""
    sessions_throttled: int = 0
    """zab only: clients that asked for a session and found no token; also in connection_rejected."""
    sessions_refused: int = 0
    """zab only: clients that tried to resume a session with a wrong password."""
    members_refused: int = 0
    """zab only: connections to the ports for members that ended without proof."""
    connections_closed_for_output: int = 0
    """zab only: for more unsent output than `outputLimitBytes` or `totalOutputLimitBytes` allow; also in
    connection_drop_count."""
    connections_closed_for_input: int = 0
    """zab only: for unfinished and waiting requests beyond `totalInputLimitBytes` in all; also in
    connection_drop_count."""
    connections_closed_for_watches: int = 0
    """zab only: for watches beyond `maxWatchesPerConnection`, `watchLimitBytes` or `totalWatchLimitBytes`; also in
    connection_drop_count."""
    damage_found: int = 0
    """zab only: damaged files found by scrubbing; each round counts a file that stays damaged."""
    audit_records_lost: int = 0
    """zab only: records of the audit log that could not be written fast enough, or at all."""

    def latency(self) -> Summary:
        """The latency of reads and writes together; without quantiles."""
        parts = [part for part in (self.readlatency, self.updatelatency) if part.count]
        if not parts:
            return Summary()
        return Summary(
            sum(part.count for part in parts),
            sum(part.total for part in parts),
            min(part.least for part in parts),
            max(part.largest for part in parts),
        )

    def count_lost_audit_records(self, count: int) -> None:
        self.audit_records_lost += count

    @classmethod
    def counter_names(cls) -> list[str]:
        """The counters, in the order in which they are shown."""
        names = [attribute.name for attribute in attrs.fields(cls)]
        return names[names.index("bytes_received_count") :]

    def reset(self) -> None:
        """Forget packets and latencies, as `srst` does."""
        self.packets_received = self.packets_sent = 0
        self.readlatency, self.updatelatency, self.proposal_size = Summary(), Summary(), Summary()
        self.propagation_latency, self.fsynctime = Summary(), Summary()
        self.last_proposal_size = -1
        self.longest_turn_ns = self.most_watches = 0
