"""Requests above jute.maxbuffer: watches piece by piece, whatever else passed over."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datatree.opcodes import OpCode
from datatree.request_decoding import decode
from datatree.requests import SetWatches
from zab.jute.framing import REQUEST_HEADER, request_frame
from zab.member.clients import long_requests
from zab.member.clients.long_requests import CUT_MARK, Cut, LongRequests, Piece
from zab.wire.frames import FrameError, FrameReader, frame

LIMIT = 60
NEXT = REQUEST_HEADER.pack(7, OpCode.GET_DATA)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_requests, "PIECE_BYTES", 50)


def read(stream: bytes, sizes: list[int], cut_bytes_max: int = 0) -> tuple[list[bytes], bool]:
    """The frames, and whether the stream was ended."""
    reader = FrameReader(LIMIT, LongRequests(LIMIT, cut_bytes_max))
    frames: list[bytes] = []
    at = turn = 0
    try:
        while at < len(stream):
            frames += reader.feed(stream[at : at + sizes[turn % len(sizes)]])
            assert reader.kept_bytes <= long_requests.PIECE_BYTES + LIMIT + 4 + sizes[turn % len(sizes)]
            at += sizes[turn % len(sizes)]
            turn += 1
    except FrameError as error:
        return frames + error.frames, True
    return frames, False


def watches_of(frames: list[bytes]) -> SetWatches:
    """All that these ask for together."""
    bodies: list[Any] = [decode(REQUEST_HEADER.unpack_from(each)[1], each, 8) for each in frames]
    lists = [
        sum((getattr(body, name) or () for body in bodies), ())
        for name in ("data", "exist", "child", "persistent", "recursive")
    ]
    assert {body.zxid for body in bodies} == {bodies[0].zxid}
    is_first_kind = bodies[0].persistent is None
    return SetWatches(bodies[0].zxid, *lists[:3]) if is_first_kind else SetWatches(bodies[0].zxid, *lists)


paths = st.lists(st.binary(max_size=LIMIT), max_size=12).map(tuple)
SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=20)


@given(st.tuples(paths, paths, paths), st.none() | st.tuples(paths, paths), st.binary(max_size=9), SIZES)
@settings(deadline=None)
def test_watches_of_any_size_are_asked_for_in_pieces_of_which_the_last_is_answered(
    first: Any, second: Any, trailing: bytes, sizes: list[int]
) -> None:
    asked = SetWatches(5, *first) if second is None else SetWatches(5, *first, *second)
    opcode = OpCode.SET_WATCHES if second is None else OpCode.SET_WATCHES2
    body = asked.encode() + trailing
    frames, is_ended = read(request_frame(-8, opcode, body) + frame(NEXT), sizes)
    assert not is_ended
    assert frames.pop() == NEXT
    assert watches_of(frames) == asked
    assert [type(each) for each in frames] == [Piece] * (len(frames) - 1) + [bytes]
    if len(body) + 8 > LIMIT:
        assert {REQUEST_HEADER.unpack_from(each) for each in frames} == {(-8, opcode)}
        assert all(len(each) <= 36 + 50 + 4 + LIMIT for each in frames)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (SetWatches(5, (b"/" + b"x" * LIMIT,), (), ()).encode(), 0),
        (SetWatches(5, (b"/a" * 20,) * 3, (), ()).encode()[:-4], 1),
        (bytes(8) + b"\0\0\0\x03\xff\xff\xff\xff" + bytes(60), 0),
        (bytes(8) + b"\xff\xff\xff\xfe" + bytes(60), 0),
        (bytes(8) + b"\x7f\xff\xff\xff" + (b"\0\0\0\x2e" + bytes(46)) * 2, 2),
    ],
    ids=["path that is too long", "breaks off", "null path", "negative count", "count that is too large"],
)
def test_watches_that_cannot_be_read_end_the_stream_after_the_pieces_before(body: bytes, whole: int, size: int) -> None:
    frames, is_ended = read(request_frame(-8, OpCode.SET_WATCHES, body) + frame(NEXT), [size])
    assert is_ended
    assert [type(each) for each in frames] == [Piece] * whole


def test_all_that_is_kept_of_watches_is_counted() -> None:
    """What waits for the next piece, too."""
    reader = FrameReader(LIMIT, LongRequests(LIMIT, 0))
    stream = request_frame(-8, OpCode.SET_WATCHES, SetWatches(5, (b"/a",) * 20, (), ()).encode())
    assert reader.feed(stream[: 4 + 8 + 8 + 4 + 6 * 5 + 3]) == []
    assert reader.kept_bytes == 6 * 5 + 3


def test_null_lists_are_empty() -> None:
    body = bytes(8) + b"\xff\xff\xff\xff" * 2 + b"\0\0\0\1\0\0\0\x2d" + b"/" * 45
    frames, _ = read(request_frame(-8, OpCode.SET_WATCHES, body), [1000])
    assert watches_of(frames) == SetWatches(0, (), (), (b"/" * 45,))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 150)), max_size=9), SIZES)
def test_whatever_else_is_passed_over_up_to_a_limit_if_its_xid_is_no_special_one(
    requests: list[tuple[int, int]], sizes: list[int]
) -> None:
    stream, expected, is_end = b"", [], False
    for xid, size in requests:
        request = request_frame(xid, OpCode.CREATE, bytes(size))
        stream += request
        is_long = size + 8 > LIMIT
        if is_long and not is_end:
            is_end = xid < 0 or size + 8 > 2 * LIMIT
        if not is_end:
            expected.append((Cut, request[4:8] + CUT_MARK) if is_long else (bytes, request[4:]))
    frames, is_ended = read(stream, sizes, 2 * LIMIT)
    assert [(type(each), bytes(each)) for each in frames] == expected
    assert is_ended == is_end


def test_a_request_that_is_passed_over_stands_there_before_the_rest_of_it() -> None:
    reader = FrameReader(LIMIT, LongRequests(LIMIT, 1 << 30))
    assert reader.feed(frame(b"\0\0\0\x05" + bytes(996))[:11]) == []
    assert reader.feed(bytes(993)) == [b"\0\0\0\x05" + CUT_MARK]
    assert reader.kept_bytes == 0
    assert reader.feed(frame(b"next")) == [b"next"]
