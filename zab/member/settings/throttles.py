"""The throttles. Names, defaults and meaning are ZooKeeper's.

Not here: the throttles themselves (`zab.member.clients.connection_throttle`, `zab.member.requests.request_throttle`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, BYTES, COUNT, COUNT_OR_0, INT_MAX, fraction, integer, setting


@frozen(kw_only=True)
class ConnectionThrottleSettings:
    """The limit on new and resumed sessions."""

    tokens: int = setting(
        "tokens",
        0,
        COUNT_OR_0,
        "sessions",
        "How many sessions may be asked for in a burst. A connection that asks for one more is closed. 0: no throttle.",
    )
    fill_time_ms: int = setting("fill_time", 1, COUNT, "ms", "How long it takes until fill_count tokens are added.")
    fill_count: int = setting("fill_count", 1, COUNT, "tokens", "How many tokens are added in fill_time.")
    freeze_time_ms: int = setting(
        "freeze_time",
        -1,
        integer(-1, INT_MAX),
        "ms",
        "How often the probability of closing connections while tokens are left is adjusted. -1: never.",
    )
    drop_increase: float = setting(
        "drop_increase", 0.02, fraction, "0 to 1", "Added to that probability while no token is left."
    )
    drop_decrease: float = setting(
        "drop_decrease", 0.002, fraction, "0 to 1", "Subtracted from it while few tokens are missing."
    )
    decrease_ratio: float = setting("decrease_ratio", 0, fraction, "0 to 1", "Which part of the tokens counts as few.")
    weight_enabled: bool = setting(
        "weight_enabled",
        False,
        BOOLEAN,
        "true/false",
        "true: a session costs one of the three weights below, and tokens and fill_count count new global sessions.",
    )
    global_session_weight: int = setting(
        "global_session_weight", 3, COUNT, "tokens", "The cost of a new session of the whole ensemble."
    )
    local_session_weight: int = setting(
        "local_session_weight", 1, COUNT, "tokens", "The cost of a new session that only one server knows."
    )
    renew_session_weight: int = setting(
        "renew_session_weight", 2, COUNT, "tokens", "The cost of a client that resumes its session."
    )


@frozen(kw_only=True)
class RequestThrottleSettings:
    """The limit on requests in process."""

    max_requests: int = setting(
        "request_throttle_max_requests",
        0,
        COUNT_OR_0,
        "requests",
        "How many requests of all connections may be in process. Beyond it, requests wait for their turn. 0: "
        "no throttle.",
    )
    stall_time_ms: int = setting(
        "request_throttle_stall_time",
        100,
        COUNT,
        "ms",
        "How often waiting requests are checked when no other request completes.",
    )
    drop_stale: bool = setting(
        "request_throttle_drop_stale",
        True,
        BOOLEAN,
        "true/false",
        "true: stale requests that wait are dropped with their connection. false: they are only counted.",
    )
    stale_connection_check: bool = setting(
        "request_stale_connection_check",
        True,
        BOOLEAN,
        "true/false",
        "Whether a request is stale when its connection is closed.",
    )
    stale_latency_check: bool = setting(
        "request_stale_latency_check",
        False,
        BOOLEAN,
        "true/false",
        "Whether a request is stale when it has waited longer than its session's timeout.",
    )
    throttled_op_wait_time_ms: int = setting(
        "throttled_op_wait_time",
        0,
        COUNT_OR_0,
        "ms",
        "A request that has waited longer is answered THROTTLEDOP and not executed. 0: no limit.",
    )
    large_request_threshold_bytes: int = setting(
        "largeRequestThreshold",
        -1,
        integer(-1, INT_MAX),
        "bytes",
        "A longer request counts as large. 0 or -1: none does.",
    )
    large_requests_bytes_max: int = setting(
        "largeRequestMaxBytes",
        100 * 1024 * 1024,
        BYTES,
        "bytes",
        "The limit on all large requests in process. A connection that sends one more is closed.",
    )
