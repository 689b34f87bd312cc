"""Frames: the same whole, byte by byte, and cut anywhere."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zab.wire.frames import LONG_HEAD_BYTES, FrameError, FrameReader, frame

LIMIT = 40


def pieces(stream, size_bytes):
    return [stream[at : at + size_bytes] for at in range(0, len(stream), size_bytes)]


def cut(stream, size_bytes):
    """What comes out of a stream fed in pieces: the frames, the length that ended it, what is kept."""
    reader = FrameReader(LIMIT)
    frames = []
    for piece in pieces(stream, size_bytes):
        try:
            frames += reader.feed(piece)
        except FrameError as error:
            return frames + error.frames, error.length, 0
    return frames, None, reader.kept_bytes


def test_a_frame_is_its_length_and_its_payload():
    assert frame(b"abc") == b"\x00\x00\x00\x03abc"
    assert frame(b"") == bytes(4)


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 4, 5, 7, 64, 1000])
def test_frames_come_out_the_same_however_they_are_cut(size_bytes):
    payloads = [b"", b"a", b"x" * LIMIT, b"", b"four", bytes(17)]
    stream = b"".join(map(frame, payloads))
    assert cut(stream, size_bytes) == (payloads, None, 0)


@pytest.mark.parametrize("size_bytes", [1, 3, 4, 1000])
@pytest.mark.parametrize("length", [-1, LIMIT + 1, -(2**31), 2**31 - 1])
def test_a_bad_length_ends_the_stream_after_the_same_frame(length, size_bytes):
    stream = frame(b"good") + frame(b"") + length.to_bytes(4, "big", signed=True) + b"rest"
    assert cut(stream, size_bytes) == ([b"good", b""], length, 0)


def test_the_limit_is_inclusive_and_a_longer_frame_is_refused_by_its_length_alone():
    assert FrameReader(LIMIT).feed(LIMIT.to_bytes(4, "big")) == []
    for feed in (FrameReader(LIMIT).feed, FrameReader(LIMIT).feed_one):
        with pytest.raises(FrameError, match=r"frame length 41 is not in 0\.\.40"):
            feed((LIMIT + 1).to_bytes(4, "big"))


def test_what_is_kept_is_one_unfinished_frame():
    reader = FrameReader(LIMIT)
    assert reader.feed(frame(b"done") + b"\x00\x00") == [b"done"]
    assert reader.kept_bytes == 2
    assert reader.feed(b"\x00\x05ab") == []
    assert reader.kept_bytes == 6
    assert reader.feed(b"cde" + frame(b"next")[:5]) == [b"abcde"]
    assert reader.kept_bytes == 5
    assert reader.feed(b"ext") == [b"next"]
    assert reader.kept_bytes == 0


def test_one_frame_at_a_time_leaves_the_others_and_the_limit_may_change_before_them():
    reader = FrameReader(4)
    stream = frame(b"one") + frame(b"") + frame(bytes(LIMIT)) + b"\x00"
    assert reader.feed_one(stream[:5]) is None
    assert reader.feed_one(stream[5:]) == b"one"
    assert reader.rest() == stream[7:]
    assert reader.feed_one(b"") == b""
    reader.frame_bytes_max = LIMIT
    assert reader.feed(b"") == [bytes(LIMIT)]
    assert reader.rest() == b"\x00"
    assert reader.feed(b"\x00\x00\x01x") == [b"x"]


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 4, 5, 7, 64, 1000])
def test_one_frame_at_a_time_is_the_same_however_it_was_cut(size_bytes):
    payloads = [b"", b"a", b"x" * LIMIT, b"", b"four", bytes(17)]
    reader = FrameReader(LIMIT)
    found = []
    for piece in pieces(b"".join(map(frame, payloads)) + b"\x00\x00", size_bytes):
        payload = reader.feed_one(piece)
        while payload is not None:
            found.append(payload)
            payload = reader.feed_one(b"")
    assert found == payloads
    assert reader.rest() == b"\x00\x00"


@given(st.lists(st.binary(max_size=LIMIT + 4), max_size=12), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_any_stream_cut_anywhere_reads_as_when_whole(payloads, sizes):
    stream = b"".join(map(frame, payloads))
    reader = FrameReader(LIMIT)
    frames, at, turn = [], 0, 0
    try:
        while at < len(stream):
            frames += reader.feed(stream[at : at + sizes[turn % len(sizes)]])
            at += sizes[turn % len(sizes)]
            turn += 1
    except FrameError as error:
        frames += error.frames
    good = next((index for index, payload in enumerate(payloads) if len(payload) > LIMIT), len(payloads))
    assert frames == payloads[:good]


def test_the_largest_frame_fed_byte_by_byte_takes_time_in_proportion_to_its_length():
    class Counted(bytearray):
        copied_bytes = 0

        def __iadd__(self, other):
            Counted.copied_bytes += len(other)
            return super().__iadd__(other)

    payload = bytes(20_000)
    reader = FrameReader(20_000)
    reader._kept = Counted()
    frames = []
    for byte in frame(payload):
        frames += reader.feed(bytes([byte]))
    assert frames == [payload]
    assert Counted.copied_bytes <= len(payload) + 8


class Half:
    """Gives back what it is fed, in pieces of two bytes; ends the stream at a byte 7."""

    def __init__(self):
        self.kept = b""

    @property
    def kept_bytes(self):
        return len(self.kept)

    def feed(self, data):
        frames = []
        for byte in data:
            self.kept += bytes([byte])
            if byte == 7:
                raise FrameError(7, LIMIT, frames)
            if len(self.kept) == 2:
                frames.append(self.kept)
                self.kept = b""
        return frames


def halved(payload):
    """What comes of it, and whether it ends the stream."""
    if len(payload) <= LIMIT:
        return [payload], False
    if payload[0] == 9:
        return [], True
    end = payload.find(7)
    whole = payload if end < 0 else payload[:end]
    return [whole[at : at + 2] for at in range(0, len(whole) - 1, 2)], end >= 0


LONG = st.integers(LIMIT + 1, 3 * LIMIT).flatmap(
    lambda size: st.builds(
        lambda first, at, byte: bytes([first, *([0] * at), byte, *([0] * size)])[:size],
        st.sampled_from([0, 9]),
        st.integers(0, size),
        st.sampled_from([0, 7]),
    )
)


@given(st.lists(st.binary(max_size=LIMIT) | LONG, max_size=12), st.lists(st.integers(1, 200), min_size=1, max_size=20))
@example([bytes([9, *bytes(LIMIT)])], [1])
@example([b"good", bytes(LIMIT + 1) + b"\x07" + bytes(LIMIT), b"never"], [1000])
def test_whoever_takes_frames_that_are_too_long_gets_their_bytes_as_they_come(payloads, sizes):
    stream = b"".join(map(frame, payloads))
    heads = []

    def take(head, length):
        heads.append((head, length))
        return None if head[0] == 9 else Half()

    reader = FrameReader(LIMIT, take)
    frames, at, turn, ended = [], 0, 0, False
    try:
        while at < len(stream):
            frames += reader.feed(stream[at : at + sizes[turn % len(sizes)]])
            assert reader.kept_bytes <= LIMIT + 4
            at += sizes[turn % len(sizes)]
            turn += 1
    except FrameError as error:
        frames, ended = frames + error.frames, True
    expected, asked = [], []
    for payload in payloads:
        if len(payload) > LIMIT:
            asked.append((payload[:LONG_HEAD_BYTES], len(payload)))
        found, is_end = halved(payload)
        expected += found
        if is_end:
            break
    else:
        is_end = False
    assert frames == expected
    assert heads == asked
    assert ended == is_end


def test_a_frame_that_is_too_long_and_shorter_than_a_head_is_refused():
    reader = FrameReader(4, lambda head, length: Half())
    with pytest.raises(FrameError):
        reader.feed(b"\0\0\0\x07")


def test_what_is_kept_of_a_long_frame_counts():
    reader = FrameReader(LIMIT, lambda head, length: Half())
    assert reader.feed(frame(bytes(99))[:11]) == []
    assert reader.feed(b"") == []
    assert reader.kept_bytes == 11
    assert reader.feed(bytes(2)) == [bytes(2)] * 4
    assert reader.kept_bytes == 1
