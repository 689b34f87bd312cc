"""The names of a znode's children, read page by page while they are taken: `async for name in zk.iter_children(…)`.

`Znodes.iter_children` says what is promised when children are created or deleted meanwhile.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

from zab.client.core.records import ChildrenPage

__all__ = ["ChildNames"]


class ChildNames:
    """Made by `Znodes.iter_children`; for one task at a time. read: reads the page after a name."""

    def __init__(self, read: Callable[[str], Awaitable[ChildrenPage]], after: str) -> None:
        self._read = read
        self._after = after
        self._names: deque[str] = deque()
        self._has_more = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._names:
            if not self._has_more:
                raise StopAsyncIteration
            names, self._has_more, _ = await self._read(self._after)
            self._names.extend(names)
            if names:
                self._after = names[-1]
        return self._names.popleft()
