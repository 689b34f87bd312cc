"""A transactional producer of tests, as a client library is one, over a client of `OneBroker` or `SeveralBrokers`."""

from __future__ import annotations

import attrs

from tests.partition.one_broker import a_batch, produce
from zab.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ID = "id"


@attrs.define
class Transactional:
    """A producer, as a client library is one."""

    client: object
    producer_id: int = -1
    epoch: int = -1
    name: str = ID
    sequences: dict = attrs.Factory(dict)

    def init(self, version=4, **fields):
        asked = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000, **fields)
        answer = self.client.ask(asked, version)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return answer.error_code

    @property
    def _who(self):
        return {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def add(self, topic="t", *indexes, version=3):
        topics = (AddPartitionsToTxnTopic(name=topic, partitions=indexes or (0,)),)
        answer = self.client.ask(AddPartitionsToTxnRequest(**self._who, topics=topics), version)
        return [each.partition_error_code for each in answer.results_by_topic[0].results_by_partition]

    def batch(self, *values, index=0, is_transactional=True):
        at = self.sequences.get(index, 0)
        return a_batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=at,
            is_transactional=is_transactional,
        )

    def send(self, *values, topic="t", index=0, name=ID, **options):
        request = produce(topic, self.batch(*values, index=index, **options), index=index, transactional_id=name)
        [answered] = self.client.ask(request, 9).responses
        error = answered.partition_responses[0].error_code
        if not error:
            self.sequences[index] = self.sequences.get(index, 0) + len(values)
        return error

    def end(self, commits=True, version=3):
        return self.client.ask(EndTxnRequest(**self._who, committed=commits), version).error_code

    def add_offsets(self, group="g"):
        return self.client.ask(AddOffsetsToTxnRequest(**self._who, group_id=group), 3).error_code

    def commit_offset(self, offset, group="g"):
        asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        topics = (TxnOffsetCommitRequestTopic(name="t", partitions=(asked,)),)
        [topic] = self.client.ask(TxnOffsetCommitRequest(**self._who, group_id=group, topics=topics), 3).topics
        return topic.partitions[0].error_code
