"""What both ends of a connection to a bookie allow before TLS."""

from __future__ import annotations

import pytest

from zab.ledger.entries.keys import master_key
from zab.ledger.wire.client_channel import ClientChannel
from zab.ledger.wire.codec import Decoded, Refused, decode_run, encode_answer
from zab.ledger.wire.frames import FrameCutter, ProtocolError
from zab.ledger.wire.messages import (
    Answer,
    Authenticate,
    Authenticated,
    EntryRead,
    ForceLedger,
    ReadBatch,
    ReadEntry,
    Request,
    StartTls,
    TlsStarted,
    answer_without,
)
from zab.ledger.wire.status import Status
from zab.ledger.wire.tls_start import BookieStart, ClientStart, Starts

READ = ReadEntry(1, 0)
FENCE = ReadEntry(1, -1, master_key(b""), is_fencing=True)


class Client:
    """A connection in clear, and what a bookie decides of it."""

    def __init__(self, *, is_required: bool, is_v2: bool = False) -> None:
        self.channel = ClientChannel(is_v2)
        self.start = BookieStart(is_required)

    def say(self, *requests: Request, has_more: bool = False) -> Starts | list[Decoded]:
        frames = b"".join(map(self.channel.encode, requests))
        bodies, error = FrameCutter().feed(frames)
        assert error is None
        found, error = decode_run(bodies)
        assert error is None
        return self.start.take(found, has_more)

    def answers(self, *requests: Request) -> list[Answer]:
        """All of them are refused."""
        taken = self.say(*requests)
        assert isinstance(taken, list)
        frames = []
        for each in taken:
            assert isinstance(each, Refused)
            frames.append(each.frame)
        return [answer for _, answer in self.channel.feed(b"".join(frames))[0]]


@pytest.mark.parametrize("is_required", [True, False])
@pytest.mark.parametrize("is_v2", [True, False])
def test_tls_begins_with_the_first_request(is_required: bool, is_v2: bool) -> None:
    client = Client(is_required=is_required, is_v2=is_v2)
    taken = client.say(StartTls())
    assert isinstance(taken, Starts)
    assert client.channel.feed(taken.frame) == ([(StartTls(), TlsStarted(Status.OK))], None)


@pytest.mark.parametrize("is_v2", [True, False])
def test_every_request_in_clear_is_unauthorized_if_tls_is_required(is_v2: bool) -> None:
    asked: list[Request] = [READ, ReadBatch(1, 0, 5, 100)] if is_v2 else [FENCE, ForceLedger(1), Authenticate("x", b"")]
    client = Client(is_required=True, is_v2=is_v2)
    assert client.answers(*asked) == [answer_without(each, Status.UNAUTHORIZED) for each in asked]
    assert client.answers(READ) == [EntryRead(Status.UNAUTHORIZED, 1, 0)], "it is not let in later either"


def test_requests_in_clear_go_on_if_tls_is_not_required() -> None:
    taken = Client(is_required=False).say(READ, FENCE)
    assert isinstance(taken, list)
    assert [each.request for each in taken] == [READ, FENCE]


def test_a_login_in_v2_cannot_be_refused_and_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="login in clear"):
        Client(is_required=True, is_v2=True).say(Authenticate("sasl", b""))


@pytest.mark.parametrize("is_required", [True, False])
def test_tls_does_not_begin_after_another_request(is_required: bool) -> None:
    client = Client(is_required=is_required)
    client.say(READ)
    assert client.answers(StartTls()) == [TlsStarted(Status.BAD_REQUEST)]


def test_tls_does_not_begin_after_a_request_that_is_refused() -> None:
    """Nor in the piece in which that came."""
    client = Client(is_required=True)
    assert client.answers(READ, StartTls()) == [EntryRead(Status.UNAUTHORIZED, 1, 0), TlsStarted(Status.BAD_REQUEST)]


def test_nothing_in_clear_follows() -> None:
    """It would be taken for what was said within TLS."""
    for following in (READ, StartTls(), FENCE):
        with pytest.raises(ProtocolError, match="follow StartTls"):
            Client(is_required=True).say(StartTls(), following)
    with pytest.raises(ProtocolError, match="follow StartTls"):
        Client(is_required=False).say(StartTls(), has_more=True)


def test_nothing_in_clear_follows_later() -> None:
    client = Client(is_required=False)
    assert isinstance(client.say(StartTls()), Starts)
    with pytest.raises(ProtocolError, match="follow StartTls"):
        client.say(READ)
    with pytest.raises(ProtocolError, match="follow StartTls"):
        client.start.take([], True)


def answer(status: Status, *, number_of: bytes | None = None) -> bytes:
    """The answer to the StartTls of a client, as a frame."""
    bodies, _ = FrameCutter().feed(number_of or ClientStart().request)
    [found], _ = decode_run(bodies)
    assert not isinstance(found, Refused)
    return encode_answer(found.reply_to, TlsStarted(status))


def test_a_client_begins_once_the_whole_answer_is_there() -> None:
    start, agreed = ClientStart(), answer(Status.OK)
    for index in range(len(agreed) - 1):
        assert not start.take(agreed[index : index + 1])
    assert start.take(agreed[-1:])


@pytest.mark.parametrize("status", [Status.BAD_REQUEST, Status.UNAUTHORIZED])
def test_a_client_does_not_go_on_in_clear_with_a_bookie_that_refuses(status: Status) -> None:
    with pytest.raises(ProtocolError, match="has no TLS"):
        ClientStart().take(answer(status))


def test_a_client_takes_nothing_in_clear_after_the_answer() -> None:
    for following in (b"\x16", answer(Status.OK)):
        with pytest.raises(ProtocolError, match="follow the answer"):
            ClientStart().take(answer(Status.OK) + following)


def test_a_client_takes_no_other_answer() -> None:
    other = ClientChannel(is_v2=False)
    other.encode(StartTls())
    second = other.encode(StartTls())
    with pytest.raises(ProtocolError, match="another one"):
        ClientStart().take(answer(Status.OK, number_of=second))
    authenticated = ClientChannel(is_v2=False).encode(Authenticate("x", b""))
    [found], _ = decode_run(FrameCutter().feed(authenticated)[0])
    assert not isinstance(found, Refused)
    with pytest.raises(ProtocolError, match="another one"):
        ClientStart().take(encode_answer(found.reply_to, Authenticated(Status.OK, "x", b"")))


@pytest.mark.parametrize("data", [b"HTTP/1.1 400", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x04\x01"])
def test_a_client_takes_no_garbage(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        ClientStart().take(data)
