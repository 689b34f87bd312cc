"""The throttles. Names, defaults and meaning are ZooKeeper's.

Not here: what they do (`zab.member.clients.connection_throttle`, `zab.member.requests.request_throttle`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, BYTES, COUNT, COUNT_OR_0, INT_MAX, fraction, integer, setting


@frozen(kw_only=True)
class ConnectionThrottleSettings:
    """How many sessions may be asked for."""

    tokens: int = setting(
        "tokens",
        0,
        COUNT_OR_0,
        "sessions",
        "That may be asked for in a burst; a connection that asks beyond is closed. 0 is off.",
    )
    fill_time_ms: int = setting("fill_time", 1, COUNT, "ms", "How long it takes until fill_count tokens are back.")
    fill_count: int = setting("fill_count", 1, COUNT, "tokens", "That come back in fill_time.")
    freeze_time_ms: int = setting(
        "freeze_time",
        -1,
        integer(-1, INT_MAX),
        "ms",
        "How often the chance to be closed in spite of tokens is adapted to the load; -1: there is none.",
    )
    drop_increase: float = setting(
        "drop_increase", 0.02, fraction, "0 to 1", "Added to that chance while no token is left."
    )
    drop_decrease: float = setting(
        "drop_decrease", 0.002, fraction, "0 to 1", "Taken from it while few tokens are missing."
    )
    decrease_ratio: float = setting("decrease_ratio", 0, fraction, "0 to 1", "Of the tokens, how many missing are few.")
    weight_enabled: bool = setting(
        "weight_enabled",
        False,
        BOOLEAN,
        "true/false",
        "true: the three weights below are what a session costs, and tokens and fill_count count new global sessions.",
    )
    global_session_weight: int = setting(
        "global_session_weight", 3, COUNT, "tokens", "Of a new session: the whole ensemble has it."
    )
    local_session_weight: int = setting(
        "local_session_weight", 1, COUNT, "tokens", "Of a new session that one server alone knows."
    )
    renew_session_weight: int = setting(
        "renew_session_weight", 2, COUNT, "tokens", "Of a client that comes back to its session."
    )


@frozen(kw_only=True)
class RequestThrottleSettings:
    """How many requests may be in process."""

    max_requests: int = setting(
        "request_throttle_max_requests",
        0,
        COUNT_OR_0,
        "requests",
        "In process at once, of all connections; beyond, each waits for its turn. 0 is off.",
    )
    stall_time_ms: int = setting(
        "request_throttle_stall_time",
        100,
        COUNT,
        "ms",
        "How often those that wait are looked at although none is done.",
    )
    drop_stale: bool = setting(
        "request_throttle_drop_stale",
        True,
        BOOLEAN,
        "true/false",
        "Of those that wait the stale ones are dropped, with their connection; false: they are only counted.",
    )
    stale_connection_check: bool = setting(
        "request_stale_connection_check", True, BOOLEAN, "true/false", "A request is stale when its connection is gone."
    )
    stale_latency_check: bool = setting(
        "request_stale_latency_check",
        False,
        BOOLEAN,
        "true/false",
        "A request is stale when it has waited for longer than its session's timeout.",
    )
    throttled_op_wait_time_ms: int = setting(
        "throttled_op_wait_time",
        0,
        COUNT_OR_0,
        "ms",
        "Who has waited longer for a place is answered THROTTLEDOP, and nothing is done. 0 is off.",
    )
    large_request_threshold_bytes: int = setting(
        "largeRequestThreshold", -1, integer(-1, INT_MAX), "bytes", "A longer request is a large one; 0 or -1: none is."
    )
    large_requests_bytes_max: int = setting(
        "largeRequestMaxBytes",
        100 * 1024 * 1024,
        BYTES,
        "bytes",
        "Of all large requests in process; a connection that sends one beyond is closed.",
    )
