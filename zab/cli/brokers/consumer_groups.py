"""ConsumerGroupDescribe: groups whose partitions the broker assigns (KIP-848).

kafka-python has no such request. It makes one of its schema, which is beside this file, as it makes its own, and sends
it like them.
"""

from __future__ import annotations

from typing import Any, Final

from zab.cli.brokers.clients import Brokers
from zab.cli.brokers.group_offsets import described
from zab.cli.brokers.refusals import RefusedError
from zab.kafka.errors import ErrorCode

__all__ = ["MEMBER_TYPES", "described_consumer_group", "members_of", "partitions_of"]

_SCHEMAS: Final = "zab.cli.brokers"
MEMBER_TYPES: Final = {0: "classic", 1: "consumer"}


def described_consumer_group(brokers: Brokers, admin: Any, group: str) -> dict[str, Any]:
    """The group, with the fields of the answer in lower case. Raises RefusedError, also for brokers that have no such
    groups."""
    from kafka.errors import IncompatibleBrokerVersion

    request = _messages()

    async def ask() -> Any:
        [coordinator] = (await admin._find_coordinator_ids([group])).values()
        return await admin._manager.send(request(group_ids=[group]), node_id=coordinator)

    def once() -> dict[str, Any]:
        try:
            [found] = admin._manager.run(ask).to_dict()["groups"]
        except IncompatibleBrokerVersion:
            raise RefusedError(group, ErrorCode.GROUP_ID_NOT_FOUND) from None
        if found["error_code"]:
            raise RefusedError(group, found["error_code"])
        return dict(found)

    return brokers.patiently(once)


def members_of(brokers: Brokers, admin: Any, group: str) -> int:
    """How many members it has, of whichever protocol; 0: there is no such group."""
    found = described(brokers, admin, group)
    if found is not None:
        return len(found["members"])
    try:
        return len(described_consumer_group(brokers, admin, group)["members"])
    except RefusedError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return 0


def partitions_of(assignment: dict[str, Any]) -> dict[str, list[int]]:
    """By topic, in order."""
    found = {each["topic_name"]: sorted(each["partitions"]) for each in assignment["topic_partitions"]}
    return {name: found[name] for name in sorted(found)}


def _messages() -> Any:
    """The class of the request. That of the answer is registered by its being made."""
    if not _MADE:
        from kafka.protocol.api_message import ApiMessage

        class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS): ...  # type: ignore[call-arg, misc]

        class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS): ...  # type: ignore[call-arg, misc]

        _MADE.extend((ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse))
    return _MADE[0]


_MADE: Final[list[Any]] = []
"""The classes of the request and of its answer; the library refers to them weakly."""
