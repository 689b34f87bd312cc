"""Writes and batches that are under way in a member. Plain state.

Not here: what is done with them (`processor`, `member`).
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
"""The least size that an item of a message counts as: so a message within `DATA_FRAME_BYTES_MAX` is also within
`ITEMS_MAX`."""
_RUN_ITEMS = _IDENTITY_ITEMS = 3
"""The items of a row of two, including the row. A write is one item, and larger than `ITEM_BYTES`."""


def size_of_run(identities: tuple[Identity, ...]) -> int:
    """The bytes that a `Request` has before writes with these identities."""
    return size_of(identities) + ITEM_BYTES * (_RUN_ITEMS + _IDENTITY_ITEMS * len(identities))


Write: TypeAlias = tuple[Asked, ClientConnection | None, ServerId | None, int]
"""A write that will become a transaction:

- the request;
- the connection to answer; None: it belongs to another member, or there is none;
- the server through which it came; None: the leader itself, which may write for every session;
- the error with which the leader refuses it; 0 for none. It is decided when the write arrives: while the write waits,
  its session may come back to this server, which must not make older writes valid.
"""


@attrs.define(eq=False)
class Proposed:
    """A batch that this leader proposed and that is not committed yet."""

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
