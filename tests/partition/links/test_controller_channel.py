"""What a controller tells a broker arrives once, in its order, whatever becomes of links."""

from random import Random

from attrs import evolve

from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import (
    PartitionStates,
    PartitionUpdate,
    StoppedReplica,
    StopReplica,
    ToBroker,
    TopicUpdate,
)
from zab.partition.controller.requests import StopReplicaAnswered
from zab.partition.controller.znodes import Assignment, Broker, PartitionState, TopicPartition
from zab.partition.links import controller_channel
from zab.partition.links.arrivals import Arrivals
from zab.partition.links.controller_channel import AGAIN_MS, NEVER, ControllerChannel
from zab.partition.links.messages import Taken

LIVE = (Broker(1, (), epoch=10), Broker(2, (), epoch=20))


def states(sequence, *partitions, live=LIVE, is_full=False, removed=()):
    updates = tuple(
        PartitionUpdate(number, PartitionState(1, epoch, (1,)), Assignment((1, 2)), 1) for number, epoch in partitions
    )
    topics = (TopicUpdate("t", "i", updates),) if updates else ()
    return PartitionStates(sequence, is_full, live, topics, removed)


def to_2(message, *, epoch=20, controller_epoch=1):
    return ToBroker(2, epoch, 1, controller_epoch, message)


def stop(number, leader_epoch=0):
    return StopReplica((StoppedReplica(TopicPartition("t", number), "i", leader_epoch, True),))


def test_messages_are_sent_in_order_and_again_on_the_next_link():
    channel = ControllerChannel()
    for sequence in (1, 2, 3):
        channel.tell(to_2(states(sequence)))
    assert [each.number for each in channel.due(2, 0)] == [1, 2, 3]
    assert channel.due(2, 0) == []
    channel.taken(2, Taken(1), 0)
    channel.lost(2)
    assert [each.number for each in channel.due(2, 0)] == [2, 3]
    channel.taken(2, Taken(2), 0)
    channel.taken(2, Taken(3), 0)
    assert channel.waiting == []


def test_who_cannot_take_it_yet_is_asked_again():
    channel = ControllerChannel()
    channel.tell(to_2(states(1)))
    channel.tell(to_2(states(2)))
    channel.due(2, 0)
    channel.taken(2, Taken(1, ErrorCode.BROKER_NOT_AVAILABLE), 0)
    channel.taken(2, Taken(2, ErrorCode.BROKER_NOT_AVAILABLE), 0)
    assert (channel.due(2, AGAIN_MS - 1), channel.next_deadline()) == ([], AGAIN_MS)
    assert [each.number for each in channel.due(2, AGAIN_MS)] == [1, 2]
    assert channel.next_deadline() == NEVER


def test_the_answer_to_a_stop_is_handed_on():
    channel = ControllerChannel()
    channel.tell(to_2(stop(0)))
    channel.due(2, 0)
    answered = StopReplicaAnswered(2, 20, 1, {TopicPartition("t", 0): ErrorCode.NONE})
    assert channel.taken(2, Taken(1, ErrorCode.NONE, answered), 0) is answered
    assert channel.taken(2, Taken(1, ErrorCode.NONE, answered), 0) is None


def test_a_life_that_is_over_takes_its_channel_with_it():
    channel = ControllerChannel()
    channel.tell(to_2(states(1)))
    channel.tell(ToBroker(1, 10, 1, 1, states(2, live=LIVE[:1])))
    assert channel.waiting == [1]
    channel.tell(to_2(states(1, live=(Broker(2, (), epoch=30),)), epoch=30))
    channel.tell(to_2(stop(0), epoch=20))
    assert [each.message.broker_epoch for each in channel.due(2, 0)] == [30]
    channel.resigned()
    assert channel.waiting == []


def test_a_long_queue_becomes_two_messages_that_say_the_same(monkeypatch):
    monkeypatch.setattr(controller_channel, "QUEUE_MAX", 6)
    channel = ControllerChannel()
    channel.tell(to_2(states(1, (0, 0), (1, 0), is_full=True)))
    channel.tell(to_2(stop(1)))
    channel.tell(to_2(states(2, (0, 1))))
    channel.tell(to_2(states(3, removed=("other",))))
    channel.tell(to_2(stop(2)))
    channel.tell(to_2(states(4, (2, 5))))
    first, second = channel.due(2, 0)
    assert [(each.number, each.after) for each in (first, second)] == [(5, 0), (6, 5)]
    whole = first.message.message
    epochs = {each.partition: each.state.leader_epoch for each in whole.topics[0].partitions}
    assert (whole.is_full, whole.sequence, epochs, whole.removed) == (True, 4, {0: 1, 1: 0, 2: 5}, ("other",))
    assert [each.partition.partition for each in second.message.message.replicas] == [1, 2]


def test_each_message_is_taken_once_in_its_order_whatever_is_lost():
    random = Random(3)
    for _ in range(50):
        channel, arrivals, taken = ControllerChannel(), Arrivals(), []
        for sequence in range(1, 30):
            channel.tell(to_2(states(sequence)))
            for told in channel.due(2, 10_000 * sequence):
                is_next = arrivals.is_next(told) if random.random() < 0.7 else False
                if is_next:
                    arrivals.take(told.message, told.number)
                    taken.append(told.message.message.sequence)
                error = ErrorCode.BROKER_NOT_AVAILABLE if is_next is False else ErrorCode.NONE
                if random.random() < 0.5:
                    channel.taken(2, Taken(told.number, error), 10_000 * sequence)
            if random.random() < 0.5:
                channel.lost(2)
        channel.lost(2)
        for told in channel.due(2, 10_000_000):
            if arrivals.is_next(told):
                arrivals.take(told.message, told.number)
                taken.append(told.message.message.sequence)
        assert taken == list(range(1, 30))


def test_arrivals_are_for_this_life_and_of_the_newest_controller():
    arrivals = Arrivals()
    message = to_2(states(1), controller_epoch=5)
    assert arrivals.error(message, -1, -1) is ErrorCode.BROKER_NOT_AVAILABLE
    assert arrivals.error(message, 2, 19) is ErrorCode.BROKER_NOT_AVAILABLE, "of a registration it is not told of yet"
    assert arrivals.error(message, 2, 21) is ErrorCode.STALE_BROKER_EPOCH
    assert arrivals.error(message, 3, 19) is ErrorCode.STALE_BROKER_EPOCH
    assert arrivals.error(message, 2, 20) is ErrorCode.NONE
    arrivals.take(message, 7)
    assert arrivals.error(evolve(message, controller_epoch=4), 2, 20) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert arrivals.number_of(message) == 7
    assert arrivals.number_of(evolve(message, controller_epoch=6)) == 0
