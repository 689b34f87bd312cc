"""Members with several addresses. Names and meaning are ZooKeeper's.

Not here: dialling (`zab.host.loop.dial`), and the lines that have them (`zab.configuration.dynamic`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, setting


@frozen(kw_only=True)
class AddressSettings:
    """Which of several addresses of a member is dialled, and when the next one is tried."""

    enabled: bool = setting(
        "enabled",
        False,
        BOOLEAN,
        "true/false",
        "Whether a server line may have several addresses, one for each network.",
    )
    reachability_check: bool = setting(
        "reachabilityCheckEnabled",
        True,
        BOOLEAN,
        "true/false",
        "true: addresses are tried in the order of the line. false: all at once.",
    )
    reachability_timeout_ms: int = setting(
        "reachabilityCheckTimeoutMs",
        1000,
        COUNT,
        "ms",
        "If an address has not answered in this time, or has refused, the next one is tried in parallel.",
    )

    @property
    def next_address_after_seconds(self) -> float:
        """How long a member's address may be silent before the next one is tried beside it."""
        return self.reachability_timeout_ms / 1000 if self.reachability_check else 0.0
