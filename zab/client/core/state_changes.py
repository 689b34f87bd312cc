"""The states of a session as an iterator."""

from collections import deque

from zab.client.core.backends import Backend, ParkingLot
from zab.client.core.records import State

__all__ = ["StateChanges"]


class StateChanges:
    """`async for state in …`: the state at the time of asking, then every change, until the session is over."""

    def __init__(self, backend: Backend, state: State, state_count_max: int) -> None:
        self._backend = backend
        self._states = deque([state], maxlen=state_count_max)
        self._changed = ParkingLot(backend)
        self._last = state

    def push(self, state: State) -> None:
        self._last = state
        self._states.append(state)
        self._changed.unpark_all()

    def __aiter__(self) -> "StateChanges":
        return self

    async def __anext__(self) -> State:
        await self._backend.checkpoint()
        while not self._states:
            if self._last.is_over:
                raise StopAsyncIteration
            await self._changed.park()
        return self._states.popleft()
