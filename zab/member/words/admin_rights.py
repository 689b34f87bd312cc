"""Permissions on the commands of the admin server.

    Authorization: digest user:password    the identity that the password proves, perhaps the superuser

The superuser may use all commands. Another user needs all permissions on `/` from entries for that user, in an ACL that
cannot be changed without authentication. A made-up password also proves an identity, so `world:anyone` grants nothing
here; and if `world` or `ip` has ADMIN on `/`, or ACLs are switched off, anybody can add an entry for themselves,
so only the superuser is accepted.

Not here: HTTP (`zab.server.admin`), and which commands need permission (`admin_commands`).
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
"""Schemes whose entries apply without authentication."""
_BITS: Final = tuple(1 << number for number in range(ALL.bit_length()) if ALL & 1 << number)


def identities_of(authorization: str, config: Config) -> tuple[Identity, ...]:
    """The identities that the header proves; empty if none."""
    scheme, *proofs = authorization.split(" ")
    if len(proofs) != 1 or scheme != "digest" or not config.access.digest_enabled:
        return ()
    identity = digest_identity(proofs[0].encode(), config.access.digest_algorithm)
    is_super = config.access.super_digest is not None and identity[1] == config.access.super_digest.encode()
    return (identity, SUPER) if is_super else (identity,)


def may_have_all(root: AclList, identities: Collection[Identity], *, skip_acl: bool) -> bool:
    """Whether a client is the superuser, or has all permissions by an ACL of `/` that only named users can change."""
    if SUPER in identities:
        return True
    entries = explicit(root)
    if skip_acl or any(granted & ADMIN and scheme in _UNPROVEN for granted, scheme, _ in entries):
        return False
    naming = tuple(entry for entry in entries if entry[1] not in _UNPROVEN)
    # Bit by bit: with a mask of several bits, an entry that grants one of them would be enough.
    return bool(naming) and all(permits(naming, bit, identities) for bit in _BITS)
