"""Watchers, states, changes, names of children and transactions for threads that block."""

from types import TracebackType
from typing import Self

import zab.client.core.changes as awaited_changes
import zab.client.core.watcher as awaited_watcher
from zab.client.core.operations import Operations
from zab.client.core.records import Change, Place, Stat, State, WatchEvent
from zab.client.core.transaction import Parts, Perform
from zab.client.sync.blocking import Iterated, Runner, blocking, immediate

__all__ = ["Changes", "ChildNames", "StateChanges", "Transaction", "Watcher"]


class Watcher(Iterated[WatchEvent]):
    """Made by `Client.watcher` and `Client.watch`: `for event in watcher`, or `receive`, or `receive_nowait`."""

    waiting: awaited_watcher.Watcher

    def __repr__(self) -> str:
        return repr(self.waiting)

    receive = blocking(awaited_watcher.Watcher.receive)
    receive_nowait = immediate(awaited_watcher.Watcher.receive_nowait)
    close = immediate(awaited_watcher.Watcher.close)


class StateChanges(Iterated[State]):
    """`for state in …`: the state at the time of asking, then every change, until the session is over."""


class Changes(Iterated[Change]):
    """Made by `Client.changes`: `for change in changes`, or `receive`, by one thread at a time."""

    waiting: awaited_changes.Changes

    def __repr__(self) -> str:
        return repr(self.waiting)

    @property
    def place(self) -> Place | None:
        """After the last change given out. None until the start of a `since` of None is known."""
        return self.waiting.place

    receive = blocking(awaited_changes.Changes.receive)


class ChildNames(Iterated[str]):
    """Made by `Znodes.iter_children`: `for name in …`, by one thread at a time."""


class Transaction(Parts):
    """Made by `Client.transaction`. `results` is set by `commit`: one value per operation, in order."""

    def __init__(self, runner: Runner, operations: Operations, perform: Perform) -> None:
        super().__init__(operations)
        self._runner = runner
        self._perform = perform

    def commit(self) -> list[str | Stat | None]:
        """Sends it. Raises what the first refused operation would raise alone, or what any request may raise."""
        return self._runner.run(self.send(self._perform))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self.results is None:
            self.commit()
