"""Records of the audit log about clients: each administrative request with its names and errors, and failed logins.

Not here: what access lists did not allow (`denied`), the file (`zab.host.journal.audit_log`), records of every service
(`zab.service.audit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.errors import ErrorCode
from zab.partition.requests.denied import operation_name
from zab.partition.requests.request import Request
from zab.service.audit import FAILURE, SUCCESS, item_of, line_of, value

ADMINISTRATIVE: Final = frozenset(
    {
        *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_RECORDS),
        *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
        ApiKey.ALTER_CLIENT_QUOTAS,
        *(ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
        *(ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    }
)
"""The requests that are recorded."""
NAMES_MAX: Final = 100
"""A record has so many names; of a longer request it has the first ones."""
_NAMES: Final = frozenset(
    {"name", "topic", "user", "resource_name", "group_id", "groups_names", "topic_names", "entity_name"}
)
_ABOVE: Final = frozenset(
    {
        *("topics", "resources", "deletions", "upsertions", "topic_partitions", "creations"),
        *("entries", "entity"),
        *("groups_names", "topic_names", "name", "topic", "resource_name", "group_id"),
    }
)
"""The fields of requests in which names of topics, groups and users are, and not those of settings."""


@attrs.define(eq=False)
class Asked:
    """An administrative request, and what came of it."""

    principal: str
    host: str
    operation: str
    names: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def held_bytes(self) -> int:
        return 512 + len(self.principal) + sum(map(len, self.names))

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(
            user=value(self.principal.encode()),
            ip=self.host,
            operation=self.operation,
            names=",".join(item_of(each.encode()) for each in self.names),
            errors=",".join(self.errors),
            result=FAILURE if self.errors else SUCCESS,
        )


def record_of(request: Request, answer: Any) -> Asked:
    """The record of an administrative request that is answered with this message."""
    errors = sorted({ErrorCode(code).name for code in _errors_in(answer) if code})
    names = tuple(dict.fromkeys(_names_in(request.body)))[:NAMES_MAX]
    connection = request.connection
    return Asked(connection.principal, connection.host, operation_name(request.header.api_key), names, tuple(errors))


def _names_in(message: Any) -> Iterator[str]:
    for field in attrs.fields(type(message)):
        found = getattr(message, field.name)
        if field.name in _NAMES and isinstance(found, str):
            yield found
        if isinstance(found, tuple) and field.name in _ABOVE:
            for each in found:
                if isinstance(each, str):
                    yield each
                elif attrs.has(type(each)):
                    yield from _names_in(each)


def _errors_in(message: Any) -> Iterator[int]:
    for field in attrs.fields(type(message)):
        found = getattr(message, field.name)
        if field.name == "error_code":
            yield found
        elif isinstance(found, tuple):
            for each in found:
                if attrs.has(type(each)):
                    yield from _errors_in(each)
