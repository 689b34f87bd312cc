"""What the permission lists of one request may take, all parts of a multi together."""

from datatree.acl import AclList, fix_up, size_of
from datatree.prepare_settings import PrepareSettings
from datatree.requests import WireAcl
from datatree.write_request import Asked

__all__ = ["AclBudget"]


class AclBudget:
    """Makes lists to store, each from the one that a client sent."""

    __slots__ = ("_settings", "bytes_left", "entries_count")

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self.bytes_left = 0
        """How many bytes of lists the request that is being prepared may still store."""
        self.entries_count = 0
        """How many entries of lists were looked at, in all requests."""

    def fix_up(self, acl: tuple[WireAcl, ...] | None, request: Asked) -> AclList:
        """The list to store (`datatree.acl.fix_up`). Raises Refused(INVALIDACL)."""
        settings = self._settings
        self.entries_count += min(len(acl or ()), settings.acl_count_max)
        fixed = fix_up(acl, request[4], settings.acl_schemes, self.bytes_left, settings.acl_count_max)
        self.bytes_left -= size_of(fixed or ())
        return fixed
