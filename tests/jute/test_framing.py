"""Frames: the same whole, byte by byte, and cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.jute.framing import (
    FOUR_LETTER_WORDS,
    FRAME_BYTES_MAX,
    REQUEST_HEADER,
    FrameError,
    FrameReader,
    frame,
    request_frame,
)

LIMIT = 40


def pieces(stream, size_bytes):
    return [stream[at : at + size_bytes] for at in range(0, len(stream), size_bytes)]


def cut(stream, size_bytes, words=frozenset()):
    """What comes out of a stream fed in pieces: the frames, the length that ended it, the word found, what is kept."""
    reader = FrameReader(LIMIT, words)
    frames = []
    for piece in pieces(stream, size_bytes):
        try:
            frames += reader.feed(piece)
        except FrameError as error:
            return frames + error.frames, error.length, None, 0
    return frames, None, reader.word, reader.kept_bytes


def test_a_frame_is_its_length_and_its_payload():
    assert frame(b"abc") == b"\x00\x00\x00\x03abc"
    assert frame(b"") == bytes(4)


def test_a_request_is_framed_with_xid_and_opcode():
    raw = request_frame(7, -11, b"body")
    (payload,) = FrameReader().feed(raw)
    assert REQUEST_HEADER.unpack_from(payload) == (7, -11)
    assert payload[8:] == b"body"


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 4, 5, 7, 64, 1000])
def test_frames_come_out_the_same_however_they_are_cut(size_bytes):
    payloads = [b"", b"a", b"x" * LIMIT, b"", b"four", bytes(17)]
    stream = b"".join(map(frame, payloads))
    assert cut(stream, size_bytes) == (payloads, None, None, 0)


@pytest.mark.parametrize("size_bytes", [1, 3, 4, 1000])
@pytest.mark.parametrize("length", [-1, LIMIT + 1, -(2**31), 2**31 - 1])
def test_a_bad_length_ends_the_stream_behind_the_same_frame(length, size_bytes):
    stream = frame(b"good") + frame(b"") + length.to_bytes(4, "big", signed=True) + b"rest"
    assert cut(stream, size_bytes) == ([b"good", b""], length, None, 0)


def test_the_limit_is_inclusive_and_zookeepers_by_default():
    assert FRAME_BYTES_MAX == 1_048_575
    assert FrameReader().feed(FRAME_BYTES_MAX.to_bytes(4, "big")) == []
    with pytest.raises(FrameError, match=r"frame length 1048576 is not in 0\.\.1048575"):
        FrameReader().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


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


@pytest.mark.parametrize("size_bytes", [1, 3, 4, 1000])
@pytest.mark.parametrize("word", sorted(FOUR_LETTER_WORDS))
def test_a_four_letter_word_is_found_as_the_first_bytes(word, size_bytes):
    assert cut(word + b"\n", size_bytes, FOUR_LETTER_WORDS) == ([], None, word, 0)


@pytest.mark.parametrize("size_bytes", [1, 3, 4, 1000])
def test_a_four_letter_word_behind_the_first_frame_is_an_impossible_length(size_bytes):
    length = int.from_bytes(b"ruok", "big")
    assert cut(frame(b"x") + b"ruok", size_bytes, FOUR_LETTER_WORDS) == ([b"x"], length, None, 0)
    assert cut(frame(b"ruok") * 2, size_bytes, FOUR_LETTER_WORDS) == ([b"ruok"] * 2, None, None, 0)


@pytest.mark.parametrize("size_bytes", [1, 3, 4, 1000])
def test_an_unknown_word_and_a_client_without_words_see_an_impossible_length(size_bytes):
    assert cut(b"what", size_bytes, FOUR_LETTER_WORDS) == ([], int.from_bytes(b"what", "big"), None, 0)
    assert cut(b"ruok", size_bytes) == ([], int.from_bytes(b"ruok", "big"), None, 0)


@given(st.lists(st.binary(max_size=LIMIT + 4), max_size=12), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_any_stream_cut_anywhere_reads_as_when_whole(payloads, sizes):
    stream = b"".join(map(frame, payloads))
    reader = FrameReader(LIMIT, FOUR_LETTER_WORDS)
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
    reader = FrameReader()
    reader._kept = Counted()
    frames = []
    for byte in frame(payload):
        frames += reader.feed(bytes([byte]))
    assert frames == [payload]
    assert Counted.copied_bytes <= len(payload) + 8
