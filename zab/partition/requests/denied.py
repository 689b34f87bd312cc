"""The record of the audit log about what the access lists did not allow a client.

Not here: when it is written (`permissions`).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from zab.kafka.api_key import ApiKey
from zab.service.audit import FAILURE, line_of, value


@attrs.define(eq=False)
class Denied:
    """A client asked for something that it may not do."""

    principal: str
    host: str
    api_key: int
    permission: str
    resource: str
    """Such as `Topic:orders`."""
    reason: str

    @property
    def held_bytes(self) -> int:
        return 512 + len(self.principal) + len(self.resource)

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(
            user=value(self.principal.encode()),
            ip=self.host,
            operation=operation_name(self.api_key),
            permission=self.permission,
            resource=value(self.resource.encode()),
            reason=self.reason,
            result=FAILURE,
        )


def operation_name(key: int) -> str:
    """Such as `createTopics`."""
    first, *others = ApiKey(key).name.lower().split("_")
    return first + "".join(map(str.capitalize, others))
