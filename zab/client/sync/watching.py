"""What a client gives out that is read or filled step by step, for threads: watchers, states, changes, transactions."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import zab.client as waiting
import zab.client.child_names as waiting_names
from zab.client.core.operations import Operations
from zab.client.core.records import Change, Place, Stat, State, WatchEvent
from zab.client.core.transaction import Parts, Perform
from zab.client.on_threads import OnThreads

__all__ = ["Changes", "ChildNames", "StateChanges", "Transaction", "Watcher"]


class Watcher:
    """Made by `Client.watcher` and `Client.watch`: `for event in watcher`, or `receive`, or `receive_nowait`."""

    def __init__(self, backend: OnThreads, watcher: waiting.Watcher) -> None:
        self._backend = backend
        self.waiting = watcher

    def __repr__(self) -> str:
        return repr(self.waiting)

    def receive(self) -> WatchEvent:
        """The next event; waits for it. Raises what ended the watcher once its queue is empty."""
        return self._backend.run(self.waiting.receive())

    def receive_nowait(self) -> WatchEvent | None:
        """The next event that is queued already, None without one. Raises what ended the watcher."""
        with self._backend.alone():
            return self.waiting.receive_nowait()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        try:
            return self.receive()
        except waiting.ClientClosedError:
            raise StopIteration from None

    def close(self) -> None:
        """Hears no more: all its watches are released."""
        with self._backend.alone():
            self.waiting.close()


class StateChanges:
    """`for state in …`: the state at the time of asking, then every change, until the session is over."""

    def __init__(self, backend: OnThreads, states: waiting.StateChanges) -> None:
        self._backend = backend
        self._states = states

    def __iter__(self) -> Iterator[State]:
        return self

    def __next__(self) -> State:
        try:
            return self._backend.run(self._states.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Changes:
    """Made by `Client.changes`: `for change in changes`, or `receive`, by one thread at a time."""

    def __init__(self, backend: OnThreads, changes: waiting.Changes) -> None:
        self._backend = backend
        self._changes = changes

    def __repr__(self) -> str:
        return repr(self._changes)

    @property
    def place(self) -> Place | None:
        """After the last change given out. None until it is known where a `since` of None begins."""
        return self._changes.place

    def receive(self) -> Change:
        """The next change; waits for it."""
        return self._backend.run(self._changes.receive())

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.receive()
        except waiting.ClientClosedError:
            raise StopIteration from None


class ChildNames:
    """Made by `Znodes.iter_children`: `for name in …`, by one thread at a time."""

    def __init__(self, backend: OnThreads, names: waiting_names.ChildNames) -> None:
        self._backend = backend
        self._names = names

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return self._backend.run(self._names.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Transaction(Parts):
    """Made by `Client.transaction`. `results` is there after `commit`: one value per operation, in their order."""

    def __init__(self, backend: OnThreads, operations: Operations, perform: Perform) -> None:
        super().__init__(operations)
        self._backend = backend
        self._perform = perform

    def commit(self) -> list[str | Stat | None]:
        """Sends it. Raises what the first refused operation raises alone, or what any request may raise."""
        return self._backend.run(self.send(self._perform))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self.results is None:
            self.commit()
