"""Settings of local sessions, read-only mode, and connections without a session."""

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
        "Whether a server without a quorum lets clients that ask for it read what it has.",
    )
    local_sessions_enabled: bool = setting(
        "localSessionsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Whether a session is known only to its own server, so that clients that only read write nothing. The "
        "same on all members.",
    )
    local_sessions_upgrading_enabled: bool = setting(
        "localSessionsUpgradingEnabled",
        False,
        BOOLEAN,
        "true/false",
        "true: the first ephemeral makes a local session global. false: the ephemeral is refused.",
    )
    sessionless_timeout_ms: int = setting(
        "nio.sessionlessCnxnTimeout", 10_000, COUNT, "ms", "How long a connection may stay without a session."
    )
