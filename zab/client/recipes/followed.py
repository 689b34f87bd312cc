"""The base of a cache and a configuration: a `Copy` that is kept up to date for the length of a block."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from zab.client.recipes.copy import Copy

__all__ = ["Followed"]


class Followed(ABC):
    """`async with`: starts it, and closes it at the end."""

    _copy: Copy

    @abstractmethod
    async def start(self) -> None:
        """Returns when all of it was read."""

    def close(self) -> None:
        """Stops following changes, and keeps what it has."""
        self._copy.stop()

    async def __aenter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.close)
            await self.start()
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
