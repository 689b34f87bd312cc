"""The tick, and the settings that are counted in ticks."""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import COUNT, COUNT_OR_0, INT_MAX, derived, integer, setting


@frozen(kw_only=True)
class TimingSettings:
    """The tick; session timeouts, and limits of roles in ticks."""

    tick_time_ms: int = setting(
        "tickTime", 3000, COUNT, "ms", "The unit of heartbeats, session expiry, and limits in ticks."
    )
    min_session_timeout_ms: int = setting(
        "minSessionTimeout",
        derived(lambda timing: 2 * timing.tick_time_ms),
        integer(-1, INT_MAX),
        "ms",
        "The shortest session timeout. Sessions are checked once a tick, so less than two ticks would end live ones.",
        shown="2 * tickTime",
    )
    max_session_timeout_ms: int = setting(
        "maxSessionTimeout",
        derived(lambda timing: 20 * timing.tick_time_ms),
        integer(-1, INT_MAX),
        "ms",
        "The longest session timeout: how long the ephemerals of a dead client may stay.",
        shown="20 * tickTime",
    )
    init_limit_ticks: int = setting(
        "initLimit",
        0,
        COUNT,
        "ticks",
        "How long a leader may take to gather its quorum, and a learner to be synchronized.",
        shown="required in an ensemble",
    )
    sync_limit_ticks: int = setting(
        "syncLimit",
        0,
        COUNT,
        "ticks",
        "How long a link may be silent, or a write not durable, before a server gives up its role.",
        shown="required in an ensemble",
    )
    connect_to_leader_limit_ticks: int = setting(
        "connectToLearnerMasterLimit",
        0,
        COUNT_OR_0,
        "ticks",
        "How long a learner tries to reach the leader's quorum port. 0: initLimit.",
    )

    @property
    def init_limit_ms(self) -> int:
        return self.init_limit_ticks * self.tick_time_ms

    @property
    def sync_limit_ms(self) -> int:
        return self.sync_limit_ticks * self.tick_time_ms

    @property
    def connect_to_leader_limit_ms(self) -> int:
        return (self.connect_to_leader_limit_ticks or self.init_limit_ticks) * self.tick_time_ms
