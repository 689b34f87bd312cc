"""What is under way in a member: writes that become transactions, batches that are applied. Plain state.

Not here: what becomes of it (`processor`, `member`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

import attrs

from datatree.record import Fields
from datatree.write_request import Asked
from zab.member.clients.connection import ClientConnection, Identity, size_of
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX
from zab.quorum.ids import ServerId
from zab.wire.plain import ITEMS_MAX

ITEM_BYTES: Final = DATA_FRAME_BYTES_MAX // ITEMS_MAX
"""What an item of a message counts for at least: so one within `DATA_FRAME_BYTES_MAX` is within `ITEMS_MAX`, too."""
_RUN_ITEMS = _IDENTITY_ITEMS = 3
"""A row of two in a list, with what it has. A write is one item, of more bytes than that."""


def size_of_run(identities: tuple[Identity, ...]) -> int:
    """What stands in a `Request` before writes of these identities, in bytes."""
    return size_of(identities) + ITEM_BYTES * (_RUN_ITEMS + _IDENTITY_ITEMS * len(identities))


Write: TypeAlias = tuple[Asked, ClientConnection | None, ServerId | None, int]
"""A write on its way to becoming a transaction:

- what is asked;
- the connection: whom to answer; None: somebody else's client, or nobody;
- the owner: the server through which it came; None: the leader itself asks, and owns every session;
- the error with which the leader refuses it; 0 for none. Decided when the write arrives: while it waits, its session
  may come back to this server, which must not make valid what was left here before.
"""


@attrs.define(eq=False)
class Proposed:
    """A batch of this leader that is not committed yet."""

    first: int
    txns: list[Fields]
    connections: list[ClientConnection | None]


@attrs.define(eq=False)
class Long:
    """A write that is being prepared over several turns, for a batch of its own."""

    first: int
    time: int
    connection: ClientConnection | None
    owner: ServerId | None
    steps: Generator[None, None, tuple[Fields, bytes]]
