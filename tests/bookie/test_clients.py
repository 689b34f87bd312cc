"""Clients that do what they should not, and limits: nobody else is disturbed."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.bookie.wire import KEY, Wire, add, envelope_of, wires
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import (
    Added,
    Authenticate,
    Authenticated,
    EntryRead,
    ReadEntry,
    StartTls,
    TlsStarted,
)
from zab.ledger.wire.status import Status
from zab.testing import Bookies

FRAME_BYTES_MAX = 1 << 20
UNSENT_BYTES_MAX = 64 << 10


@pytest.fixture(scope="module")
def bookies() -> Iterator[Bookies]:
    with Bookies(1, {"nettyMaxFrameSizeBytes": FRAME_BYTES_MAX, "maxUnsentBytes": UNSENT_BYTES_MAX}) as opened:
        yield opened


@pytest.fixture
def address(bookies: Bookies) -> str:
    return bookies.members[1].address


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="text"),
        pytest.param(struct.pack(">i", -1), id="a negative length"),
        pytest.param(struct.pack(">i", FRAME_BYTES_MAX), id="a length above the limit"),
        pytest.param(struct.pack(">i", 0x7FFFFFFF), id="the largest length"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(struct.pack(">iB", 1, 2), id="a cut header"),
        pytest.param(struct.pack(">iI", 4, 2 << 24 | 1 << 16), id="an add without an entry"),
        pytest.param(struct.pack(">iI", 4, 2 << 24 | 99 << 16), id="an unknown operation"),
        pytest.param(struct.pack(">iB", 5, 0x0A) + b"\xff" * 4, id="a v3 frame that is cut"),
        pytest.param(struct.pack(">iB", 5, 0x77) + b"\x00" * 4, id="a frame of no version"),
    ],
)
def test_what_breaks_the_protocol_ends_its_connection_alone(address: str, data: bytes) -> None:
    with Wire(address) as other, Wire(address) as hostile:
        hostile.socket.sendall(data)
        assert hostile.is_closed()
        assert other.ask(add(1, 0)) == Added(Status.OK, 1, 0)


def test_half_a_frame_waits_and_disturbs_nobody(address: str) -> None:
    with Wire(address) as half, Wire(address) as other:
        frame = half.channel.encode(add(2, 0, b"x" * 100_000))
        half.socket.sendall(frame[:50_000])
        assert other.ask(add(2, 1)) == Added(Status.OK, 2, 1)
        half.socket.sendall(frame[50_000:])
        assert [answer for _, answer in half.answers(1)] == [Added(Status.OK, 2, 0)]


def test_bytes_that_come_one_by_one(address: str) -> None:
    with Wire(address) as wire:
        for byte in wire.channel.encode(add(3, 0)):
            wire.socket.sendall(bytes([byte]))
        assert [answer for _, answer in wire.answers(1)] == [Added(Status.OK, 3, 0)]


def test_the_largest_frame_is_taken(address: str) -> None:
    with Wire(address) as wire:
        payload = b"x" * (FRAME_BYTES_MAX - 4 - 24 - len(envelope_of(4, 0, b"")))
        frame = wire.channel.encode(add(4, 0, payload))
        assert len(frame) == FRAME_BYTES_MAX
        wire.socket.sendall(frame)
        assert [answer for _, answer in wire.answers(1)] == [Added(Status.OK, 4, 0)]


def test_one_that_wants_to_log_in_may_go_on_and_there_is_no_tls(address: str) -> None:
    """Wire facts 1.8."""
    with wires(address) as (two, three):
        for wire in (two, three):
            assert wire.ask(Authenticate("sasl", b"hello")) == Authenticated(Status.OK, "AuthDisabledPlugin")
            assert wire.ask(add(5, 0 if wire is two else 1)).status is Status.OK
        assert three.ask(StartTls()) == TlsStarted(Status.BAD_REQUEST)


def test_a_client_that_takes_no_answers_is_read_from_no_longer(bookies: Bookies, address: str) -> None:
    """What it has asked for is answered once it takes the answers, and others are served meanwhile."""
    with Wire(address) as slow, Wire(address) as other:
        assert slow.ask(add(6, 0, b"x" * 500_000)).status is Status.OK
        assert slow.ask(ReadEntry(6, 0)).status is Status.OK
        slow.send(*[ReadEntry(6, 0)] * 100)
        bookies.wait_until(
            lambda: bool(bookies.members[1].ask(lambda running: running.turn.held_count)), "the slow client is not held"
        )
        assert other.ask(add(6, 1)).status is Status.OK
        found = slow.answers(100)
    assert {answer.status for _, answer in found} == {Status.OK}


def test_a_long_poll_ends_with_an_add_or_with_its_time(address: str) -> None:
    with wires(address) as (two, three):
        assert two.ask(add(8, 0, lac=NONE)).status is Status.OK
        three.send(ReadEntry(8, NONE, previous_lac=NONE, wait_ms=20_000, wants_piggyback=True))
        assert two.ask(add(8, 1, lac=0)).status is Status.OK
        [(_, found)] = three.answers(1)
        assert isinstance(found, EntryRead)
        assert (found.entry, found.envelope, found.max_lac) == (0, envelope_of(8, 0, lac=NONE), 0)
        late = three.ask(ReadEntry(8, NONE, previous_lac=0, wait_ms=1, wants_piggyback=True))
        assert isinstance(late, EntryRead)
        assert (late.status, late.entry, late.max_lac) == (Status.OK, NONE, 0)


def test_a_key_that_is_not_the_ledgers_is_refused(address: str) -> None:
    with Wire(address) as wire:
        assert wire.ask(add(9, 0)).status is Status.OK
        assert wire.ask(add(9, 1, key=b"k" * len(KEY))).status is Status.UNAUTHORIZED
        assert wire.ask(ReadEntry(9, 0, b"k" * len(KEY), is_fencing=True)).status is Status.UNAUTHORIZED
        assert wire.ask(add(9, 1)).status is Status.OK
