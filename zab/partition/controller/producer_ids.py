"""Producer ids: each broker gives out the ids of its own block, and asks for the next one before that is used up.

/latest_producer_id_block has the last block that was given out. It is written before the broker is told, with the
version that was read: no block is given out twice. If the answer to a write is lost, its block is never used.
"""

from __future__ import annotations

from typing import Final

from zab.coordination.operations import CoordinationError, Get, Set, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller.fencing import fenced, write
from zab.partition.controller.requests import AllocateProducerIds, Answer
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import PRODUCER_IDS, MalformedError, ProducerIdBlock

BLOCK_IDS: Final = 1000
_LAST_ID: Final = 2**63 - 1


def allocate(state: ControllerState, asked: AllocateProducerIds) -> Steps[None]:
    broker = state.brokers.get(asked.broker_id)
    if broker is None or broker.epoch != asked.broker_epoch:
        state.answer(Answer(asked.token, ErrorCode.STALE_BROKER_EPOCH))
        return
    while True:
        (found,) = yield from read((Get(PRODUCER_IDS),))
        data = found.must(PRODUCER_IDS).data
        try:
            first = ProducerIdBlock.decode(data).last + 1 if data else 0
            block = ProducerIdBlock(broker.id, first, first + BLOCK_IDS - 1)
            if block.last > _LAST_ID:
                raise MalformedError(PRODUCER_IDS, "all producer ids are used up")
        except MalformedError as error:
            # To begin again at 0 would give out ids that are in use.
            state.report(str(error))
            state.answer(Answer(asked.token, ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        (result,) = yield from write(state, (fenced(state, Set(PRODUCER_IDS, block.encode(), found.stat.version)),))
        if result.ok:
            state.answer(Answer(asked.token, producer_ids=(block.first, BLOCK_IDS)))
            return
        if not (result.is_lost or result.error == ZooKeeperError.BADVERSION):
            raise CoordinationError(PRODUCER_IDS, result.error)
