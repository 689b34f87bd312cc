"""What the clients of ledgers (writer, reader, recovery) are told by their host, and ask of it.

A host keeps:

    Send(bookie, request)     send it over a connection to this bookie; answer once with Answered: by the bookie's
                              answer, or with UNREACHABLE (no connection, or it broke) or TIMED_OUT
    Submit(n, operations)     to the coordination service, see `zab.coordination.driver`
    Completed(token, outcome) the caller that came with this token is answered

Requests to one bookie are sent in order. Every core has time limits of its own as well, so that a host that never
answers stops nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from attrs import define, field, frozen

from zab.coordination.driver import FromCoordination
from zab.ledger.entries.ids import BookieId
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.wire.messages import Answer, Request

# ------------------------------------------------------------------------------------------------------------- inputs


@define
class Answered:
    """The answer to a request that was sent. Not frozen, since there is one for each entry and bookie."""

    bookie: BookieId
    request: Request
    answer: Answer


@frozen
class BookieLost:
    """The connection to this bookie broke and did not come back. What was under way has been answered UNREACHABLE."""

    bookie: BookieId


@frozen
class BookiesKnown:
    """All bookies that are registered now."""

    available: tuple[BookieNode, ...]
    read_only: frozenset[BookieId] = field(default=frozenset())


ClientInput: TypeAlias = Answered | BookieLost | BookiesKnown | FromCoordination

# ------------------------------------------------------------------------------------------------------------ effects


@define
class Send:
    """Not frozen, since there is one for each entry and bookie."""

    bookie: BookieId
    request: Request


@frozen
class Completed:
    """The answer to a caller. `token`: what the caller's input came with."""

    token: Hashable
    outcome: object
