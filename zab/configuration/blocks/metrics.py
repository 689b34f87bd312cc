"""The port of metrics.

Not here: whether it is open: each service says so by keys of its own.
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, host_name, integer, setting


@frozen(kw_only=True)
class MetricsSettings:
    """Where metrics are scraped, and whether those of the process are among them."""

    host: str = setting("httpHost", "0.0.0.0", host_name, "host", "The address that Prometheus scrapes.")
    port: int = setting("httpPort", 7000, integer(0, 65535), "port", "The port. 0: none.")
    exports_process: bool = setting(
        "exportJvmInfo",
        True,
        BOOLEAN,
        "true/false",
        "Whether metrics of the process and its interpreter are exported: memory, processor time, "
        "descriptors, garbage collections.",
    )
