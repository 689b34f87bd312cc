"""The requests that wait for replicas: each until it can be answered or its time is up, or nobody wants the answer.

What waits of each connection is known, of a client or of a follower, so that it goes with the connection.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from zab.partition.purgatory.purgatory import Purgatory, Waiting
from zab.partition.replica.replica import Replica
from zab.partition.requests.connection import ClientConnection
from zab.partition.requests.fetch import Fetching
from zab.partition.requests.offsets import Deleting
from zab.partition.requests.produce import Produced

NEVER: Final = 1 << 62
Operation: TypeAlias = Produced | Fetching | Deleting


class WaitingRequests:
    """See the docstring of the module. Times are monotonic ms."""

    def __init__(self, now: int) -> None:
        self._purgatory: Purgatory[Operation] = Purgatory(now)
        self._of_connections: dict[ClientConnection, dict[Waiting[Operation], None]] = {}
        self._owners: dict[Operation, Waiting[Operation]] = {}
        self.counts: Counter[type] = Counter()
        """How many wait, by their class."""
        self.expired_counts: Counter[type] = Counter()
        """How many waited until their time was up, by their class."""

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def has_touched(self) -> bool:
        """Whether something happened to a replica since the last `settle`."""
        return self._purgatory.has_touched

    def next_deadline(self) -> int:
        """When the time of the first is up."""
        deadline = self._purgatory.next_deadline()
        return NEVER if deadline is None else deadline

    def add(self, connection: ClientConnection) -> None:
        """Requests of this connection may wait from now on."""
        self._of_connections.setdefault(connection, {})

    def forget(self, connection: ClientConnection) -> bool:
        """Nothing of this connection is answered any longer. False: it was forgotten before."""
        waits = self._of_connections.pop(connection, None)
        for waiting in waits or ():
            self._purgatory.withdraw(waiting)
            del self._owners[waiting.operation]
            self.counts[type(waiting.operation)] -= 1
        return waits is not None

    def wait(self, operation: Operation, deadline: int) -> None:
        """Let a request wait for the replicas that it names, unless its connection is gone."""
        if operation.request.connection not in self._of_connections:
            return
        waiting = self._purgatory.watch(operation, operation.keys(), deadline)
        if waiting is None:
            operation.complete()
            return
        self._owners[operation] = waiting
        self.counts[type(operation)] += 1
        self._of_connections[operation.request.connection][waiting] = None

    def touch(self, replica: Replica) -> None:
        """Something happened to this replica."""
        self._purgatory.touch(replica.key)

    def settle(self, now: int) -> bool:
        """Answer what can be answered, and what is late. False: there was nothing."""
        settled = self._purgatory.settle(now)
        for each in settled:
            operation = each.operation
            waiting = self._owners.pop(operation)
            self.counts[type(operation)] -= 1
            self.expired_counts[type(operation)] += each.has_expired
            del self._of_connections[operation.request.connection][waiting]
            operation.complete()
        return bool(settled)
