"""Frames over one trio stream, beside the loop. They begin with a handshake; then each frame is sealed.

    talk = await introduce(stream, dialling)    for a stream that we dialled
    greeted = await greet(stream, dialling)     the same in two parts: after this one only the peer has proven its
                                                identity
    talk = await greeted.prove()
    talk = await meet(stream, listening)        for a stream that was dialled to us; a refused peer is told why
    await talk.send(payload)
    payload = await talk.receive()

For slow exchanges: links, which carry many frames, belong to the loop (`zab.host.loop.links`). Callers limit the time
by cancelling; bytes received before that are not lost.

Not here: the meaning of payloads.
"""

from __future__ import annotations

import contextlib
from typing import Final, Generic, TypeVar

import attrs
import trio

from zab.wire.frames import GREETING_BYTES_MAX, FrameError, FrameReader, frame
from zab.wire.handshake import Agreed, Dialling, Listening, refusal
from zab.wire.records import MessageError
from zab.wire.seal import SEAL_BYTES

RECEIVE_BYTES: Final = 64 << 10
REFUSING_SECONDS: Final = 2.0
FAILURES: Final = (OSError, EOFError, trio.BrokenResourceError, FrameError, MessageError)
"""Exceptions that end a dial, a handshake or a conversation."""

S = TypeVar("S", bound=trio.abc.HalfCloseableStream)


class Conversation:
    """One stream after its handshake, whose result is `agreed`. Frames have at most `GREETING_BYTES_MAX`, unless
    `frame_bytes_max` is raised."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, agreed: Agreed, received: bytes = b"") -> None:
        self.stream = stream
        self.agreed = agreed
        self._frames = FrameReader(GREETING_BYTES_MAX + SEAL_BYTES)
        self._fed = received

    @property
    def frame_bytes_max(self) -> int:
        """The longest payload that is accepted."""
        return self._frames.frame_bytes_max - SEAL_BYTES

    @frame_bytes_max.setter
    def frame_bytes_max(self, limit: int) -> None:
        self._frames.frame_bytes_max = limit + SEAL_BYTES

    async def send(self, payload: bytes) -> None:
        """Send one payload. Raises trio.BrokenResourceError."""
        seal = self.agreed.sending
        await self.stream.send_all(frame(payload if seal is None else seal.put(payload)))

    async def receive(self) -> bytes:
        """The next payload. Raises EOFError at the end of the stream, FrameError, MessageError for a wrong seal, and
        trio.BrokenResourceError."""
        fed, self._fed = self._fed, b""
        payload = await _next(self.stream, self._frames, fed)
        seal = self.agreed.receiving
        return payload if seal is None else seal.take(payload)


@attrs.frozen
class Greeted(Generic[S]):
    """A stream that we dialled, whose peer has proven its identity. We have not proven ours yet."""

    stream: S
    handshake: Dialling
    proof: bytes
    """Our proof, which is still to be sent."""
    agreed: Agreed
    took_seconds: float
    """The round-trip time of the stream."""

    async def prove(self) -> Conversation:
        """Send our proof. Raises trio.BrokenResourceError."""
        await self.stream.send_all(frame(self.proof))
        return Conversation(self.stream, self.agreed)


def reason_of(error: Exception) -> str:
    """The reason for the journal, for one of `FAILURES` or a timeout."""
    if isinstance(error, trio.TooSlowError):
        return "it does not answer in time"
    return str(error) or ("it closed the connection" if isinstance(error, EOFError) else type(error).__name__)


async def greet(stream: S, handshake: Dialling) -> Greeted[S]:
    """Do the first part of the handshake of a stream that we dialled. Raises one of `FAILURES`."""
    frames = FrameReader(GREETING_BYTES_MAX)
    began = trio.current_time()
    await stream.send_all(frame(handshake.hello()))
    proof, agreed = handshake.welcomed(await _next(stream, frames))
    if frames.kept_bytes:
        raise MessageError("it says more before we have proven who we are")
    return Greeted(stream, handshake, proof, agreed, trio.current_time() - began)


async def introduce(stream: trio.abc.HalfCloseableStream, handshake: Dialling) -> Conversation:
    """Do the handshake of a stream that we dialled. Raises one of `FAILURES`."""
    return await (await greet(stream, handshake)).prove()


async def meet(stream: trio.abc.HalfCloseableStream, handshake: Listening) -> Conversation:
    """Do the handshake of a stream that was dialled to us. Raises as `Conversation.receive` does."""
    frames = FrameReader(GREETING_BYTES_MAX)
    try:
        await stream.send_all(frame(handshake.welcome(await _next(stream, frames))))
        agreed = handshake.proven(await _next(stream, frames))
    except MessageError as error:
        with trio.move_on_after(REFUSING_SECONDS), contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(frame(refusal(str(error))))
        raise
    return Conversation(stream, agreed, frames.rest())


async def _next(stream: trio.abc.HalfCloseableStream, frames: FrameReader, data: bytes = b"") -> bytes:
    payload = frames.feed_one(data)
    while payload is None:
        received = bytes(await stream.receive_some(RECEIVE_BYTES))
        if not received:
            raise EOFError
        payload = frames.feed_one(received)
    return payload
