"""The history of a run while it is made: clients in several threads add what they did and were told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from tests.chaos.brokers.history import (
    Assign,
    Commit,
    Committed,
    History,
    Operation,
    Outcome,
    Partition,
    Poll,
    Record,
    Send,
    Transaction,
)

now = time.monotonic
_NAMES: Final = {
    Poll: "polls",
    Assign: "assigns",
    Commit: "commits",
    Committed: "committed",
    Transaction: "transactions",
}


class Recording:
    """What all clients did so far."""

    def __init__(self) -> None:
        self.operations: dict[type[Operation], list[Any]] = {kind: [] for kind in _NAMES}
        self.complaints: list[str] = []
        """What a client was told that no client should be told."""
        self.errors: dict[str, int] = {}
        self._sends: dict[str, Send] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def number(self) -> int:
        return next(self._numbers)

    def add(self, operation: Operation) -> None:
        self.operations[type(operation)].append(operation)

    def sent(self, send: Send) -> None:
        """A send that has begun, or the same one when more is known of it."""
        self._sends[send.value] = send

    def met(self, error: object) -> None:
        """An error that faults explain."""
        with self._lock:
            self.errors[str(error)] = self.errors.get(str(error), 0) + 1

    def acknowledged_count(self) -> int:
        return sum(send.outcome is Outcome.OK for send in list(self._sends.values()))

    def history(
        self, ends: Mapping[Partition, tuple[Record, ...]], replicas: Mapping[Partition, Mapping[str, bytes]]
    ) -> History:
        """All of it, and what was found at the end."""
        found = {name: tuple(self.operations[kind]) for kind, name in _NAMES.items()}
        return evolve(History(**found), sends=tuple(self._sends.values()), ends=ends, replicas=replicas)
