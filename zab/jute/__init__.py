"""ZooKeeper's client protocol without I/O: frames, the handshake, and replies. Server and client use the same code.

It owns what surrounds a request on the wire; the bodies of the requests are in `datatree.requests`. Imports attrs and
`datatree` (jute's primitives, requests, error codes); never trio or sockets.
"""

from zab.jute.framing import FOUR_LETTER_WORDS, FRAME_BYTES_MAX, FrameError, FrameReader, frame, request_frame
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import MultiResult, ReplyHeader, WatcherEvent

__all__ = [
    "FOUR_LETTER_WORDS",
    "FRAME_BYTES_MAX",
    "ConnectRequest",
    "ConnectResponse",
    "FrameError",
    "FrameReader",
    "MultiResult",
    "ReplyHeader",
    "WatcherEvent",
    "frame",
    "request_frame",
]
