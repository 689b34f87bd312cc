"""The transaction coordinator: a state machine for each transactional id, whose records are in `__transaction_state`.

    in    advance(now, wall)         the time of this turn; what is due happens
          request(token, request)    a client's request (`requests`)
          on_producer_id             an id that nobody has, for a request that wants one
          on_marked                  what became of a marker
          verify                     whether partitions are part of an open transaction
    out   next_deadline()            when `advance` has something to do
          take_effects()             besides answers and appends: `WriteMarkers`, `WantProducerId`

Loads, appends and effects are those of every coordinator (`zab/partition/coordinator`).

A transition is one record, and nothing is done or answered before that is committed. While the log decides, the
transaction is busy, and every request is told to wait (CONCURRENT_TRANSACTIONS): so there is one transition at a time.

Where the parts are: `transaction` has the state and the table of transitions; `initializing`, `adding` and `ending` are
what producers ask, `expiry` what time does, `loading` the way back from the log.

This is the first flavour of transactions: the epoch of a producer stays the same from one transaction to the next. So
an EndTxn that comes very late, in the producer's next transaction, ends that one (the flaw that KIP-890's second part
mends).

Bounds: one transition of an id at a time; `APPENDS_MAX` appends of a partition; `PARTITIONS_MAX` partitions of a
transaction; an id that is unused for transactional.id.expiration.ms is forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.coordinator import Coordinator
from zab.partition.coordinator.effects import Token
from zab.partition.transactions.adding import add_partitions, verify
from zab.partition.transactions.context import Context, StatePartition, Surroundings, Timer
from zab.partition.transactions.describing import NAMES, described, listed
from zab.partition.transactions.ending import complete, end, marked, retry_markers
from zab.partition.transactions.expiry import Expiry
from zab.partition.transactions.initializing import initialize
from zab.partition.transactions.loading import LoadingPartition, finish
from zab.partition.transactions.requests import (
    AddPartitions,
    Describe,
    End,
    Initialize,
    List,
    OfOne,
    Request,
    Verify,
)
from zab.partition.transactions.results import Descriptions, Done, Initialized, Listed
from zab.partition.transactions.transaction import TopicPartition, Transaction

ID_BYTES_MAX: Final = 2**15 - 1
"""The records' strings have an int16 as their length."""
_ON_DUE: Final[dict[Timer, Callable[[Context, Transaction], None]]] = {
    Timer.MARKERS: retry_markers,
    Timer.COMPLETE: complete,
}


class TransactionCoordinator(Coordinator[LoadingPartition, StatePartition]):
    """See the top of the file. `now` is ms of a monotonic clock, `wall` ms since 1970."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        self._context = Context(surroundings, now, wall)
        super().__init__(self._context)
        self._expiry = Expiry(self._context)

    def advance(self, now: int, wall: int) -> None:
        context = self._context
        assert now >= context.now, "time went backwards"
        context.now, context.wall = now, wall
        while (key := context.deadlines.pop_due(now)) is not None:
            timer, transaction = key
            _ON_DUE[timer](context, transaction)
        self._expiry.advance(context)

    def next_deadline(self) -> int:
        due = self._context.deadlines.next_due()
        return self._expiry.due if due is None else min(due, self._expiry.due)

    def state_counts(self) -> Counter[str]:
        """How many transactional ids are in each state."""
        partitions = self._context.partitions.values()
        return Counter(NAMES[each.state.status] for partition in partitions for each in partition.transactions.values())

    # ------------------------------------------------------------------------------------------------------ requests

    def request(self, token: Token, request: Request) -> None:
        """A request of a client, which is answered under this token, now or later."""
        context = self._context
        context.open(token)
        if isinstance(request, Describe):
            ids = request.transactional_ids
            found = tuple(described(context, each, self._error(each, changes=False)) for each in ids)
            context.answer(token, Descriptions(found))
        elif isinstance(request, List):
            context.answer(token, self._listed(request))
        else:
            self._one(token, request, None)

    def _one(self, token: Token, request: OfOne, fresh_id: int | None) -> None:
        context = self._context
        error = self._error(request.transactional_id, changes=True)
        match request:
            case _ if error is not ErrorCode.NONE:
                is_first = isinstance(request, Initialize)
                context.answer(token, Initialized(error=error) if is_first else Done(error))
            case Initialize():
                initialize(context, token, request, fresh_id)
            case AddPartitions():
                add_partitions(context, token, request)
            case End():
                end(context, token, request)

    def _error(self, transactional_id: str, *, changes: bool) -> ErrorCode:
        if not transactional_id or len(transactional_id.encode()) > ID_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        return self._availability(self._context.partition_for(transactional_id), changes=changes)

    def _listed(self, request: List) -> Listed:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if self._is_stopping else ErrorCode.NONE
        if self._loading:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error is not ErrorCode.NONE:
            return Listed(error=error, unknown_states=(), transactions=())
        return listed(self._context, request)

    def on_producer_id(self, token: Token, producer_id: int | None) -> None:
        """The id that this request wanted; None: there is none now."""
        request = self._context.wanting.pop(token, None)
        if request is None:
            return
        if producer_id is None:
            self._context.answer(token, Initialized(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._one(token, request, producer_id)

    def verify(self, request: Verify) -> tuple[ErrorCode, ...]:
        """NONE for each partition that is part of the open transaction of this producer."""
        error = self._error(request.transactional_id, changes=False)
        return verify(self._context, request) if error is ErrorCode.NONE else (error,) * len(request.partitions)

    # ---------------------------------------------------------------------------------------------------- partitions

    def _begun(self, number: int, leader_epoch: int) -> LoadingPartition:
        return LoadingPartition(number, leader_epoch)

    def _finish(self, loading: LoadingPartition) -> None:
        finish(self._context, loading)

    def _let_go(self, partition: StatePartition, error: ErrorCode) -> None:
        context = self._context
        for transaction in partition.transactions.values():
            context.quiet(transaction)
        for token, request in list(context.wanting.items()):
            if context.partition_for(request.transactional_id) == partition.number:
                del context.wanting[token]
                context.answer(token, Initialized(error=error))

    def on_marked(self, marking: int, partition: TopicPartition, error: ErrorCode) -> None:
        """The marker of a `WriteMarkers` is committed in this partition, or its leader's error. What comes for a
        transaction that is over, or from before the partition was unloaded, is of no interest."""
        transaction = self._context.markings.get(marking)
        if transaction is not None:
            marked(self._context, transaction, partition, error)
