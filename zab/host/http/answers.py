"""Answers of an ASGI application beside the loop: made in pieces, a few at a time, in bounded time.

    Pieces      a body that is sent while it is made
    InTurn      an answer that is made and sent when it gets one of a few slots
    Followed    an answer, and a call after it
    json_body   a value as JSON, in pieces

The loop runs between two pieces, so a long answer delays nobody.

Not here: HTTP itself (`http_server`); the content of answers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

JSON_BYTES: Final = 64 << 10
"""The approximate size of a piece of JSON."""

ENCODER: Final = json.JSONEncoder(indent=2, separators=(",", " : "))
"""Writes JSON like ZooKeeper's admin server."""


class Pieces(Response):
    """A body that is made in pieces. It ends the response itself: Starlette's own response would leave a connection
    open that its client wants closed."""

    def __init__(self, pieces: AsyncIterator[bytes], media_type: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Followed(Response):
    """An answer after which `then` is called, even if the client disconnects before it has the whole answer."""

    def __init__(self, answer: Response, then: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._answer = answer
        self._then = then

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            await self._then()


class InTurn(Response):
    """An answer that is made and sent when it gets one of a few slots, since it is in memory until it is sent. An
    answer that takes longer than `seconds` is cut off, to free its slot."""

    def __init__(self, turns: trio.Semaphore, seconds: float, make: Callable[[], Awaitable[Response]]) -> None:
        super().__init__()
        self._turns = turns
        self._seconds = seconds
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._turns:
            with trio.move_on_after(self._seconds):
                response = await self._make()
                await response(scope, receive, send)


async def json_body(value: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """The value as JSON, in pieces between which other tasks run."""
    for piece in _joined(ENCODER.iterencode(value)):
        yield piece
        await trio.lowlevel.checkpoint()


def _joined(chunks: Iterator[str]) -> Iterator[bytes]:
    kept: list[str] = []
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        if size >= JSON_BYTES:
            yield "".join(kept).encode()
            kept.clear()
            size = 0
    yield "".join(kept).encode()
