"""What stands first in a client's frames, and how long they may be."""

from zab.jute.framing import FRAME_BYTES_MAX, REQUEST_HEADER, request_frame
from zab.wire.frames import FrameReader


def test_a_request_is_framed_with_xid_and_opcode():
    raw = request_frame(7, -11, b"body")
    (payload,) = FrameReader(FRAME_BYTES_MAX).feed(raw)
    assert REQUEST_HEADER.unpack_from(payload) == (7, -11)
    assert payload[8:] == b"body"


def test_the_limit_is_zookeepers():
    assert FRAME_BYTES_MAX == 1_048_575
