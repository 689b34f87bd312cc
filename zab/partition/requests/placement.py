"""ElectLeaders, reassignments and DescribeLogDirs: where replicas are, which of them leads, and how large they are.

The controller does what changes something; this broker says how large its own replicas are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from zab.partition.controller.requests import (
    AlterPartitionReassignments,
    Answer,
    ElectLeaders,
    ListPartitionReassignments,
    Outcome,
)
from zab.partition.controller.znodes import TopicPartition
from zab.partition.replica.replica import Replica
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request

PREFERRED, UNCLEAN = range(2)


class PlacementRequests:
    """Asks the controller, or looks at the replicas of this broker."""

    def __init__(
        self, controller: AskingController, replicas: Replicas, directory: str, free_bytes: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._replicas = replicas
        self._directory = directory
        self._free_bytes = free_bytes

    def elect_leaders(self, request: Request) -> None:
        """Handle ElectLeaders."""
        body: ElectLeadersRequest = request.body
        if body.election_type not in (PREFERRED, UNCLEAN):
            request.answer(ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=()))
            return
        asked = None
        if body.topic_partitions is not None:
            asked = tuple(
                TopicPartition(topic.topic, each) for topic in body.topic_partitions for each in topic.partitions
            )

        def answered(answer: Answer) -> None:
            results = tuple(
                ReplicaElectionResult(
                    topic=topic,
                    partition_result=tuple(
                        ElectLeadersPartitionResult(
                            partition_id=index, error_code=outcome.error, error_message=outcome.message
                        )
                        for index, outcome in outcomes
                    ),
                )
                for topic, outcomes in _by_topic(answer.partitions or {}).items()
            )
            request.answer(ElectLeadersResponse(error_code=answer.error, replica_election_results=results))

        self._controller.ask(
            lambda token: ElectLeaders(token, asked, body.election_type == UNCLEAN, body.timeout_ms), answered
        )

    def reassign(self, request: Request) -> None:
        """Handle AlterPartitionReassignments."""
        body: AlterPartitionReassignmentsRequest = request.body
        targets = {
            TopicPartition(topic.name, each.partition_index): each.replicas
            for topic in body.topics
            for each in topic.partitions
        }

        def answered(answer: Answer) -> None:
            responses = tuple(
                ReassignableTopicResponse(
                    name=topic,
                    partitions=tuple(
                        ReassignablePartitionResponse(
                            partition_index=index, error_code=outcome.error, error_message=outcome.message
                        )
                        for index, outcome in outcomes
                    ),
                )
                for topic, outcomes in _by_topic(answer.partitions or {}).items()
            )
            request.answer(
                AlterPartitionReassignmentsResponse(
                    error_code=answer.error, error_message=answer.message, responses=responses
                )
            )

        self._controller.ask(lambda token: AlterPartitionReassignments(token, targets, body.timeout_ms), answered)

    def list_reassignments(self, request: Request) -> None:
        """Handle ListPartitionReassignments."""
        body: ListPartitionReassignmentsRequest = request.body
        asked = None
        if body.topics is not None:
            asked = tuple(TopicPartition(topic.name, each) for topic in body.topics for each in topic.partition_indexes)

        def answered(answer: Answer) -> None:
            topics: dict[str, list[OngoingPartitionReassignment]] = {}
            for partition, assignment in (answer.reassignments or {}).items():
                topics.setdefault(partition.topic, []).append(
                    OngoingPartitionReassignment(
                        partition_index=partition.partition,
                        replicas=assignment.replicas,
                        adding_replicas=assignment.adding,
                        removing_replicas=assignment.removing,
                    )
                )
            request.answer(
                ListPartitionReassignmentsResponse(
                    error_code=answer.error,
                    error_message=answer.message,
                    topics=tuple(
                        OngoingTopicReassignment(name=name, partitions=tuple(found)) for name, found in topics.items()
                    ),
                )
            )

        self._controller.ask(lambda token: ListPartitionReassignments(token, asked), answered)

    def describe_log_dirs(self, request: Request) -> None:
        """Handle DescribeLogDirs."""
        body: DescribeLogDirsRequest = request.body
        wanted = None
        if body.topics is not None:
            wanted = {(topic.topic, each) for topic in body.topics for each in topic.partitions}
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        size_bytes = 0
        for replica in self._replicas:
            size_bytes += replica.log.size_bytes
            if wanted is None or replica.key in wanted:
                topics.setdefault(replica.topic, []).append(_size(replica))
        free_bytes = self._free_bytes()
        result = DescribeLogDirsResult(
            error_code=ErrorCode.NONE,
            log_dir=self._directory,
            topics=tuple(DescribeLogDirsTopic(name=name, partitions=tuple(found)) for name, found in topics.items()),
            total_bytes=size_bytes + free_bytes,
            usable_bytes=free_bytes,
        )
        request.answer(DescribeLogDirsResponse(results=(result,)))


def _size(replica: Replica) -> DescribeLogDirsPartition:
    log = replica.log
    lag = 0 if replica.leader is not None else max(0, log.high_watermark - log.log_end)
    return DescribeLogDirsPartition(
        partition_index=replica.index, partition_size=log.size_bytes, offset_lag=lag, is_future_key=False
    )


def _by_topic(partitions: Mapping[TopicPartition, Outcome]) -> dict[str, list[tuple[int, Outcome]]]:
    found: dict[str, list[tuple[int, Outcome]]] = {}
    for partition, outcome in partitions.items():
        found.setdefault(partition.topic, []).append((partition.partition, outcome))
    return found
