"""Answers of an ASGI application beside the loop: made piece by piece, in turns, in bounded time.

    Pieces      a body that is sent as it is made
    InTurn      an answer that is made and sent in one of a few turns
    Followed    an answer after which something is done
    json_body   a value as JSON, in pieces

Between two pieces the loop has its turn, so a long answer holds up nobody.

Not here: HTTP itself (`http_server`); what is answered.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

JSON_BYTES: Final = 64 << 10
"""About the size of a piece of JSON."""

ENCODER: Final = json.JSONEncoder(indent=2, separators=(",", " : "))
"""JSON as ZooKeeper's admin server writes it."""


class Pieces(Response):
    """A body that is made piece by piece. The application ends it itself: Starlette's own response would leave a
    connection open that its client wants closed."""

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
    """An answer after which `then` is called, also when the client is gone before it has the whole answer."""

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
    """An answer that is made and sent in one of a few turns, because it is in memory until it is sent. An answer that
    takes longer than `seconds` is cut off, so that others have their turn."""

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
    """The value as JSON, in pieces between which others have their turn."""
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
