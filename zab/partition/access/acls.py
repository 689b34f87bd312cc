"""Access lists: which operations a principal may do on which resource, as Kafka's AclAuthorizer decides.

    decide(lists, rules, asked) -> Decision         one question, one answer
    decide_any(lists, rules, asked) -> Decision     is there any resource of this type on which it may?

The rules, in this order:

1. A super user may do everything.
2. A resource whose list cannot be read is closed: `UNREADABLE` denies.
3. A Deny that matches denies, whatever allows.
4. An Allow that matches allows. Read, Write, Delete and Alter include Describe; AlterConfigs includes DescribeConfigs.
5. Where no list is about the resource, `allow.everyone.if.no.acl.found` decides; otherwise it is denied.

A list is about a resource if its name is that of the resource or `*`, or, for a prefixed one, if the resource's name
begins with it. A list that is there and empty is a list.

Not here: who the principal is (`principals`), which requests ask for what (`zab.partition.guards`), the znodes of lists
(`acl_znodes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from attrs import frozen

WILDCARD: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type Cluster."""


class _Named(IntEnum):
    """Kafka's numbers on the wire, and its names in znodes."""

    @property
    def text(self) -> str:
        """Such as `TransactionalId`."""
        return "".join(map(str.capitalize, self.name.split("_")))


class ResourceType(_Named):
    """What a list can be about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(_Named):
    """What can be done."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""What can be done with a resource; a list may also have `ALL`."""


class Pattern(IntEnum):
    """How the name of a list is meant; Kafka's numbers."""

    LITERAL = 3
    PREFIXED = 4


class Decision(Enum):
    """The answer, with its reason."""

    SUPER_USER = "super user"
    ALLOWED = "allowed"
    NO_LIST = "no list, and none is needed"
    DENIED = "a list denies it"
    NOT_ALLOWED = "no list allows it"
    UNREADABLE = "a list cannot be read"

    @property
    def allows(self) -> bool:
        return self in (Decision.SUPER_USER, Decision.ALLOWED, Decision.NO_LIST)


@frozen
class Resource:
    """What a list is about."""

    type: ResourceType
    pattern: Pattern
    name: str

    def __str__(self) -> str:
        prefix = "" if self.pattern is Pattern.LITERAL else "prefixed "
        return f"{prefix}{self.type.text} {self.name!r}"


@frozen
class Acl:
    """One row of a list."""

    principal: str
    host: str
    operation: Operation
    allows: bool

    def is_about(self, asked: Asked) -> bool:
        """Whether principal and host are those that are asked about."""
        return self.principal in (ANY_PRINCIPAL, asked.principal) and self.host in (WILDCARD, asked.host)


@frozen
class Asked:
    """May this principal, at this address, do this?"""

    principal: str
    host: str
    operation: Operation
    type: ResourceType
    name: str


@frozen
class Rules:
    """What the file of the broker says."""

    super_users: frozenset[str] = frozenset()
    allows_without_list: bool = False


Rows: TypeAlias = frozenset[Acl] | None
"""The rows of a list; None: it cannot be read."""


class AccessLists:
    """All lists. What is about one resource is found without looking at the others."""

    def __init__(self, lists: Mapping[Resource, Rows] | None = None) -> None:
        self._literal: dict[tuple[ResourceType, str], Rows] = {}
        self._prefixed: dict[tuple[ResourceType, str], Rows] = {}
        self.change_count = 0
        """Rises with every change: what was decided before may be different now."""
        for resource, rows in (lists or {}).items():
            self.put(resource, rows)

    def __len__(self) -> int:
        return len(self._literal) + len(self._prefixed)

    def __iter__(self) -> Iterator[tuple[Resource, Rows]]:
        """Each list, in no order."""
        for (type_, name), rows in self._literal.items():
            yield Resource(type_, Pattern.LITERAL, name), rows
        for (type_, name), rows in self._prefixed.items():
            yield Resource(type_, Pattern.PREFIXED, name), rows

    def _of(self, pattern: Pattern) -> dict[tuple[ResourceType, str], Rows]:
        return self._literal if pattern is Pattern.LITERAL else self._prefixed

    def get(self, resource: Resource) -> Rows:
        """The rows of a list; None also if there is none."""
        return self._of(resource.pattern).get((resource.type, resource.name))

    def put(self, resource: Resource, rows: Rows) -> None:
        """This list has these rows now."""
        self.change_count += 1
        self._of(resource.pattern)[resource.type, resource.name] = rows

    def remove(self, resource: Resource) -> None:
        """This list is gone."""
        self.change_count += 1
        self._of(resource.pattern).pop((resource.type, resource.name), None)

    def about(self, type_: ResourceType, name: str) -> list[Rows]:
        """The lists that are about this resource."""
        literal, prefixed = self._literal, self._prefixed
        found = [literal[key] for key in dict.fromkeys(((type_, name), (type_, WILDCARD))) if key in literal]
        return found + self.of_prefixes(type_, name) if prefixed else found

    def of_prefixes(self, type_: ResourceType, name: str) -> list[Rows]:
        """The lists of all that this name begins with."""
        keys = ((type_, name[:length]) for length in range(len(name) + 1))
        return [self._prefixed[key] for key in keys if key in self._prefixed]

    def of_all_names(self, type_: ResourceType) -> list[Rows]:
        """The list that is about every resource of this type, if there is one."""
        key = type_, WILDCARD
        return [self._literal[key]] if key in self._literal else []


_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


def decide(lists: AccessLists, rules: Rules, asked: Asked) -> Decision:
    """See the docstring of the module."""
    if asked.principal in rules.super_users:
        return Decision.SUPER_USER
    return _decided(lists.about(asked.type, asked.name), rules, asked)


def _decided(found: list[Rows], rules: Rules, asked: Asked) -> Decision:
    if any(rows is None for rows in found):
        return Decision.UNREADABLE
    about = [row for rows in found for row in rows or () if row.is_about(asked)]
    own = {asked.operation, Operation.ALL}
    if any(not row.allows and row.operation in own for row in about):
        return Decision.DENIED
    if any(row.allows and row.operation in own | _IMPLIED_BY.get(asked.operation, frozenset()) for row in about):
        return Decision.ALLOWED
    if not found and rules.allows_without_list:
        return Decision.NO_LIST
    return Decision.NOT_ALLOWED


def decide_any(lists: AccessLists, rules: Rules, asked: Asked) -> Decision:
    """Whether there is a resource of this type on which it may; the name that is asked about does not count.

    A list allows it if nothing denies what the list is about as a whole: a Deny for all names, for its own name, or for
    a prefix of it. What is denied of a prefix leaves the other names that begin with it.
    """
    if asked.principal in rules.super_users:
        return Decision.SUPER_USER
    everything = _decided(lists.of_all_names(asked.type), Rules(), asked)
    if everything is not Decision.NOT_ALLOWED:
        return everything
    if rules.allows_without_list:
        return Decision.NO_LIST
    own = {asked.operation, Operation.ALL}
    for resource, rows in lists:
        if resource.type is asked.type and any(
            row.allows and row.operation in own and row.is_about(asked) for row in rows or ()
        ):
            prefixes = lists.of_prefixes(asked.type, resource.name)
            beside = [rows] if resource.pattern is Pattern.LITERAL else []
            if _decided([*prefixes, *beside], Rules(), asked) is Decision.ALLOWED:
                return Decision.ALLOWED
    return Decision.NOT_ALLOWED
