"""Who may have which command of the admin server.

    Authorization: digest user:password    the identity that the password proves; the superuser, if it is his

The superuser may have everything. Anybody else needs all permissions on `/` from entries that name him, in a list that
nobody can change without a proof of who he is. A password that was made up proves an identity, too, so `world:anyone`
gives nobody anything here; and where `world` or `ip` has ADMIN on `/`, or ACLs are switched off, anybody can add an
entry that names himself, so only the superuser is left.

Not here: HTTP (`zab.server.admin`), and which commands ask (`admin_commands`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from datatree.acl import ADMIN, ALL, SUPER, AclList, Identity, digest_identity, explicit, permits
from zab.member.settings.config import Config

NOT_AUTHORIZED: Final = (
    "Not authorized: log in as the superuser (DigestAuthenticationProvider.superDigest), or as somebody whom an entry "
    "of the ACL of / gives all permissions, while world:anyone and ip entries have no ADMIN there"
)
_UNPROVEN: Final = frozenset({b"world", b"ip"})
"""Schemes whose entries hold for somebody who has proven nothing."""
_BITS: Final = tuple(1 << number for number in range(ALL.bit_length()) if ALL & 1 << number)


def identities_of(authorization: str, config: Config) -> tuple[Identity, ...]:
    """What the header proves; empty: nothing."""
    scheme, *proofs = authorization.split(" ")
    if len(proofs) != 1 or scheme != "digest" or not config.access.digest_enabled:
        return ()
    identity = digest_identity(proofs[0].encode(), config.access.digest_algorithm)
    is_super = config.access.super_digest is not None and identity[1] == config.access.super_digest.encode()
    return (identity, SUPER) if is_super else (identity,)


def may_have_all(root: AclList, identities: Collection[Identity], *, skip_acl: bool) -> bool:
    """Whether somebody is the superuser, or named by a list of `/` that only named ones can change."""
    if SUPER in identities:
        return True
    entries = explicit(root)
    if skip_acl or any(granted & ADMIN and scheme in _UNPROVEN for granted, scheme, _ in entries):
        return False
    naming = tuple(entry for entry in entries if entry[1] not in _UNPROVEN)
    # One bit after the other: an entry that grants any of several would do for all of them.
    return bool(naming) and all(permits(naming, bit, identities) for bit in _BITS)
