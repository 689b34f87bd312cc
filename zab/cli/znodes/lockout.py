"""An ACL that locks its caller out, or everybody, is refused, unless the command says `--force`.

The first gives the caller no permission at all: only other users can then read or change the znode, or nobody. Two
mistakes lead to it: an entry of the scheme `digest` with a password in place of the hash, which matches nobody, and an
entry for a user other than that of the session. The second has no entry with ADMIN: nobody but the superuser can ever
change it again.

The server says who the caller is (`Client.who_am_i`). Servers before ZooKeeper 3.7 do not; there only the first mistake
is found.
"""

import base64
from collections.abc import Collection
from ipaddress import ip_address, ip_network
from typing import Annotated, Final

import typer

from zab.client import Acl, Client, Identity, Permission, UnimplementedError, ZabError

__all__ = ["ForceOption", "LockedOutError", "refuse_lockout"]

ForceOption = Annotated[bool, typer.Option("--force", help="Set an ACL that gives you no permission, or nobody ADMIN.")]

_HASH_BYTES_MIN: Final = 16
"""Length of an MD5 hash, the shortest that `DigestAuthenticationProvider.digestAlg` may name."""
_LISTED_BY_NAME: Final = frozenset({"digest", "x509", "sasl"})
"""Schemes for which `who_am_i` lists all identities of the session."""


class LockedOutError(ZabError):
    """The ACL gives its caller no permission, or nobody ADMIN."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; nothing was changed; --force sets it all the same")


async def refuse_lockout(zk: Client, acl: Collection[Acl]) -> None:
    """Raises LockedOutError if an entry matches nobody, none gives ADMIN, or none matches the caller."""
    for entry in acl:
        user, _, text = entry.id.partition(":")
        if entry.scheme == "digest" and not _is_hash(text):
            raise LockedOutError(
                f"digest:{user}:…: a password stands where its hash belongs, so this entry matches nobody;"
                f" --auth digest:{user}:PASSWORD with the ACL auth::cdrwa makes it"
            )
    has_admin = any(Permission.ADMIN in entry.permissions for entry in acl)
    is_open = any(entry.scheme in ("world", "auth") and entry.permissions for entry in acl)
    if has_admin and is_open:
        return
    try:
        callers = await zk.who_am_i()
    except UnimplementedError:
        callers = []
    if any(caller.scheme == "super" for caller in callers):
        return
    if callers and not is_open and not any(entry.permissions and _may_match(entry, callers) for entry in acl):
        raise LockedOutError("the ACL gives you no permission (zab whoami says who you are)")
    if not has_admin:
        raise LockedOutError("the ACL gives nobody ADMIN, so only the superuser could change it again")


def _may_match(entry: Acl, callers: Collection[Identity]) -> bool:
    """Whether an entry matches one of these identities. True for a scheme that is unknown here, since it may."""
    if entry.scheme == "digest":
        # The server names only the user, not the hash.
        return (entry.scheme, entry.id.partition(":")[0]) in callers
    if entry.scheme == "ip":
        return any(_lies_in(caller.user, entry.id) for caller in callers if caller.scheme == "ip")
    return entry.scheme not in _LISTED_BY_NAME or (entry.scheme, entry.id) in callers


def _lies_in(address: str, network: str) -> bool:
    try:
        return ip_address(address) in ip_network(network, strict=False)
    except ValueError:
        # Not an address: the server says what is wrong with it.
        return True


def _is_hash(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) >= _HASH_BYTES_MIN
    except ValueError:
        return False
