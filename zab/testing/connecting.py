"""A client of an ensemble, for the code that asks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any


class Connecting:
    """`async with` in trio: the client of `zab.client`, until the block ends. Each block is a session of its own."""

    def __init__(self, hosts: str, options: Mapping[str, Any]) -> None:
        self._hosts = hosts
        self._options = options
        self._open_async: list[contextlib.AbstractAsyncContextManager[Any]] = []

    async def __aenter__(self) -> Any:
        from zab.client import connect

        client = connect(self._hosts, **self._options)
        entered = await client.__aenter__()
        self._open_async.append(client)
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._open_async.pop().__aexit__(kind, error, traceback)
