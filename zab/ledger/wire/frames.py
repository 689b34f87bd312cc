"""Frames of both versions: a length of 4 bytes that does not count itself, then the body.

The first byte of a body says its version, for each frame by itself (`is_v3`): a v2 frame begins with the version
number, a v3 frame with the tag of its header. So a connection may have frames of both, as clients of BookKeeper send
them that start TLS. Anything else ends the connection.

Limits: `FRAME_BYTES_MAX` for the body of one frame, configurable. A length above it ends the connection before anything
of the frame is kept. BookKeeper's setting `nettyMaxFrameSizeBytes` counts the length, too, and is 5 MiB; Pulsar's
clients send frames of up to 5,253,120 bytes.
"""

from __future__ import annotations

from typing import Final

from zab.wire.frames import FrameError, FrameReader

FRAME_BYTES_MAX: Final = 5_253_120
"""The default limit for the body of a frame: 5 MiB and 10 KiB."""

V2_VERSIONS: Final = (0, 1, 2)
V3_FIRST_BYTE: Final = 0x0A
"""Field 1, which is the header, with a length."""


class ProtocolError(ValueError):
    """The bytes break the protocol: their connection ends. The text says what is wrong."""


class FrameCutter:
    """Cuts the bytes of one connection into the bodies of frames, whatever pieces they arrive in."""

    __slots__ = ("_reader",)

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._reader = FrameReader(frame_bytes_max)

    @property
    def frame_bytes_max(self) -> int:
        """The limit for the body of a frame."""
        return self._reader.frame_bytes_max

    @property
    def kept_bytes(self) -> int:
        """How many bytes were fed but are in no frame yet."""
        return self._reader.kept_bytes

    def feed(self, data: bytes) -> tuple[list[bytes], ProtocolError | None]:
        """The bodies that `data` completes, in order, and what ended the stream after them. Then feed nothing more."""
        try:
            return self._reader.feed(data), None
        except FrameError as error:
            return error.frames, ProtocolError(str(error))


def is_v3(body: bytes) -> bool:
    """Whether the body of a frame is v3; otherwise it is v2. Raises ProtocolError if it is neither."""
    if not body:
        raise ProtocolError("an empty frame")
    first = body[0]
    if first == V3_FIRST_BYTE:
        return True
    if first in V2_VERSIONS:
        return False
    raise ProtocolError(f"a frame that begins with {first:#04x} is of no version")
