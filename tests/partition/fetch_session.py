"""A consumer that fetches as kafka-clients does, from one broker without a host.

session = Session(rig)
session.ask(("topic", 0, 0))        partition 0 from offset 0; what the answer says of each partition
"""

from __future__ import annotations

from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

WITH_NAMES, WITH_IDS = 12, 13


class Session:
    """A consumer that fetches as kafka-clients does. Partitions are a topic, an index and an offset."""

    def __init__(self, rig, version=WITH_NAMES, **limits):
        self.rig = rig
        self.client = rig.client()
        self.version = version
        self.limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **limits}
        self.id = self.epoch = 0

    def request(self, *partitions, forgotten=(), partition_bytes=1 << 20, leader_epoch=-1):
        topics = tuple(
            FetchTopic(
                **self.named(topic),
                partitions=(
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_bytes,
                        current_leader_epoch=leader_epoch,
                    ),
                ),
            )
            for topic, index, offset in partitions
        )
        gone = tuple(ForgottenTopic(**self.named(topic), partitions=(index,)) for topic, index in forgotten)
        return FetchRequest(
            topics=topics, forgotten_topics_data=gone, session_id=self.id, session_epoch=self.epoch, **self.limits
        )

    def named(self, topic):
        if self.version < WITH_IDS:
            return {"topic": topic}
        return {"topic_id": self.rig.broker.image.topics[topic].id}

    def ask(self, *partitions, **others):
        """The answer, as what it says about each partition, in its order."""
        answer = self.client.ask(self.request(*partitions, **others), self.version)
        assert not answer.error_code
        self.id, self.epoch = answer.session_id, self.epoch + 1
        return self.told(answer)

    def told(self, answer):
        names = {topic.id: name for name, topic in self.rig.broker.image.topics.items()}
        return {
            (topic.topic or names[topic.topic_id], each.partition_index): each
            for topic in answer.responses
            for each in topic.partitions
        }

    def error(self, *partitions, **others):
        return self.client.ask(self.request(*partitions, **others), self.version).error_code
