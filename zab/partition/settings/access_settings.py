"""The authorizer of a broker, under Kafka's keys: whether there are access lists, and who is above them.

Not here: the lists (`zab.partition.access`), which are in znodes.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BOOLEAN, setting
from zab.partition.access.acls import Rules

AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""Kafka's name for lists in the znodes of its coordination service."""


def _authorizer(text: str) -> str | None:
    if text not in ("", AUTHORIZER):
        raise ValueError(f"only {AUTHORIZER} is supported, whose lists are in the znodes")
    return text or None


def _principals(text: str) -> frozenset[str]:
    """`User:alice;User:CN=bob,O=example`."""
    found = frozenset(word.strip() for word in text.split(";") if word.strip())
    for each in found:
        kind, _, name = each.partition(":")
        if not (kind and name):
            raise ValueError(f"{each!r} is no principal, such as User:alice; several have ; between them")
        if name == "*":
            raise ValueError(f"{each} is nobody: a super user is named")
    return found


@frozen(kw_only=True)
class AccessSettings:
    """The authorizer."""

    authorizer: str | None = setting(
        *("authorizer.class.name", None, _authorizer, "class"),
        f"{AUTHORIZER}: access lists decide what clients may do. None: every client may do everything.",
    )
    super_users: frozenset[str] = setting(
        *("super.users", frozenset(), _principals, "User:NAME;…"),
        "Principals that may do everything, whatever the access lists say. Several are separated by semicolons.",
        shown="none",
    )
    allows_without_list: bool = setting(
        *("allow.everyone.if.no.acl.found", False, BOOLEAN, "true/false"),
        "true: a resource that no access list covers is open to every client.",
    )

    @property
    def rules(self) -> Rules | None:
        """What the lists are read with; None: there is no authorizer."""
        if self.authorizer is None:
            return None
        return Rules(super_users=self.super_users, allows_without_list=self.allows_without_list)

    def why_unusable(self) -> str | None:
        """What is wrong, with its key first; None if nothing."""
        if self.authorizer is None and self.super_users:
            return f"super.users: it has no effect without authorizer.class.name={AUTHORIZER}"
        return None
