"""Frames: the same whole, byte by byte, and cut anywhere."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zab.wire.frames import CUT_FIRST_BYTE_MAX, CUT_MARK, Cut, FrameError, FrameReader, frame

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


def is_refused(payload: bytes) -> bool:
    return len(payload) > 2 * LIMIT or (len(payload) > LIMIT and payload[0] > CUT_FIRST_BYTE_MAX)


@given(st.lists(st.binary(max_size=3 * LIMIT), max_size=12), st.lists(st.integers(1, 200), min_size=1, max_size=20))
@example([b"\x80" + bytes(LIMIT)], [1])
def test_frames_that_are_too_long_are_cut_and_passed_over(payloads, sizes):
    """However they arrive; and nothing of them is kept."""
    stream = b"".join(map(frame, payloads))
    reader = FrameReader(LIMIT, 2 * LIMIT)
    frames, at, turn, ended = [], 0, 0, False
    try:
        while at < len(stream):
            frames += reader.feed(stream[at : at + sizes[turn % len(sizes)]])
            assert reader.kept_bytes <= LIMIT + 4
            at += sizes[turn % len(sizes)]
            turn += 1
    except FrameError as error:
        frames, ended = frames + error.frames, True
    good = next((index for index, payload in enumerate(payloads) if is_refused(payload)), len(payloads))
    expected = [payload if len(payload) <= LIMIT else payload[:4] + CUT_MARK for payload in payloads[:good]]
    assert frames == expected
    assert [type(payload) is Cut for payload in frames] == [len(payload) > LIMIT for payload in payloads[:good]]
    assert ended == (good < len(payloads))


def test_a_frame_is_cut_before_the_rest_of_it_is_there():
    reader = FrameReader(LIMIT, 1 << 30)
    assert reader.feed(frame(bytes(1000))[:7]) == []
    assert reader.feed(b"\x05" + bytes(995)) == [b"\0\0\0\x05" + CUT_MARK]
    assert reader.feed(b"\0" + frame(b"next")) == [b"next"]
