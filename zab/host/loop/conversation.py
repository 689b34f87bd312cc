"""A conversation: frames over one trio stream, beside the loop. It begins with a handshake; then each frame is sealed.

    talk = await introduce(stream, dialling)    we dialled
    greeted = await greet(stream, dialling)     the same, in two parts: who is there has proven it, and we have not yet
    talk = await greeted.prove()
    talk = await meet(stream, listening)        we were dialled; who is refused is told why
    await talk.send(payload)
    payload = await talk.receive()

For what takes its time: links that many frames go over are the loop's (`zab.host.loop.links`). How long something may
take is the caller's to say, by cancelling it; what was received before that is not lost.

Not here: what payloads mean.
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
"""What ends a dial, a handshake or a conversation."""

S = TypeVar("S", bound=trio.abc.HalfCloseableStream)


class Conversation:
    """One stream after its handshake, as `agreed` says. Frames have at most `GREETING_BYTES_MAX`, unless
    `frame_bytes_max` says more."""

    def __init__(self, stream: trio.abc.HalfCloseableStream, agreed: Agreed, received: bytes = b"") -> None:
        self.stream = stream
        self.agreed = agreed
        self._frames = FrameReader(GREETING_BYTES_MAX + SEAL_BYTES)
        self._fed = received

    @property
    def frame_bytes_max(self) -> int:
        """The longest payload that may come."""
        return self._frames.frame_bytes_max - SEAL_BYTES

    @frame_bytes_max.setter
    def frame_bytes_max(self, limit: int) -> None:
        self._frames.frame_bytes_max = limit + SEAL_BYTES

    async def send(self, payload: bytes) -> None:
        """Send one payload. Raises trio.BrokenResourceError."""
        seal = self.agreed.sending
        await self.stream.send_all(frame(payload if seal is None else seal.put(payload)))

    async def receive(self) -> bytes:
        """The next payload. Raises EOFError at the end of the stream, FrameError, MessageError where a seal is wrong,
        and trio.BrokenResourceError."""
        fed, self._fed = self._fed, b""
        payload = await _next(self.stream, self._frames, fed)
        seal = self.agreed.receiving
        return payload if seal is None else seal.take(payload)


@attrs.frozen
class Greeted(Generic[S]):
    """A stream that we dialled, at whose other end is who he should be. We have not said who we are."""

    stream: S
    handshake: Dialling
    proof: bytes
    """What is left to be sent."""
    agreed: Agreed
    took_seconds: float
    """The round trip of the stream."""

    async def prove(self) -> Conversation:
        """Raises trio.BrokenResourceError."""
        await self.stream.send_all(frame(self.proof))
        return Conversation(self.stream, self.agreed)


def reason_of(error: Exception) -> str:
    """What a journal says of one of them, or of a time that is over."""
    if isinstance(error, trio.TooSlowError):
        return "it does not answer in time"
    return str(error) or ("it closed the connection" if isinstance(error, EOFError) else type(error).__name__)


async def greet(stream: S, handshake: Dialling) -> Greeted[S]:
    """The first part of the handshake of a stream that we dialled. Raises one of `FAILURES`."""
    frames = FrameReader(GREETING_BYTES_MAX)
    began = trio.current_time()
    await stream.send_all(frame(handshake.hello()))
    proof, agreed = handshake.welcomed(await _next(stream, frames))
    if frames.kept_bytes:
        raise MessageError("it says more before we have proven who we are")
    return Greeted(stream, handshake, proof, agreed, trio.current_time() - began)


async def introduce(stream: trio.abc.HalfCloseableStream, handshake: Dialling) -> Conversation:
    """The handshake of a stream that we dialled. Raises one of `FAILURES`."""
    return await (await greet(stream, handshake)).prove()


async def meet(stream: trio.abc.HalfCloseableStream, handshake: Listening) -> Conversation:
    """The handshake of a stream from somebody who dialled us. Raises as `Conversation.receive` does."""
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
