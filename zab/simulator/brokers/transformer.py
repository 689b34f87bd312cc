"""A member of a group that reads records, and writes a result of each in the transaction that commits its offset
(consume, transform, produce): so each record has one committed result, whatever crashes (KIP-447).

Where a transaction does not come to a good end, it is aborted, and the member goes back to what is committed.
"""

from __future__ import annotations

from typing import Any, Final

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from zab.partition.records.record import Record
from zab.simulator.brokers.assignors import Partition
from zab.simulator.brokers.committed_offsets import Commit, GroupJudge
from zab.simulator.brokers.group_client import GroupClient
from zab.simulator.brokers.group_member import GroupMember
from zab.simulator.brokers.scripted_client import BACKOFF_US, MOVED, Script
from zab.simulator.brokers.transactional_producer import AbortingError, FencedError, Style, Transactions
from zab.simulator.brokers.transactions import Attempt, TransactionJudge

ADD_OFFSETS_VERSION: Final = 3
TXN_COMMIT_VERSION: Final = 3
COMMITS_MAX: Final = 5
"""How often an offset is sent before its transaction is aborted."""
CRASH_SHARE: Final = 0.02


class Transformer(GroupMember):
    """See the docstring of the module."""

    def __init__(self, client: TransformerClient, judge: GroupJudge, transactions: Transactions) -> None:
        super().__init__(client, judge, client.style)
        self._transactions = transactions
        self._has_begun = False

    def commit(self) -> Script[None]:
        """Offsets are committed with results alone."""
        yield from ()

    def work(self) -> Script[None]:
        """Read from one partition, and write the results."""
        transactions = self._transactions
        try:
            if not self._has_begun:
                yield from transactions.begin()
                self._has_begun = True
                return
            found = yield from self.poll()
            if found is None:
                return
            partition, records = found
            attempt = transactions.judge.begins(transactions.style.transactional_id)
            commit = self.judge.commits_now(self.now, self.place(partition), records[-1].offset + 1, self.generation)
            try:
                yield from self._transform(attempt, partition, records, commit)
                self.judge.acknowledged(self.now, self.place(partition), commit)
                self.judge.processed(self.style.group, *partition, (each.offset for each in records))
            except AbortingError:
                attempt.may_commit = attempt.has_asked and attempt.may_commit
                yield from transactions.begin(keeps=True)
                self._go_back(partition)
            finally:
                commit.is_refused |= not attempt.may_commit
            yield from self.find_positions()
        except FencedError:
            self.client.cluster.judge.counts["transformers fenced"] += 1
            self.crash()

    def _go_back(self, partition: Partition) -> None:
        if partition in self.positions:
            self.positions[partition] = -1

    def _transform(self, attempt: Attempt, partition: Partition, records: list[Record], commit: Commit) -> Script[None]:
        transactions, topic = self._transactions, self._transactions.style.topic
        indexes = yield from self.client.partitions(topic)
        if not indexes:
            raise AbortingError
        sources = [(*partition, each.offset) for each in records]
        index = self.rng.choice(indexes)
        yield from transactions.add(attempt, topic, [index])
        half = len(sources) // 2
        for part in (sources[:half], sources[half:]):
            if part:
                yield from transactions.send(attempt, topic, index, part)
        if self.client.chance(CRASH_SHARE):
            attempt.may_commit = False
            self.crash()
            # The script has ended: it does not go on from here.
            yield self.client.pause(BACKOFF_US)
        body = AddOffsetsToTxnRequest(
            transactional_id=transactions.style.transactional_id,
            producer_id=transactions.producer[0],
            producer_epoch=transactions.producer[1],
            group_id=self.style.group,
        )
        _, errors = yield from transactions.ask(body, ADD_OFFSETS_VERSION)
        if errors:
            raise AbortingError
        yield from self._commit_in(partition, commit)
        yield from transactions.end(attempt, commits=True)

    def _commit_in(self, partition: Partition, commit: Commit) -> Script[None]:
        """The offset, as part of the transaction."""
        style = self._transactions.style
        offset = TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=commit.offset, committed_metadata=str(commit.number)
        )
        body = TxnOffsetCommitRequest(
            transactional_id=style.transactional_id,
            group_id=self.style.group,
            producer_id=self._transactions.producer[0],
            producer_epoch=self._transactions.producer[1],
            generation_id=commit.generation,
            member_id=self.member_id,
            group_instance_id=self.style.instance_id,
            topics=(TxnOffsetCommitRequestTopic(name=partition[0], partitions=(offset,)),),
        )
        for _ in range(COMMITS_MAX):
            commit.begun_at = self.now
            answer = yield from self.ask(body, TXN_COMMIT_VERSION)
            if answer is not None:
                error = ErrorCode(answer.topics[0].partitions[0].error_code)
                if error is ErrorCode.NONE:
                    self.judge.check_generation(self.style.group, commit)
                    return
                self.take(error)
                if error not in MOVED:
                    break
            yield self.client.pause(BACKOFF_US)
        raise AbortingError


class TransformerClient(GroupClient):
    """Keeps one transformer running; all its processes have one transactional id."""

    def __init__(
        self, *surroundings: Any, transaction_judge: TransactionJudge, transactions: Style, **how: Any
    ) -> None:
        self._transaction_judge = transaction_judge
        self._transactions = transactions
        self._lives_count = 0
        super().__init__(*surroundings, **how)

    def make(self) -> GroupMember:
        self._lives_count += 1
        process = f"{self._transactions.transactional_id}.{self._lives_count}"
        transactions = Transactions(self, self._transaction_judge, self._transactions, process)
        return Transformer(self, self.judge, transactions)
