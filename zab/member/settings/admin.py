"""The keys of the admin server, of the metrics over HTTP, and of tracing, as fields that every `Config` has. Names and
meaning are ZooKeeper's, but for tracing, which it has not.

Not here: what they do (`zab.server.admin`, `zab.server.exposition`), and the rules between them (`config`).
"""

from __future__ import annotations

import re

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, COUNT_OR_0, INT_MAX, fraction, integer, setting
from zab.member.settings.clients import client_host
from zab.member.settings.journal import JournalSettings

PROMETHEUS = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

_PROVIDERS = {
    PROMETHEUS: True,
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider": False,
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider": False,
}


def _provider(text: str) -> bool:
    """Whether it is Prometheus; no class of Java can be loaded here."""
    if text not in _PROVIDERS:
        raise ValueError(f"{text!r} cannot be loaded here: {PROMETHEUS} stands for this server's own")
    return _PROVIDERS[text]


def _path(text: str) -> str:
    if not text.startswith("/") or text.endswith("/") or not text.isascii() or any(each in text for each in " ?#%{}"):
        raise ValueError(f"{text!r} is no path that begins with / and does not end with it")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower().removesuffix(".") for name in text.split(","))
    if not all(re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name) for name in names):
        raise ValueError(f"{text!r} is no list of names, with commas between them and without ports")
    return names


@frozen(kw_only=True)
class AdminSettings(JournalSettings):
    """See the module."""

    admin_enabled: bool = setting(
        "admin.enableServer", True, BOOLEAN, "true/false", "Commands over HTTP. A port that is taken is a warning."
    )
    admin_address: str = setting(
        "admin.serverAddress",
        "127.0.0.1",
        client_host,
        "host",
        "This machine alone, where ZooKeeper's is 0.0.0.0: many commands ask nobody who he is.",
    )
    admin_host_names: tuple[str, ...] = setting(
        "admin.hostNames",
        (),
        _names,
        "names",
        "Ours. Names by which commands may be asked for, beside addresses, `localhost`, and those of the server lines, "
        "of the machine and of `admin.serverAddress`.",
        shown="none",
    )
    admin_port: int = setting("admin.serverPort", 8080, integer(0, 65535), "port", "0 is none.")
    admin_idle_timeout_ms: int = setting(
        "admin.idleTimeout", 30_000, COUNT, "ms", "A connection on which nothing moves is closed after it."
    )
    admin_command_url: str = setting("admin.commandURL", "/commands", _path, "path", "Before the name of a command.")
    admin_max_connections: int = setting(
        "admin.maxConnections",
        32,
        integer(1, INT_MAX),
        "connections",
        "Ours. At once, of each of the two ports; further ones are closed.",
    )
    admin_snapshot_enabled: bool = setting(
        "admin.snapshot.enabled", True, BOOLEAN, "true/false", "Whether the command snapshot may be asked for."
    )
    admin_restore_enabled: bool = setting(
        "admin.restore.enabled", True, BOOLEAN, "true/false", "Whether the command restore may be given a snapshot."
    )
    admin_restore_timeout_ms: int = setting(
        "admin.restore.timeoutInMS",
        600_000,
        COUNT,
        "ms",
        "Ours. For all of a snapshot that is restored to come, however it trickles.",
    )
    admin_rate_limiter_interval_ms: int = setting(
        "admin.rateLimiterIntervalInMS", 300_000, COUNT_OR_0, "ms", "Between two snapshots; between two to be restored."
    )
    admin_port_unification: bool = setting(
        "admin.portUnification", False, BOOLEAN, "true/false", "true: HTTPS is taken on the port, too."
    )
    admin_force_https: bool = setting(
        "admin.forceHttps", False, BOOLEAN, "true/false", "true: HTTPS alone is taken on the port."
    )
    admin_needs_client_auth: bool = setting(
        "admin.needClientAuth", False, BOOLEAN, "true/false", "true: who speaks HTTPS has to show a certificate."
    )
    exports_metrics: bool = setting(
        "metricsProvider.className",
        False,
        _provider,
        "class",
        f"{PROMETHEUS.rpartition('.')[2]} opens the port of metrics; the others do not.",
        shown="DefaultMetricsProvider",
    )
    metrics_host: str = setting(
        "metricsProvider.httpHost", "0.0.0.0", client_host, "host", "Where Prometheus reaches this member."
    )
    metrics_port: int = setting("metricsProvider.httpPort", 7000, integer(0, 65535), "port", "0 is none.")
    exports_process: bool = setting(
        "metricsProvider.exportJvmInfo",
        True,
        BOOLEAN,
        "true/false",
        "Of the process and its interpreter: memory, processor time, descriptors, collections.",
    )

    tracing_sample_ratio: float = setting(
        "tracing.sampleRatio", 0.0, fraction, "0 to 1", "Ours. Of so many writes a span goes to OpenTelemetry; 0: none."
    )

    @property
    def has_tls_admin(self) -> bool:
        """Whether the admin port takes HTTPS."""
        return self.admin_enabled and (self.admin_force_https or self.admin_port_unification)
