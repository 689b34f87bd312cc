"""What the configuration allows writes to do, and their limits (`datatree.prepare`)."""

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from datatree.acl import ACL_BYTES_MAX, ACL_COUNT_MAX, SCHEMES, AclList, permits
from datatree.errors import ErrorCode, Refused
from datatree.write_request import Asked

__all__ = ["MULTI_PARTS_MAX", "HandOver", "PrepareSettings", "Reconfigure"]

MULTI_PARTS_MAX: Final = 10_000

Reconfigure: TypeAlias = Callable[[bytes | None, bytes | None, bytes | None, int, int], bytes]
"""(joining, leaving, members, requested version, zxid) -> the text of the next configuration. Raises Refused."""


HandOver: TypeAlias = Callable[[int, int], None]
"""(server that is to lead, zxid): hand the lead over once this zxid is applied. Raises Refused."""


def _always() -> bool:
    return True


@frozen
class PrepareSettings:
    """What the configuration allows writes to do, and their limits. These settings only matter on the leader, never
    when a transaction is applied.

    `extended_types` allows TTLs, `create_if_not_exists` the operation of that name, `keeper_extensions` ClickHouse
    Keeper's others, `sequence_64` 64-bit sequence numbers once the 32-bit ones are used up. `enforce_quota` enforces
    hard limits, `skip_acl` turns permissions off, `local_sessions` lets sessions write that are not in the tree.
    `ephemeral_path_bytes_max` bounds the paths of one session's ephemerals, with four bytes added to each; the default
    leaves them room in a frame of jute.maxbuffer's default. `acl_bytes_max` bounds the lists of one request, all parts
    of a multi together, after `auth` was replaced in them, `acl_count_max` the entries of each. `multi_parts_max`
    bounds the parts of a multi: more are refused with BADARGUMENTS. Each znode that a removeRecursive removes counts as
    a part, and the paths may have `removed_bytes_max` bytes, with four added to each: more are NOTEMPTY.
    `is_removed_in_multis` says whether all members support a removeRecursive inside a multi. `acl_schemes` are the
    schemes that a list may use besides world and auth. `reconfigure` makes the text of the next configuration,
    `hand_over` takes the lead away from this member; None if unsupported.
    """

    extended_types: bool = False
    create_if_not_exists: bool = False
    keeper_extensions: bool = False
    sequence_64: bool = False
    enforce_quota: bool = False
    skip_acl: bool = False
    local_sessions: bool = False
    ephemeral_path_bytes_max: int = 0xF0000
    acl_bytes_max: int = ACL_BYTES_MAX
    acl_count_max: int = ACL_COUNT_MAX
    multi_parts_max: int = MULTI_PARTS_MAX
    removed_bytes_max: int = 0xF0000
    is_removed_in_multis: Callable[[], bool] = _always
    acl_schemes: frozenset[bytes] = SCHEMES
    reconfigure: Reconfigure | None = None
    hand_over: HandOver | None = None

    def permit(self, acl: AclList, mask: int, request: Asked) -> None:
        """Raise NOAUTH unless `acl` grants a bit of `mask` to an identity of the connection that asks."""
        if not permits(acl, mask, request[4]) and not self.skip_acl:
            raise Refused(ErrorCode.NOAUTH)
