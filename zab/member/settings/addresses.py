"""The keys of members with several addresses, as fields that every `Config` has. Names and meaning are ZooKeeper's.

Not here: dialling (`zab.host.process.dial`), and the lines that have them (`zab.configuration.dynamic`).
"""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, setting
from zab.member.settings.quorum_tls import QuorumTlsSettings


@frozen(kw_only=True)
class AddressSettings(QuorumTlsSettings):
    """See the module."""

    multi_address_enabled: bool = setting(
        "multiAddress.enabled",
        False,
        BOOLEAN,
        "true/false",
        "Whether a server line may have several addresses: one on each network.",
    )
    multi_address_reachability_check: bool = setting(
        "multiAddress.reachabilityCheckEnabled",
        True,
        BOOLEAN,
        "true/false",
        "true: addresses are tried in the order of the line; false: all at once.",
    )
    multi_address_reachability_timeout_ms: int = setting(
        "multiAddress.reachabilityCheckTimeoutMs",
        1000,
        COUNT,
        "ms",
        "An address that has not answered by then, or has refused: the next is tried beside it.",
    )

    @property
    def next_address_after_seconds(self) -> float:
        """How long a member's address may be silent before the next one is tried beside it."""
        return self.multi_address_reachability_timeout_ms / 1000 if self.multi_address_reachability_check else 0.0
