"""The znodes of access lists, as Kafka's brokers with ZooKeeper have them.

    /kafka-acl/<type>/<name>                        {"version":1,"acls":[{"principal":…,"permissionType":…,…}]}
    /kafka-acl-extended/prefixed/<type>/<name>      the same, for names that begin with this one
    /kafka-acl-changes/acl_changes_<n>              `<type>:<name>`: this list has changed
    /kafka-acl-extended-changes/acl_changes_<n>     {"version":1,"resourceType":…,"name":…,"patternType":"PREFIXED"}

Names are not escaped: a resource whose name is no name of a znode can have no list of its own (`why_no_name`).

Lists of types that no request here asks for (DelegationToken, User) are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from zab.partition.access.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    Resource,
    ResourceType,
)

LITERAL_ROOT: Final = "/kafka-acl"
PREFIXED_ROOT: Final = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
PREFIXED_CHANGES: Final = "/kafka-acl-extended-changes"
CHANGE_PREFIX: Final = "acl_changes_"
_ROOTS: Final = {Pattern.LITERAL: LITERAL_ROOT, Pattern.PREFIXED: PREFIXED_ROOT}
CHANGES: Final = {Pattern.LITERAL: LITERAL_CHANGES, Pattern.PREFIXED: PREFIXED_CHANGES}
PARENTS: Final = (
    *(LITERAL_ROOT, "/kafka-acl-extended", PREFIXED_ROOT, LITERAL_CHANGES, PREFIXED_CHANGES),
    *(f"{root}/{type_.text}" for root in (LITERAL_ROOT, PREFIXED_ROOT) for type_ in ResourceType),
)
"""Persistent znodes that lists need, parents before children."""
_VERSION: Final = 1
NAME_CHARS_MAX: Final = 1000
"""The longest name of a resource, principal or host in a list."""

_OPERATIONS: Final = {each.text: each for each in Operation}
_TYPES: Final = {each.text: each for each in ResourceType}
_PERMISSIONS: Final = {"Allow": True, "Deny": False}


class AclError(ValueError):
    """A znode is no list, or no change; the text says what is wrong."""


# ---------------------------------------------------------------------------------------------------------------- paths


def list_path(resource: Resource) -> str:
    """The znode of a list."""
    return f"{parent_path(resource.type, resource.pattern)}/{resource.name}"


def parent_path(type_: ResourceType, pattern: Pattern) -> str:
    """The znode below which the lists of this type and pattern are."""
    return f"{_ROOTS[pattern]}/{type_.text}"


# ---------------------------------------------------------------------------------------------------------------- lists


def acls_in(data: bytes) -> frozenset[Acl]:
    """The rows of a znode. Raises AclError: then the list counts as one that cannot be read."""
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            raise AclError(f"its version is {found['version']!r}")
        return frozenset(_acl_in(row) for row in found["acls"])
    except AclError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AclError("it is no list of ACLs") from error


def _acl_in(row: Mapping[str, object]) -> Acl:
    principal, host = row["principal"], row["host"]
    if not isinstance(principal, str) or not isinstance(host, str):
        raise AclError("principal or host is no text")
    permission, operation = row["permissionType"], row["operation"]
    if permission not in _PERMISSIONS or operation not in _OPERATIONS:
        # A row that nobody understands may be a Deny.
        raise AclError(f"{permission} {operation} is not known")
    return Acl(principal, host, _OPERATIONS[str(operation)], _PERMISSIONS[str(permission)])


def acls_text(acls: Iterable[Acl]) -> bytes:
    """What Kafka writes, with its rows in a fixed order."""
    rows = [
        {
            "principal": each.principal,
            "permissionType": "Allow" if each.allows else "Deny",
            "operation": each.operation.text,
            "host": each.host,
        }
        for each in acls
    ]
    rows.sort(key=lambda row: tuple(row.values()))
    return _written({"version": _VERSION, "acls": rows})


def _written(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# -------------------------------------------------------------------------------------------------------------- changes


def change_text(resource: Resource) -> bytes:
    """What a notification says: this list has changed."""
    if resource.pattern is Pattern.LITERAL:
        return f"{resource.type.text}:{resource.name}".encode()
    return _written(
        {
            "version": _VERSION,
            "resourceType": resource.type.text,
            "name": resource.name,
            "patternType": resource.pattern.name,
        }
    )


def changed_in(pattern: Pattern, data: bytes) -> Resource | None:
    """The list that a notification names; None: its type is one that nobody asks for. Raises AclError."""
    try:
        if pattern is Pattern.LITERAL:
            type_name, _, name = data.decode().partition(":")
        else:
            found = json.loads(data)
            type_name, name = found["resourceType"], found["name"]
            if found["patternType"] != pattern.name:
                raise AclError(f"its pattern is {found['patternType']!r}")
        if not (isinstance(type_name, str) and isinstance(name, str)) or why_no_name(name) is not None:
            raise AclError("it names no list")
    except AclError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AclError("it is no change of a list") from error
    type_ = _TYPES.get(type_name)
    return None if type_ is None else Resource(type_, pattern, name)


# ---------------------------------------------------------------------------------------------------------- what can be


def why_no_name(name: str) -> str | None:
    """Why a resource of this name can have no list; None: it can."""
    if not name or name in (".", ".."):
        return "a resource has a name, other than . and .."
    if len(name) > NAME_CHARS_MAX:
        return f"a name has at most {NAME_CHARS_MAX} characters"
    if "/" in name or not name.isprintable():
        return "the name has a slash, or characters that cannot be shown"
    return None


def why_no_acl(resource: Resource, acl: Acl) -> str | None:
    """Why this row cannot be in this list; None: it can."""
    reason = why_no_name(resource.name)
    if reason is not None:
        return reason
    if resource.type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return f"the only resource of type Cluster is {CLUSTER_NAME}"
    kind, _, name = acl.principal.partition(":")
    if not (kind and name) or not acl.principal.isprintable():
        return f"{acl.principal!r} is no principal, such as User:alice or User:*"
    if not acl.host or not acl.host.isprintable():
        return "a host is an address, or *"
    if len(acl.principal) > NAME_CHARS_MAX or len(acl.host) > NAME_CHARS_MAX:
        return f"principals and hosts have at most {NAME_CHARS_MAX} characters"
    return None
