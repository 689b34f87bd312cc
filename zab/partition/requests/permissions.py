"""What the client of a request may do: asked of the authorizer, and told to the audit log where it may not.

Where a broker has no authorizer, everybody may do everything. A broker that asks over a link has proven that it is one,
and has no permissions: nothing is asked about it (`follower_connection`).

A refusal that only leaves something out of a list is told to nobody, as in Kafka.

Limit: `TOLD_MAX` different refusals of a connection are told; one that repeats is told once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zab.kafka.headers import RequestHeader
from zab.partition.access.acls import Decision, Operation, ResourceType
from zab.partition.access.authorizer import ALL_OPERATIONS, Authorizer
from zab.partition.requests.connection import ClientConnection
from zab.partition.requests.denied import Denied
from zab.service.audit import Record

TOLD_MAX: Final = 100


class Permissions:
    """See the docstring of the module."""

    def __init__(self, authorizer: Authorizer | None, audit: Callable[[Record], None]) -> None:
        """`authorizer` None: there are no access lists."""
        self.authorizer = authorizer
        self._audit = audit

    @property
    def are_known(self) -> bool:
        """Whether requests can be decided on."""
        return self.authorizer is None or self.authorizer.is_ready

    def may(
        self,
        connection: ClientConnection,
        header: RequestHeader,
        operation: Operation,
        type_: ResourceType,
        name: str | None,
        *,
        is_told: bool,
    ) -> bool:
        """`name` None: on any resource of this type."""
        if self.authorizer is None:
            return True
        who = connection.principal, connection.host
        if name is None:
            decision = self.authorizer.decide_any(*who, operation, type_)
        else:
            decision = self.authorizer.decide(*who, operation, type_, name)
        if not decision.allows and is_told:
            self._tell(connection, header, operation, type_, name or "", decision)
        return decision.allows

    def _tell(
        self,
        connection: ClientConnection,
        header: RequestHeader,
        operation: Operation,
        type_: ResourceType,
        name: str,
        decision: Decision,
    ) -> None:
        refusal = header.api_key, operation, type_, name
        if refusal not in connection.told_refusals and len(connection.told_refusals) < TOLD_MAX:
            connection.told_refusals.add(refusal)
            resource = f"{type_.text}:{name}"
            self._audit(
                Denied(
                    *(connection.principal, connection.host, header.api_key, operation.text, resource, decision.value)
                )
            )

    def operations(self, connection: ClientConnection, type_: ResourceType, name: str) -> int:
        """All that it may do with a resource, as the bit field that Kafka's answers have."""
        if self.authorizer is None:
            return ALL_OPERATIONS[type_]
        return self.authorizer.operations(connection.principal, connection.host, type_, name)
