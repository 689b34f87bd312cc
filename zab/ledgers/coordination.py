"""What the cores ask of the coordination service, done in the session of a client that is there already.

    submit(asker, effect)      the operations are sent in order; their results are given to the asker together

It is a job of the client (`zab.client.core.background`): what is submitted while no server is connected waits, and what
was sent when the connection broke is answered CONNECTIONLOSS. So no core has to be told when the connection comes and
goes; it is told when the session is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field

from zab.client import Client, ZabError
from zab.client.core.operations import Operation
from zab.client.pure_operations import operation_of, result_of
from zab.coordination import operations as asked_for
from zab.coordination.driver import Results, Submit, WatchFired
from zab.coordination.operations import Result
from zab.ledgers.settings import StoreSettings


class Asker(Protocol):
    def give(self, told: Results | WatchFired, /) -> None: ...


@define(eq=False)
class _Batch:
    asker: Asker
    number: int
    results: list[Result]
    missing: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.missing = len(self.results)


class CoordinationJob:
    """`ended`: called once, when the session is over."""

    is_done = False

    def __init__(self, zk: Client, settings: StoreSettings, ended: Callable[[ZabError], None]) -> None:
        self._zk = zk
        self._acl = settings.acl
        self._tell_end = ended
        self._queue: deque[tuple[_Batch, int, asked_for.Operation]] = deque()
        self._under_way: dict[int, tuple[_Batch, int, asked_for.Operation, Operation[Any]]] = {}

    def submit(self, asker: Asker, effect: Submit) -> None:
        """Send these operations, one after the other."""
        batch = _Batch(asker, effect.batch, [Result()] * len(effect.operations))
        self._queue += ((batch, index, each) for index, each in enumerate(effect.operations))
        self._zk.stir(self)

    # The job.

    def next(self) -> Operation[Any] | None:
        if not self._queue:
            return None
        batch, index, asked = self._queue.popleft()
        operation = operation_of(self._zk.operations, asked, lambda _path: self._acl, batch.asker.give)
        self._under_way[id(operation)] = (batch, index, asked, operation)
        return operation

    def answered(self, operation: Operation[Any], result: Any, error: ZabError | None) -> None:
        batch, index, asked, _ = self._under_way.pop(id(operation))
        batch.results[index] = result_of(asked, result if error is None else error)
        batch.missing -= 1
        if not batch.missing:
            batch.asker.give(Results(batch.number, tuple(batch.results)))

    def ended(self, reason: ZabError) -> None:
        self.is_done = True
        self._queue.clear()
        self._under_way.clear()
        self._tell_end(reason)
