"""Sessions: those that one server alone knows, and connections that have none."""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, setting


@frozen(kw_only=True)
class SessionSettings:
    """Read-only mode, local sessions, and connections without a session."""

    read_only_mode_enabled: bool = setting(
        "readonlymode.enabled",
        False,
        BOOLEAN,
        "true/false",
        "A server without a quorum lets clients read that ask for it: what it had when it lost the others.",
    )
    local_sessions_enabled: bool = setting(
        "localSessionsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "A session is known to its own server alone: who comes and reads writes nothing. The same on every member.",
    )
    local_sessions_upgrading_enabled: bool = setting(
        "localSessionsUpgradingEnabled",
        False,
        BOOLEAN,
        "true/false",
        "The first ephemeral of a local session makes it one of the ensemble; false: it is refused.",
    )
    sessionless_timeout_ms: int = setting(
        "nio.sessionlessCnxnTimeout", 10_000, COUNT, "ms", "A connection that never says who it is, is closed."
    )
