"""Requests of clients of all kinds to one broker without a host, so that it has figures to show.

rig = asked_broker()            a topic `t`, written and read; a group `g`, and one without members; a transactional id
client.ask(fetch("t", 0), 12)
"""

from __future__ import annotations

from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.client_quotas import AlterClientQuotasRequest, EntityData, OpData, QuotaAlteration
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from zab.kafka.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from zab.kafka.messages.transactions import InitProducerIdRequest

LINES = "offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"


def fetch(topic, offset, *, max_wait_ms=0):
    """A consumer's request for one partition."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic=topic, partitions=(partition,)),)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)


def asked_broker():
    """See the docstring of the module."""
    rig = OneBroker(LINES)
    rig.create("t")
    client = rig.client()
    _limit(client)
    for key_type in (0, 1):
        for _ in range(2):
            client.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2)
    client.ask(produce("t", a_batch(b"one")), 9)
    client.ask(fetch("t", 0), 12)
    _join(rig.client())
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=(offset,))
    client.ask(OffsetCommitRequest(group_id="e", member_id="", generation_id_or_member_epoch=-1, topics=(topic,)), 7)
    asked = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
    assert client.ask(asked, 4).error_code == ErrorCode.NONE
    return rig


def _limit(client):
    """Quotas of everybody who asks."""
    entity = tuple(EntityData(entity_type=type_, entity_name=None) for type_ in ("user", "client-id"))
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    ops = tuple(OpData(key=key, value=1e9, remove=False) for key in keys)
    entries = (QuotaAlteration(entity=entity, ops=ops),)
    [entry] = client.ask(AlterClientQuotasRequest(entries=entries, validate_only=False), 1).entries
    assert entry.error_code == ErrorCode.NONE


def _join(client):
    """A member that is alone in the group `g`, with its assignment."""
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b"topics"),)
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    client.send(JoinGroupRequest(group_id="g", member_id="", protocol_type="consumer", protocols=protocols, **times), 3)
    [joined] = client.answers()
    assert joined.error_code == ErrorCode.NONE
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    who = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    assert client.ask(SyncGroupRequest(group_id="g", assignments=(assignment,), **who), 3).assignment == b"mine"
