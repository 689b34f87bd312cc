"""What a broker refuses, as it is said: Kafka's name of the error, what it is about, and why.

    UNKNOWN_TOPIC_OR_PARTITION greetings: there is no such topic; zab topic create greetings makes it

The reason is the broker's own; where it gives none, it is what the error means.

Not here: exit codes (`clients.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from zab.kafka.errors import ErrorCode

__all__ = ["RefusedError", "refused_by", "refused_topic"]

_MEANINGS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.MESSAGE_TOO_LARGE: "it is larger than max.message.bytes of the topic",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "that is no name of a topic",
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.TOPIC_DELETION_DISABLED: "delete.topic.enable of the broker is false",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "it is appended, but not by as many replicas as min.insync.replicas",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "the replicas are not different brokers that are registered",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed",
    ErrorCode.SECURITY_DISABLED: "the broker has no authorizer (authorizer.class.name)",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "user and password are in --client-config",
}


class RefusedError(Exception):
    """A broker has refused what a command wants."""

    def __init__(self, subject: str, code: int, detail: str | None = None) -> None:
        """code: of Kafka's protocol. detail: what the broker says."""
        known = code in ErrorCode.__members__.values()
        self.code = code
        name = ErrorCode(code).name if known else f"error {code}"
        about = f" {subject}" if subject else ""
        why = detail or (_MEANINGS.get(ErrorCode(code)) if known else None)
        super().__init__(f"{name}{about}: {why}" if why else f"{name}{about}")


def refused_topic(topic: str) -> RefusedError:
    detail = f"there is no such topic; zab topic create {topic} makes it"
    return RefusedError(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)


def refused_by(error: Any, subject: str = "") -> RefusedError | None:
    """What an error of kafka-python says, or the first that caused it; None if no broker refused anything."""
    for each in _causes(error):
        code = getattr(each, "errno", None)
        if isinstance(code, int) and code > 0:
            return RefusedError(subject, code)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
