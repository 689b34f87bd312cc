"""Which rows of access lists a filter means, as Kafka's admin clients describe and delete them.

    filter.why_invalid()            why it is none; None: it is one
    filter.matches(resource, acl)   whether it means this row of this list

    pattern type    of lists with a name
    any             those of exactly this name, literal and prefixed
    match           all that are about the resource of this name: also those of `*`, and of prefixes of it
    literal         the literal one of exactly this name
    prefixed        the prefixed one of exactly this name

Without a name, all names are meant.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.partition.access.acls import WILDCARD, Acl, Pattern, Resource

ANY: Final = 1
"""The number of `any` as type of resource, pattern, operation and permission."""
MATCH: Final = 2
DENY, ALLOW = 2, 3
TYPES_MAX, PATTERNS_MAX, OPERATIONS_MAX, PERMISSIONS_MAX = 7, 4, 15, 3
"""The highest numbers that Kafka knows. No list here has types, or rows, of those that this broker does not know."""


@frozen
class AclFilter:
    """Numbers are Kafka's; None is any."""

    type: int
    pattern: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def why_invalid(self) -> str | None:
        """Why this is no filter."""
        for what, number, highest in (
            ("resource type", self.type, TYPES_MAX),
            ("pattern type", self.pattern, PATTERNS_MAX),
            ("operation", self.operation, OPERATIONS_MAX),
            ("permission type", self.permission, PERMISSIONS_MAX),
        ):
            if not ANY <= number <= highest:
                return f"there is no {what} {number}"
        return None

    def matches(self, resource: Resource, acl: Acl) -> bool:
        """See the docstring of the module."""
        return self._matches_resource(resource) and self._matches_row(acl)

    def _matches_resource(self, resource: Resource) -> bool:
        if self.type not in (ANY, resource.type) or self.pattern not in (ANY, MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != MATCH:
            return self.name == resource.name
        if resource.pattern is Pattern.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name in (self.name, WILDCARD)

    def _matches_row(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, ALLOW if acl.allows else DENY)
        )
