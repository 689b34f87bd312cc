"""The settings for four-letter words, admin commands and metrics.

Not here: what commands do (`zab.member.words`, `zab.server.admin`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, COUNT_OR_0, setting, words

PROMETHEUS: Final = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

_PROVIDERS = {
    PROMETHEUS: True,
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider": False,
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider": False,
}


def _provider(text: str) -> bool:
    """Whether the provider is Prometheus; Java classes cannot be loaded here."""
    if text not in _PROVIDERS:
        raise ValueError(f"{text!r} cannot be loaded here: {PROMETHEUS} stands for this server's own")
    return _PROVIDERS[text]


AUDIT_LOGGER: Final = "org.apache.zookeeper.audit.Slf4jAuditLogger"


def _audit_logger(text: str) -> str:
    """Accept only ZooKeeper's class that writes lines; Java classes cannot be loaded here."""
    if text != AUDIT_LOGGER:
        raise ValueError(f"{text!r} cannot be loaded here: only {AUDIT_LOGGER}, which stands for this server's own log")
    return text


@frozen(kw_only=True)
class CommandSettings:
    """Four-letter words, commands of the admin server, and metrics."""

    four_letter_words: frozenset[str] = setting(
        "4lw.commands.whitelist",
        frozenset({"srvr"}),
        words,
        "words",
        "The words that are answered; `*` means all. srvr always is, as in ZooKeeper. Other words show "
        "clients and paths to anyone.",
    )
    snapshot_enabled: bool = setting(
        "admin.snapshot.enabled", True, BOOLEAN, "true/false", "Whether the command snapshot is available."
    )
    restore_enabled: bool = setting(
        "admin.restore.enabled", True, BOOLEAN, "true/false", "Whether the command restore is available."
    )
    restore_timeout_ms: int = setting(
        "admin.restore.timeoutInMS",
        600_000,
        COUNT,
        "ms",
        "zab only. How long the upload of a snapshot for restore may take.",
    )
    rate_limiter_interval_ms: int = setting(
        "admin.rateLimiterIntervalInMS",
        300_000,
        COUNT_OR_0,
        "ms",
        "The time between two snapshot commands, and between two restore commands.",
    )
    exports_metrics: bool = setting(
        "metricsProvider.className",
        False,
        _provider,
        "class",
        "PrometheusMetricsProvider opens the metrics port. The other providers do not.",
        shown="DefaultMetricsProvider",
    )
    audit_logger: str = setting(
        "audit.impl.class",
        AUDIT_LOGGER,
        _audit_logger,
        "class",
        "Only ZooKeeper's own class, which stands for zab's audit log. Any other refuses the start.",
    )
