"""What `connect` returns on trio and asyncio: the block that gives the client.

A program without `async with` gets an error that says so, in place of one about our internal names.
"""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, NoReturn

from zab.client.client import Client

__all__ = ["Connecting"]

_FORM: Final = "write: async with connect(hosts) as zk"


class Connecting(AbstractAsyncContextManager[Client]):
    """`async with connect(hosts) as zk`."""

    def __init__(self, block: AbstractAsyncContextManager[Client]) -> None:
        self._block = block

    async def __aenter__(self) -> Client:
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, traceback)

    def __await__(self) -> NoReturn:
        raise TypeError(f"connect is not awaited, since its block is the client's life; {_FORM}")

    def __enter__(self) -> NoReturn:
        raise TypeError(f"connect of trio and asyncio takes async with, that of zab.client.sync takes with; {_FORM}")

    def __exit__(self, *_: object) -> None:
        """Never called, since `__enter__` raises."""

    def __getattr__(self, name: str) -> Any:
        if name in dir(Client):
            raise AttributeError(f"connect(hosts) is no client yet, and has no {name}; {_FORM}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")
