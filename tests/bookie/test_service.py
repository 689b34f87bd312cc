"""A bookie as it runs: both versions of the protocol, what it registers, what survives its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bookie.wire import add, envelope_of, wires
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.cookies import decode_cookie
from zab.ledger.metadata.service_info import decode_service_info
from zab.ledger.wire.messages import (
    Added,
    BatchRead,
    BookieInfo,
    BookieInfoWanted,
    EntriesListed,
    EntryRead,
    Forced,
    ForceLedger,
    GetBookieInfo,
    ListEntries,
    ReadBatch,
    ReadEntry,
)
from zab.ledger.wire.status import Status
from zab.testing import Bookies


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(1) as opened:
        yield opened


def test_every_request_is_answered_in_its_version(bookies: Bookies) -> None:
    with wires(bookies.members[1].address) as (two, three):
        for wire, ledger in ((two, 1), (three, 2)):
            wire.send(*(add(ledger, entry) for entry in range(100)))
            assert {answer for _, answer in wire.answers(100)} == {Added(Status.OK, ledger, n) for n in range(100)}
            read = wire.ask(ReadEntry(ledger, 7))
            assert isinstance(read, EntryRead)
            assert read.envelope == envelope_of(ledger, 7)
            last = wire.ask(ReadEntry(ledger, NONE))
            assert isinstance(last, EntryRead)
            assert (last.entry, last.envelope) == (NONE, envelope_of(ledger, 99))
            assert wire.ask(ReadEntry(ledger, 100)).status is Status.NO_ENTRY
            assert wire.ask(ReadEntry(99, 0)).status is Status.NO_LEDGER
        batch = two.ask(ReadBatch(1, 10, 5, 1 << 20))
        assert batch == BatchRead(Status.OK, 1, 10, tuple(envelope_of(1, entry) for entry in range(10, 15)))
        assert three.ask(ForceLedger(2)) == Forced(Status.OK, 2)
        assert three.ask(ListEntries(2)) == EntriesListed(Status.OK, 2, ((0, 99),))
        info = three.ask(GetBookieInfo(BookieInfoWanted.CAPACITY | BookieInfoWanted.FREE))
        assert isinstance(info, BookieInfo)
        assert info.capacity
        assert info.free


def test_a_bookie_registers_itself_and_its_cookie(bookies: Bookies) -> None:
    bookie = bookies.members[1]
    with bookies.ensemble.connect() as zk:
        data, stat = zk.get("/ledgers/available/b1")
        assert stat.ephemeral_owner
        cookie, _ = zk.get("/ledgers/cookies/b1")
    endpoint = decode_service_info(BookieId("b1"), data).bookie_endpoint
    assert endpoint is not None
    assert f"{endpoint.host}:{endpoint.port}" == bookie.address
    said = decode_cookie(cookie)
    assert said.bookie == "b1"
    assert said.ledger_directories == (str(bookie.directory / "ledgers"),)
    assert said.journal_directories == (str(bookie.directory / "journal"),)
