"""Requests about consumer groups: handed to the coordinator under a token, and answered when it answers.

FindCoordinator is answered from the image: the coordinator of a group is the broker that leads its partition of
`__consumer_offsets`, that of a transactional id the one of `__transaction_state`. The first one who asks has the topic
created, and asks again until it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.coordinator_records import partition_for
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from zab.partition.coordinator.effects import Answer
from zab.partition.groups import requests as asking
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.image.cluster_image import CONSUMER_OFFSETS, TRANSACTION_STATE, ClusterImage
from zab.partition.requests import consumer_groups, group_admin, group_offsets, membership
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request

SEVERAL_SINCE: Final = 4
"""The version of FindCoordinator from which on it names many keys."""
OF_GROUP: Final = 0
OF_TRANSACTION: Final = 1
NOBODY: Final = -1

_ONE: Final[dict[ApiKey, tuple[Callable[[Request], asking.Request], Callable[[Request, Any], Any]]]] = {
    ApiKey.JOIN_GROUP: (membership.join_asked, membership.join_answered),
    ApiKey.SYNC_GROUP: (membership.sync_asked, membership.sync_answered),
    ApiKey.HEARTBEAT: (membership.heartbeat_asked, membership.heartbeat_answered),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (consumer_groups.heartbeat_asked, consumer_groups.heartbeat_answered),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (consumer_groups.describe_asked, consumer_groups.describe_answered),
    ApiKey.LEAVE_GROUP: (membership.leave_asked, membership.leave_answered),
    ApiKey.OFFSET_COMMIT: (group_offsets.commit_asked, group_offsets.commit_answered),
    ApiKey.TXN_OFFSET_COMMIT: (group_offsets.txn_commit_asked, group_offsets.txn_commit_answered),
    ApiKey.OFFSET_DELETE: (group_offsets.delete_asked, group_offsets.delete_answered),
    ApiKey.DESCRIBE_GROUPS: (group_admin.describe_asked, group_admin.describe_answered),
    ApiKey.LIST_GROUPS: (group_admin.list_asked, group_admin.list_answered),
    ApiKey.DELETE_GROUPS: (group_admin.delete_asked, group_admin.delete_answered),
}
"""What becomes of one request: a question, and of its result a response."""


@attrs.define(eq=False)
class _Several:
    """A request of several questions, and their results so far."""

    request: Request
    results: list[Any]
    left: int


class GroupRequests:
    """See the docstring of the module."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        image: Callable[[], ClusterImage],
        create_offsets: Callable[[], None],
        create_transactions: Callable[[], None],
    ) -> None:
        """`create_offsets` begins to create the topic of offsets, unless that is under way; `create_transactions` that
        of transactions."""
        self._coordinator = coordinator
        self._image = image
        self._topics = {
            OF_GROUP: (CONSUMER_OFFSETS, create_offsets),
            OF_TRANSACTION: (TRANSACTION_STATE, create_transactions),
        }
        """The topic in which each kind of coordinator keeps its records, and how it is created."""
        self._count = 0
        self._answers: dict[int, Callable[[Any], None]] = {}
        """What is done with the result of each token."""

    def handlers(self) -> dict[int, Handler]:
        """The handler of each key."""
        one: dict[int, Handler] = {key: partial(self._one, asked, answered) for key, (asked, answered) in _ONE.items()}
        return one | {ApiKey.OFFSET_FETCH: self._fetch, ApiKey.FIND_COORDINATOR: self._find}

    def answer(self, answer: Answer) -> None:
        """The coordinator has answered."""
        self._answers.pop(answer.token)(answer.result)

    def _ask(self, question: asking.Request, answered: Callable[[Any], None]) -> None:
        self._count += 1
        self._answers[self._count] = answered
        self._coordinator.request(self._count, question)

    def _one(
        self, asked: Callable[[Request], asking.Request], answered: Callable[[Request, Any], Any], request: Request
    ) -> None:
        def answer(result: Any) -> None:
            if request.is_open:
                request.answer(answered(request, result))

        self._ask(asked(request), answer)

    def _fetch(self, request: Request) -> None:
        """Handle OffsetFetch."""
        questions = group_offsets.fetches_asked(request)
        several = _Several(request, [None] * len(questions), len(questions))
        if not questions:
            request.answer(group_offsets.fetches_answered(request, ()))
        for at, question in enumerate(questions):
            self._ask(question, partial(self._fetched, several, at))

    def _fetched(self, several: _Several, at: int, result: Any) -> None:
        several.results[at] = result
        several.left -= 1
        if not several.left and several.request.is_open:
            several.request.answer(group_offsets.fetches_answered(several.request, several.results))

    # ------------------------------------------------------------------------------------------------ FindCoordinator

    def _find(self, request: Request) -> None:
        """Handle FindCoordinator."""
        body: FindCoordinatorRequest = request.body
        if request.version >= SEVERAL_SINCE:
            found = tuple(self._coordinator_of(key, body.key_type, request.listener) for key in body.coordinator_keys)
            request.answer(FindCoordinatorResponse(coordinators=found))
            return
        one = self._coordinator_of(body.key, body.key_type, request.listener)
        request.answer(
            FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )

    def _coordinator_of(self, key: str, key_type: int, listener: str) -> Coordinator:
        if key_type not in self._topics:
            return _nobody(key, ErrorCode.INVALID_REQUEST, f"there are no coordinators of kind {key_type}")
        name, create = self._topics[key_type]
        image = self._image()
        topic = image.topics.get(name)
        if topic is None:
            create()
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} is being created")
        state = topic.partitions.get(partition_for(key, len(topic.partitions)))
        broker = None if state is None else image.brokers.get(state.leader)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        if broker is None or endpoint is None:
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "its partition has no leader now")
        return Coordinator(
            key=key,
            node_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.NONE,
            error_message=None,
        )


def _nobody(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NOBODY, host="", port=NOBODY, error_code=error, error_message=message)
