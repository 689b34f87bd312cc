"""A leader asks the coordinator of a transaction on another broker before it appends the first batch (KIP-890)."""

import pytest

from tests.partition.one_broker import produce
from tests.partition.several_brokers import LINES, SeveralBrokers
from tests.partition.transactional import ID, Transactional
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from zab.partition.links.messages import Verified, Verifying
from zab.partition.requests import asking_coordinators
from zab.partition.requests import produce as produce_requests

ONE = "transaction.state.log.num.partitions=1\n"
AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS


class Rig(SeveralBrokers):
    """A producer whose coordinator is not on the broker that leads topic `t`."""

    def __init__(self, lines=""):
        super().__init__(lines=LINES + ONE + lines)
        for key_type in (0, 1):
            self.brokers[1].client().ask(FindCoordinatorRequest(key=ID, key_type=key_type), 2)
        self.pass_time(1000)
        self.coordinator = self.leader("__transaction_state")
        self.leads = next(each for each in self.brokers if self.brokers[each] is not self.coordinator)
        self.create("t", (self.leads, self.coordinator.broker.id))
        self.pass_time(1000)
        self.client = self.brokers[self.leads].client()
        self.producer = Transactional(self.coordinator.client())
        assert self.producer.init() == 0
        self.kept = None

    def keep(self, kind):
        """Messages of this kind are not delivered before `release`."""
        self.kept, send = [], self.links.send

        def keeping(number, message):
            if isinstance(message, kind) and self.kept is not None:
                self.kept.append((number, message))
            else:
                send(number, message)

        self.links.send = keeping

    def release(self):
        kept, self.kept = self.kept, None
        for number, message in kept:
            self.links.send(number, message)
        self.run()

    def send(self, *values, client=None):
        """Send a batch, without waiting."""
        request = produce("t", self.producer.batch(*values), transactional_id=ID)
        (client or self.client).send(request, 9)

    def answers(self):
        """The errors of what is answered."""
        return [each.responses[0].partition_responses[0].error_code for each in self.client.answers()]

    def write(self, *values):
        """The error of a batch that is answered at once."""
        self.send(*values)
        [error] = self.answers()
        if not error:
            self.producer.sequences[0] = self.producer.sequences.get(0, 0) + len(values)
        return error

    def refused(self, *values):
        """The error of a batch while there is no link to the coordinator."""
        self.send(*values)
        self.pass_time(1000)
        return self.answers()

    @property
    def questions(self):
        return [(own, other) for own, other, message in self.sent if isinstance(message, Verifying)]

    @property
    def log(self):
        return self.brokers[self.leads].replica("t").log

    @property
    def is_stable(self):
        return self.log.last_stable_offset == self.log.high_watermark


@pytest.fixture
def rig():
    return Rig()


# -------------------------------------------------------------------------------------------------- yes, no, not now


def test_the_coordinator_is_asked_once_a_transaction(rig):
    for number in (1, 2):
        assert rig.producer.add() == [0]
        assert [rig.write(b"a"), rig.write(b"b")] == [0, 0]
        assert rig.questions == [(rig.leads, rig.coordinator.broker.id)] * number
        assert rig.producer.end() == 0
    assert rig.is_stable


def test_a_batch_that_comes_after_the_end_of_its_transaction_opens_none(rig):
    rig.producer.add()
    assert rig.write(b"a") == 0
    assert rig.producer.end(commits=False) == 0
    assert rig.write(b"late") == ErrorCode.INVALID_TXN_STATE
    assert rig.is_stable, "nobody would end it"


def test_who_is_not_the_producer_is_told_so(rig):
    rig.producer.add()
    former = rig.producer.epoch
    rig.producer.init()
    rig.producer.epoch = former
    assert rig.write(b"a") == ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_answer_that_is_older_than_a_marker_does_not_count(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"late")
    assert rig.producer.end(commits=False) == 0
    assert rig.brokers[rig.leads].replica("t").log.log_end == 1, "the marker"
    rig.release()
    assert rig.answers() == [AGAIN]
    assert rig.write(b"late") == ErrorCode.INVALID_TXN_STATE
    assert rig.is_stable


def test_an_answer_that_is_older_than_the_leader_does_not_count(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    rig.brokers[rig.leads].begin_epoch("t")
    rig.release()
    assert rig.answers() == [AGAIN]
    assert rig.log.log_end == 0


def test_without_a_link_the_producer_is_told_to_send_again(rig):
    rig.producer.add()
    rig.cut(rig.leads, rig.coordinator.broker.id)
    assert rig.refused(b"a") == [AGAIN]
    rig.heal()
    assert rig.write(b"a") == 0


def test_a_link_that_breaks_ends_the_question(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    assert rig.answers() == []
    rig.cut(rig.leads, rig.coordinator.broker.id)
    assert rig.answers() == [AGAIN]


def test_a_coordinator_that_does_not_answer_is_not_waited_for_for_long(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    rig.pass_time(asking_coordinators.TIMEOUT_MS - 1)
    assert rig.answers() == []
    rig.pass_time(1)
    assert rig.answers() == [AGAIN]
    rig.release()
    assert rig.log.log_end == 0, "what comes later is of no interest"


def test_a_coordinator_that_loads_is_asked_again(rig):
    rig.producer.add()
    rig.coordinator.broker._coordinators._transaction_log.coordinator.begin_load(0, 99)
    assert rig.write(b"a") == AGAIN


def test_without_verification_nobody_is_asked():
    rig = Rig("transaction.partition.verification.enable=false\n")
    assert rig.write(b"a") == 0, "as in Kafka before 3.6"
    assert rig.questions == []


# ----------------------------------------------------------------------------------------------- the order of batches


def test_batches_after_the_first_wait_with_it(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    rig.producer.sequences[0] = 1
    rig.send(b"b")
    assert rig.answers() == []
    rig.release()
    assert rig.answers() == [0, 0]
    assert rig.log.log_end == 2
    assert len(rig.questions) == 1


def test_a_batch_does_not_take_the_place_of_one_that_is_to_be_sent_again(rig):
    """The log does not know the producer, whose first batch could have any sequence."""
    rig.producer.add()
    rig.cut(rig.leads, rig.coordinator.broker.id)
    assert rig.refused(b"a") == [AGAIN]
    rig.heal()
    rig.producer.sequences[0] = 1
    assert rig.write(b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    rig.producer.sequences[0] = 0
    assert rig.write(b"a") == 0
    assert rig.write(b"b") == 0


def test_a_new_epoch_begins_a_new_line(rig):
    rig.producer.sequences[0] = 5
    rig.cut(rig.leads, rig.coordinator.broker.id)
    assert rig.refused(b"a") == [AGAIN]
    rig.heal()
    rig.producer.init()
    rig.producer.add()
    rig.producer.sequences[0] = 7
    assert rig.write(b"a") == 0, "the log does not know the producer"


def test_only_so_many_lines_are_remembered(rig, monkeypatch):
    monkeypatch.setattr(produce_requests, "REFUSED_MAX", 1)
    other = Transactional(rig.coordinator.client(), name="other")
    other.init()
    rig.cut(rig.leads, rig.coordinator.broker.id)
    assert rig.refused(b"a") == [AGAIN]
    rig.client.send(produce("t", other.batch(b"b"), transactional_id="other"), 9)
    rig.pass_time(1000)
    assert rig.answers() == [AGAIN]
    rig.heal()
    rig.producer.add()
    rig.producer.sequences[0] = 1
    assert rig.write(b"b") == 0, "the older one is forgotten"


# ------------------------------------------------------------------------------------------------------------- limits


def test_above_the_limit_of_questions_the_producer_is_told_to_send_again(rig, monkeypatch):
    monkeypatch.setattr(asking_coordinators, "QUESTIONS_MAX", 1)
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a", client=rig.brokers[rig.leads].client())
    assert rig.write(b"a") == AGAIN
    rig.release()
    assert rig.log.log_end == 1


def test_what_waits_for_coordinators_has_a_limit(rig):
    rig.producer.add()
    rig.keep(Verified)
    requests = rig.brokers[rig.leads].broker._clients._dispatch._handlers[0].__self__
    requests._waiting_bytes_max = 150
    first = rig.brokers[rig.leads].client()
    rig.send(b"a" * 200, client=first)
    assert first.answers() == [], "one is always taken"
    assert rig.write(b"b" * 50) == AGAIN
    rig.release()
    assert len(first.answers()) == 1
    assert requests._waiting_bytes == 0


def test_a_client_that_leaves_does_not_wait(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    rig.client.leave()
    rig.release()
    assert rig.log.log_end == 1, "its request had come"
    assert rig.producer.end() == 0
    assert rig.is_stable


def test_a_broker_that_answers_another_question_loses_its_link(rig):
    rig.producer.add()
    rig.keep(Verified)
    rig.send(b"a")
    rig.kept = [(number, Verified(message.number, ())) for number, message in rig.kept]
    rig.release()
    assert any("answers another question" in each for each in rig.brokers[rig.leads].reports)
    assert rig.answers() == [AGAIN]


# ------------------------------------------------------------------------------------------------------------ offsets


class OfGroup:
    """A group whose coordinator is not on the broker of the transaction's coordinator."""

    def __init__(self, rig):
        self.rig = rig
        partition_for = rig.coordinator.broker._coordinators._group_log.partition_for
        names = [f"g{number}" for number in range(10)]
        self.name, self.leader = next(
            (each, leader)
            for each in names
            if (leader := rig.leader("__consumer_offsets", partition_for(each))) is not rig.coordinator
        )
        self.client = self.leader.client()

    def commit(self, offset):
        asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        topics = (TxnOffsetCommitRequestTopic(name="t", partitions=(asked,)),)
        request = TxnOffsetCommitRequest(**self.rig.producer._who, group_id=self.name, topics=topics)
        self.client.send(request, 3)
        return self.errors()

    def errors(self):
        return [each.topics[0].partitions[0].error_code for each in self.client.answers()]

    @property
    def offset(self):
        topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
        [topic] = self.client.ask(OffsetFetchRequest(group_id=self.name, topics=topics), 7).topics
        return topic.partitions[0].committed_offset


@pytest.fixture
def group(rig):
    return OfGroup(rig)


def test_offsets_of_a_transaction_are_verified_across_brokers(rig, group):
    assert group.commit(5) == [ErrorCode.INVALID_TXN_STATE]
    assert rig.producer.add_offsets(group.name) == 0
    before = len(rig.questions)
    assert [group.commit(5), group.commit(6)] == [[0], [0]]
    assert len(rig.questions) == before + 1
    assert group.offset == -1
    assert rig.producer.end() == 0
    assert group.offset == 6
    assert group.commit(7) == [ErrorCode.INVALID_TXN_STATE]


def test_offsets_whose_coordinator_cannot_be_asked_are_sent_again(rig, group):
    rig.producer.add_offsets(group.name)
    rig.cut(rig.coordinator.broker.id, group.leader.broker.id)
    group.commit(5)
    rig.pass_time(1000)
    assert group.errors() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    rig.heal()
    assert group.commit(5) == [0]


def test_an_answer_about_offsets_that_is_older_than_a_marker_does_not_count(rig, group):
    rig.producer.add_offsets(group.name)
    rig.keep(Verified)
    assert group.commit(5) == []
    assert rig.producer.end() == 0
    rig.release()
    assert group.errors() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert group.commit(5) == [ErrorCode.INVALID_TXN_STATE]
    assert group.offset == -1
