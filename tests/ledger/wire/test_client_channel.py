"""Which request an answer is taken for, on a client's end of a connection."""

from __future__ import annotations

from struct import pack

import pytest

from zab.ledger.entries.keys import master_key
from zab.ledger.wire.client_channel import ClientChannel, needs_v3
from zab.ledger.wire.frames import FrameCutter, ProtocolError
from zab.ledger.wire.messages import (
    Added,
    AddEntry,
    Authenticate,
    BatchRead,
    EntryRead,
    ForceLedger,
    ReadBatch,
    ReadEntry,
    ReadLac,
    Request,
    StartTls,
)
from zab.ledger.wire.status import Status

KEY = master_key(b"")
FENCING = ReadEntry(1, -1, KEY, is_fencing=True)
PLAIN = ReadEntry(1, -1)


def v2_answer(opcode: int, code: int, ledger: int, entry: int, rest: bytes = b"") -> bytes:
    return pack(">IIiqq", 24 + len(rest), 2 << 24 | opcode << 16, code, ledger, entry) + rest


def add(entry: int, ledger: int = 1) -> AddEntry:
    return AddEntry(ledger, entry, KEY, pack(">qqqq", ledger, entry, -1, 0))


def channel_with(*requests: Request) -> ClientChannel:
    channel = ClientChannel(is_v2=True)
    for request in requests:
        channel.encode(request)
    return channel


def test_a_plain_answer_is_never_taken_for_one_that_fences() -> None:
    """G8 would not hold: the recovery would go on although the bookie has not been fenced."""
    channel = channel_with(PLAIN)
    assert not channel.can_send(FENCING)
    assert channel.can_send(PLAIN)
    with pytest.raises(AssertionError):
        channel.encode(FENCING)
    channel.feed(v2_answer(2, 2, 1, -1))
    assert channel.can_send(FENCING)


def test_an_add_of_recovery_is_not_confused_with_the_writers() -> None:
    channel = channel_with(add(5))
    assert not channel.can_send(AddEntry(1, 5, KEY, add(5).envelope, is_recovery=True))
    assert channel.can_send(add(5))
    assert channel.can_send(add(6))


def test_each_answer_is_for_one_of_the_equal_requests() -> None:
    channel = channel_with(PLAIN, PLAIN, PLAIN, ReadEntry(2, -1))
    answer = v2_answer(2, 1, 1, -1)
    found, error = channel.feed(answer * 4)
    assert error is None
    assert found == [(PLAIN, EntryRead(Status.NO_LEDGER, 1, -1))] * 3
    assert len(channel) == 1
    assert channel.lost() == [ReadEntry(2, -1)]
    assert not len(channel)


def test_the_answers_of_a_run_of_adds_are_read_at_once_and_with_others_between() -> None:
    channel = channel_with(*map(add, range(8)), PLAIN)
    data = b"".join(v2_answer(1, 0, 1, entry) for entry in range(4))
    data += (
        v2_answer(2, 0, 1, -1, b"envelope") + v2_answer(1, 104, 1, 5) + v2_answer(1, 0, 1, 4) + v2_answer(1, 0, 9, 9)
    )
    found, error = channel.feed(data + v2_answer(1, 0, 1, 6)[:-1])
    assert error is None
    assert [answer for _, answer in found] == [
        *(Added(Status.OK, 1, entry) for entry in range(4)),
        EntryRead(Status.OK, 1, -1, b"envelope"),
        Added(Status.FENCED, 1, 5),
        Added(Status.OK, 1, 4),
    ]
    assert all(request.ledger == answer.ledger for request, answer in found if isinstance(request, AddEntry))
    assert len(channel) == 2
    found, _ = channel.feed(v2_answer(1, 0, 1, 6)[-1:] + v2_answer(1, 0, 1, 7))
    assert [answer for _, answer in found] == [Added(Status.OK, 1, 6), Added(Status.OK, 1, 7)]


@pytest.mark.parametrize(
    ("code", "status"),
    [(1, Status.NO_LEDGER), (106, Status.TOO_MANY_REQUESTS), (107, Status.UNKNOWN_LEDGER_STATE), (99, Status.IO_ERROR)],
)
def test_codes_of_v2(code: int, status: Status) -> None:
    """What is not known proves nothing."""
    channel = channel_with(add(0), PLAIN)
    found, _ = channel.feed(v2_answer(1, code, 1, 0) + v2_answer(2, code, 1, -1, b"what follows is no entry"))
    assert found == [(add(0), Added(status, 1, 0)), (PLAIN, EntryRead(status, 1, -1))]


def test_an_answer_that_nobody_waits_for_is_ignored() -> None:
    channel = channel_with()
    answers = (v2_answer(1, 0, 1, 0), v2_answer(2, 0, 1, 0), v2_answer(7, 0, 1, 0, bytes(8)))
    assert channel.feed(b"".join(answers)) == ([], None)
    v3 = ClientChannel(is_v2=False)
    v3.encode(ReadLac(1))
    other = bytes.fromhex("0a0608031007180b1000")
    assert v3.feed(pack(">I", len(other)) + other) == ([], None)
    assert len(v3) == 1


def test_a_batch_is_found_by_its_request_id() -> None:
    batch = ReadBatch(1, 0, 10, 100)
    channel = channel_with(batch, batch)
    answer = pack(">IIiqqq", 32 + 7, 0x02070000, 0, 1, 0, 2) + pack(">I", 3) + b"abc"
    assert channel.feed(answer) == ([(batch, BatchRead(Status.OK, 1, 0, (b"abc",)))], None)
    assert channel.feed(answer) == ([], None)
    error = pack(">IIiqqq", 32, 0x02070000, 1, 1, 0, 1)
    assert channel.feed(error) == ([(batch, BatchRead(Status.NO_LEDGER, 1, 0))], None)


@pytest.mark.parametrize(
    "body",
    [
        pack(">Iiqq", 0x02010000, 0, 1, 0)[:-1],
        pack(">Iiqq", 0x02020000, 0, 1, 0)[:-1],
        pack(">Iiqqq", 0x02070000, 0, 1, 0, 1)[:-1],
        pack(">Iiqqq", 0x02070000, 0, 1, 0, 1) + b"\0\0",
        pack(">Iiqqq", 0x02070000, 0, 1, 0, 1) + pack(">I", 5) + b"four",
        pack(">Iiqq", 0x02040000, 0, 1, 0),
        pack(">Iiqq", 0x01010000, 0, 1, 0),
        b"\x02\x03\0\0no message",
        b"\x0ano message",
        b"\x02",
        b"?",
        b"",
    ],
)
def test_answers_that_are_none_end_the_connection(body: bytes) -> None:
    """What came before them still counts."""
    channel = channel_with(add(0), add(1))
    found, error = channel.feed(v2_answer(1, 0, 1, 0) + pack(">I", len(body)) + body)
    assert found == [(add(0), Added(Status.OK, 1, 0))]
    assert isinstance(error, ProtocolError)


def test_what_v2_cannot_say_needs_v3() -> None:
    deferred = AddEntry(1, 0, KEY, add(0).envelope, is_deferred=True)
    polls = (ReadEntry(1, -1, previous_lac=3), ReadEntry(1, -1, previous_lac=3, wait_ms=5, wants_piggyback=True))
    for request in (deferred, *polls, ForceLedger(1), ReadLac(1), StartTls()):
        assert needs_v3(request)
        assert channel_with().can_send(request) == isinstance(request, StartTls)
    assert not needs_v3(Authenticate("p", b""))


def test_one_message_of_a_login_at_a_time() -> None:
    channel = channel_with(Authenticate("p", b"1"))
    assert not channel.can_send(Authenticate("p", b"1"))
    channel.feed(pack(">II", 11, 0x02030000) + b"\n\x01p\x12\x022x"[:7])
    assert channel.can_send(Authenticate("p", b"3"))


def test_v3_tells_equal_ids_apart() -> None:
    channel = ClientChannel(is_v2=False)
    channel.encode(PLAIN)
    assert channel.can_send(FENCING)
    channel.encode(FENCING)
    assert sorted(channel.lost(), key=lambda request: request == FENCING) == [PLAIN, FENCING]


def test_a_frame_at_the_limit_is_taken_and_one_byte_more_ends_the_connection() -> None:
    """Rule 8 of the wire: what Pulsar's clients send at most."""
    for size in (0, 5_253_120):
        assert FrameCutter().feed(pack(">I", size) + bytes(size)) == ([bytes(size)], None)
    for size in (5_253_121, 1 << 31, (1 << 32) - 1):
        cutter = FrameCutter()
        bodies, error = cutter.feed(pack(">I", 1) + b"x" + pack(">I", size))
        assert bodies == [b"x"]
        assert "frame length" in str(error)
    assert FrameCutter(10).feed(pack(">I", 11))[1] is not None
    assert FrameCutter(10).frame_bytes_max == 10
