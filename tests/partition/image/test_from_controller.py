"""From the words of the controller to the image of the cluster."""

from __future__ import annotations

from zab.kafka.primitives import uuid_text
from zab.partition.controller import znodes
from zab.partition.controller.effects import PartitionStates, PartitionUpdate, TopicUpdate
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.image.from_controller import image_after

TOPIC_ID = bytes(range(16))


def broker(broker_id, epoch):
    return znodes.Broker(broker_id, (f"PLAINTEXT://host{broker_id}:9092",), {"PLAINTEXT": "PLAINTEXT"}, epoch=epoch)


def partition(index, partition_epoch=0):
    state = znodes.PartitionState(leader=1, leader_epoch=0, isr=(1,), partition_epoch=partition_epoch)
    return PartitionUpdate(index, state, znodes.Assignment((1, 2)), 1)


def of_topic(*partitions):
    return (TopicUpdate("t", uuid_text(TOPIC_ID), partitions),)


def lives(image):
    return {index: dict(state.broker_epochs) for index, state in image.topics["t"].partitions.items()}


def test_a_broker_that_comes_back_is_known_in_every_partition_of_a_topic_that_changes_in_one():
    """A leader lets nobody join whose life it does not know."""
    full = PartitionStates(1, True, (broker(1, 10),), of_topic(partition(0), partition(1)))
    image = image_after(ClusterImage(), full, controller=1)
    assert lives(image) == {0: {1: 10}, 1: {1: 10}}
    of_one = PartitionStates(2, False, (broker(1, 10), broker(2, 20)), of_topic(partition(1, partition_epoch=1)))
    assert lives(image_after(image, of_one, controller=1)) == {0: {1: 10, 2: 20}, 1: {1: 10, 2: 20}}


def test_a_broker_that_comes_back_is_known_in_topics_that_nothing_is_said_of():
    full = PartitionStates(1, True, (broker(1, 10), broker(2, 20)), of_topic(partition(0)))
    image = image_after(ClusterImage(), full, controller=1)
    again = PartitionStates(2, False, (broker(1, 10), broker(2, 30)), ())
    assert lives(image_after(image, again, controller=1)) == {0: {1: 10, 2: 30}}
