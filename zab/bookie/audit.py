"""What a bookie's audit log says, besides starts, stops, and connections that broke the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from zab.service.audit import INVOKED, SUCCESS, line_of

LEDGERS_NAMED_MAX: Final = 100


@attrs.define(eq=False)
class ModeChanged:
    """It takes adds no longer, or takes them again."""

    is_read_only: bool

    held_bytes = 512

    def lines(self, own_user: str) -> Iterator[str]:
        operation = "becomeReadOnly" if self.is_read_only else "becomeWritable"
        yield line_of(user=own_user, operation=operation, result=SUCCESS)


@attrs.define(eq=False)
class LedgersDeleted:
    """These ledgers are gone from the metadata, and were deleted here."""

    ledgers: tuple[int, ...]

    @property
    def held_bytes(self) -> int:
        return 512 + 32 * len(self.ledgers)

    def lines(self, own_user: str) -> Iterator[str]:
        """One line for every hundred."""
        for at in range(0, len(self.ledgers), LEDGERS_NAMED_MAX):
            named = ",".join(map(str, self.ledgers[at : at + LEDGERS_NAMED_MAX]))
            yield line_of(user=own_user, operation="deleteLedgers", ledgers=named, result=SUCCESS)


@attrs.define(eq=False)
class Administered:
    """Somebody asked for something at the port for administration."""

    operation: str
    host: str

    held_bytes = 512

    def lines(self, _own_user: str) -> Iterator[str]:
        yield line_of(ip=self.host, operation=self.operation, result=INVOKED)
