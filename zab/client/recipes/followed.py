"""What is made of a `Copy`, which is followed for as long as a block: a cache, a configuration."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from zab.client.recipes.copy import Copy

__all__ = ["Followed"]


class Followed(ABC):
    """See the module."""

    _copy: Copy

    @abstractmethod
    async def start(self) -> None:
        """Returns when all of it is there."""

    def close(self) -> None:
        """Keeps what it has, and follows nothing any more."""
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
