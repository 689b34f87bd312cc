"""A client of an ensemble for plain code, trio or asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from zab.testing.kit.in_thread import Library, library


class Connecting:
    """A client of `zab.client`, by `with` in plain code and `async with` in trio and asyncio. Each block has a session
    of its own."""

    def __init__(self, hosts: str, options: Mapping[str, Any]) -> None:
        self._hosts = hosts
        self._options = options
        self._open: list[contextlib.AbstractContextManager[Any]] = []
        self._open_async: list[contextlib.AbstractAsyncContextManager[Any]] = []

    def __enter__(self) -> Any:
        if library() is not Library.NONE:
            raise RuntimeError("this is asynchronous code: write `async with`")
        from zab.client.sync import connect

        client = connect(self._hosts, **self._options)
        self._open.append(client)
        return client.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._open.pop().__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        client: contextlib.AbstractAsyncContextManager[Any]
        if library() is Library.ASYNCIO:
            from zab.client import aio

            client = aio.connect(self._hosts, **self._options)
        else:
            from zab.client import connect

            client = connect(self._hosts, **self._options)
        entered = await client.__aenter__()
        self._open_async.append(client)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._open_async.pop().__aexit__(kind, error, traceback)
