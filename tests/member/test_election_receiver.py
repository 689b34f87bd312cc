"""What an election port believes of the bytes of one connection, fed whole, byte by byte, and cut anywhere."""

from __future__ import annotations

from random import Random

import cbor2
import pytest

from zab.ids import ServerId
from zab.member.election_receiver import FRAME_BYTES_MAX, ElectionReceiver
from zab.member.greeting import GREETINGS
from zab.member.snapshot_request import VERSION, SnapshotRequest
from zab.message import PROTOCOL_VERSION, Ack, Hello, Notification, encode
from zab.states import NOTHING
from zab.wire.frames import FrameError, frame
from zab.wire.records import MessageError

OTHERS = (2, 3)


def vote(round_number: int) -> Notification:
    return Notification(0, 1, 0, 0, round_number, b"", False, NOTHING, False, False, False)  # type: ignore[arg-type]


def frame_of(message: Hello | Notification | Ack) -> bytes:
    return frame(encode(message))


HELLO = frame_of(Hello(PROTOCOL_VERSION, ServerId(2)))


class Heard:
    """Everything that one connection said, as its receiver has it."""

    def __init__(self) -> None:
        self.skipped: list[tuple[int, str]] = []
        self.sid: int | None = None
        self.votes: list[Notification] = []
        self.receiver = ElectionReceiver(OTHERS, lambda sid, reason: self.skipped.append((sid, reason)))

    def feed(self, data: bytes) -> None:
        if self.sid is None:
            self.sid = self.receiver.greeting(data)
            data = b""
        if self.sid is not None:
            for one in self.receiver.votes(data):
                self.votes.append(one)

    def feed_pieces(self, data: bytes, rng: Random | None) -> str | None:
        """All of it, in pieces; byte by byte without a generator. How it ends, if it does."""
        while data:
            size = 1 if rng is None else rng.randrange(1, len(data) + 1)
            piece, data = data[:size], data[size:]
            try:
                self.feed(piece)
            except (FrameError, MessageError) as error:
                return type(error).__name__
        return None


NONSENSE = [
    frame(b""),
    frame(b"\xff"),
    frame(b"\x81" * 4000),
    frame(cbor2.dumps([1 << 20_000])),
    frame(cbor2.dumps([0] * 12)),
    frame(cbor2.dumps({0: 1})),
    frame_of(Ack(1, 1)),  # type: ignore[arg-type]
    HELLO,
]
BAD_LENGTHS = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", (FRAME_BYTES_MAX + 1).to_bytes(4, "big")]


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_votes_behind_a_greeting_are_heard_however_they_are_cut(seed: int | None) -> None:
    data = HELLO + b"".join(frame_of(vote(number)) + NONSENSE[number % len(NONSENSE)] for number in range(16))
    heard = Heard()
    assert heard.feed_pieces(data, None if seed is None else Random(seed)) is None
    assert heard.sid == 2
    assert heard.votes == [vote(number) for number in range(16)]
    assert [sid for sid, _ in heard.skipped] == [2], "of many frames that are no votes one is reported"


@pytest.mark.parametrize("length", BAD_LENGTHS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_length_that_no_frame_has_ends_it_after_what_was_good(length: bytes, seed: int | None) -> None:
    heard = Heard()
    rng = None if seed is None else Random(seed)
    assert heard.feed_pieces(HELLO + frame_of(vote(1)) + length + frame_of(vote(2)), rng) == "FrameError"
    assert heard.votes == [vote(1)]


@pytest.mark.parametrize(
    "first",
    [
        *NONSENSE[:-1],
        frame_of(vote(1)),
        frame_of(Hello(PROTOCOL_VERSION + 1, ServerId(2))),
        frame_of(Hello(PROTOCOL_VERSION, ServerId(1))),
        frame_of(Hello(PROTOCOL_VERSION, ServerId(99))),
        frame(GREETINGS.encode(SnapshotRequest(VERSION, 2, bytes(16), 1, bytes(16), 0))),
    ],
)
def test_nobody_is_heard_without_the_greeting_of_another_server(first: bytes) -> None:
    heard = Heard()
    assert heard.feed_pieces(first + frame_of(vote(1)), Random(0)) == "MessageError"
    assert (heard.sid, heard.votes) == (None, [])


def test_half_a_greeting_is_nobody_and_half_a_vote_is_none() -> None:
    for size in range(len(HELLO)):
        heard = Heard()
        assert heard.feed_pieces(HELLO[:size], None) is None
        assert heard.sid is None
    data = HELLO + frame_of(vote(1))
    for size in range(len(HELLO), len(data)):
        heard = Heard()
        assert heard.feed_pieces(data[:size], None) is None
        assert (heard.sid, heard.votes, heard.skipped) == (2, [], [])
