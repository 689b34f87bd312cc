"""How many Python calls an append costs a client, with its connections and without its loop: exact counts, which no
load of the machine touches.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bench.call_counts import check, counted
from tests.ledger.writer.rig import Rig
from zab.ledger.metadata.service_info import ServiceInfo, bookie_endpoint
from zab.ledger.store.bookies import RegisteredBookies
from zab.ledger.wire.codec import Decoded, ServerRequest, decode_run, encode_answer
from zab.ledger.wire.frames import FrameCutter
from zab.ledger.wire.messages import Added, AddEntry
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import Append
from zab.ledgers.connection import BookieConnection
from zab.ledgers.driving import Driving
from zab.ledgers.settings import StoreSettings

SINGLE = 191
"""Calls for one append that comes alone, with its three answers in one turn."""
MANY = 4_547
"""Calls for a hundred appends that come together: forty-five each."""


class Wire:
    """A loop with its connections. What is sent is answered when a test says so."""

    def __init__(self) -> None:
        self.dialled: list[BookieConnection] = []
        self.sent: dict[BookieConnection, list[bytes]] = {}

    def soon(self) -> None:
        """Turns are a test's."""

    def dial(self, connection: BookieConnection, _host: str, _port: int) -> Piece:
        self.dialled.append(connection)
        return Piece(self.sent.setdefault(connection, []))

    def answers(self) -> list[tuple[BookieConnection, bytes]]:
        """To everything that was sent: each bookie has stored it."""
        found = []
        for connection, pieces in self.sent.items():
            bodies, _ = FrameCutter().feed(b"".join(pieces))
            pieces.clear()
            requests, _ = decode_run(bodies)
            found.append((connection, b"".join(map(added, requests))))
        return found


class Piece:
    """An open connection."""

    unsent_bytes = 0

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def write(self, data: bytes) -> None:
        self._sent.append(data)

    def close(self) -> None:
        raise AssertionError("nobody hangs up")


def added(asked: Decoded) -> bytes:
    assert isinstance(asked, ServerRequest)
    assert isinstance(asked.request, AddEntry)
    return encode_answer(asked.reply_to, Added(Status.OK, asked.request.ledger, asked.request.entry))


class Token:
    def __init__(self) -> None:
        self.outcome: object = None

    def complete(self, outcome: object) -> None:
        self.outcome = outcome


@pytest.mark.parametrize(("appends", "budget"), [(1, SINGLE), (100, MANY)])
def test_appends(appends: int, budget: int) -> None:
    loop, rig = Wire(), Rig()
    driving = Driving(loop, lambda: rig.now, StoreSettings())
    info = ServiceInfo((bookie_endpoint("127.0.0.1", 1),))
    driving.registered = RegisteredBookies(dict.fromkeys(rig.writer.versioned.metadata.bookies, info), {})
    driven = driving.drive(rig.writer, print, wants_bookies=False)
    driven.give(Append(b"before", Token()))
    driving.turn()
    for connection in loop.dialled:
        connection.opened()
    for connection, data in loop.answers():
        connection.received(data)
    driving.turn()
    tokens = [Token() for _ in range(appends)]
    counts: Counter[str] = Counter()
    with counted(counts):
        for token in tokens:
            driven.give(Append(b"x" * 100, token))
        driving.turn()
    sent = loop.answers()
    assert len(sent) == 3
    with counted(counts):
        for connection, data in sent:
            connection.received(data)
        driving.turn()
    assert all(token.outcome is not None for token in tokens)
    check(counts, budget)
