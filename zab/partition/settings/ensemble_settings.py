"""The ACLs of the znodes of brokers, under Kafka's key `zookeeper.set.acl`.

Not here: TLS and the login (`zab.configuration.blocks.ensemble`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.blocks.ensemble import EnsembleSettings, ZnodeAcl
from zab.configuration.fields import BOOLEAN, setting

SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""What only brokers may read: Kafka's `ZkData.SensitiveRootPaths`. The first has what is derived from passwords."""


@frozen(kw_only=True)
class BrokerEnsembleSettings(EnsembleSettings):
    """TLS and login at the coordination service, and the ACLs of znodes."""

    sets_acl: bool = setting(
        *("zookeeper.set.acl", False, BOOLEAN, "true/false"),
        "Whether only brokers, that is, clients with the same login or the same certificate subject, may change the "
        "znodes that brokers create. Others may read them, except for what is derived from passwords.",
    )

    def acl_of(self, path: str) -> ZnodeAcl:
        """The permissions of a znode that a broker creates. `path` is without the chroot."""
        if not self.sets_acl:
            return ZnodeAcl.OPEN
        is_sensitive = any(path == root or path.startswith(f"{root}/") for root in SENSITIVE)
        return ZnodeAcl.PRIVATE if is_sensitive else ZnodeAcl.READABLE

    def why_unusable(self) -> str | None:
        """What is wrong, with its key first; None if nothing."""
        nobody = self.why_nobody("zookeeper.set.acl", "broker") if self.sets_acl else None
        return nobody or super().why_unusable()
