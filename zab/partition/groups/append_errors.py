"""What clients are told when the log does not take a record of theirs.

A partition's leader refuses an append in the words of producers. Clients of a group expect those of coordinators, and
retry accordingly. The table is Kafka's; what is not in it stays as it is.

    the log says                          a commit gets    members of a generation get    heartbeats of KIP-848
    UNKNOWN_TOPIC_OR_PARTITION            15              15                             15
    NOT_ENOUGH_REPLICAS                   15              15                             15
    NOT_ENOUGH_REPLICAS_AFTER_APPEND      15              15                             15
    NOT_LEADER_OR_FOLLOWER                16              16                             16
    KAFKA_STORAGE_ERROR                   16              16                             16
    REQUEST_TIMED_OUT                     7               27: they join again            15
    MESSAGE_TOO_LARGE                     28              -1                             -1
    RECORD_LIST_TOO_LARGE                 28              -1                             -1
    INVALID_FETCH_SIZE                    28              -1                             -1
"""

from __future__ import annotations

from typing import Final

from zab.kafka.errors import ErrorCode

_COORDINATORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)
_FOR_COMMITS: Final = _COORDINATORS | dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
_FOR_GROUPS: Final = (
    _COORDINATORS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}
)
_FOR_HEARTBEATS: Final = _FOR_GROUPS | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}


def error_of_commit(error: ErrorCode) -> ErrorCode:
    """What a request that changes offsets is answered."""
    return _FOR_COMMITS.get(error, error)


def error_of_group(error: ErrorCode) -> ErrorCode:
    """What members are answered whose generation was to be stored."""
    return _FOR_GROUPS.get(error, error)


def error_of_heartbeat(error: ErrorCode) -> ErrorCode:
    """What members of KIP-848's groups are answered whose change was to be stored."""
    return _FOR_HEARTBEATS.get(error, error)


def is_too_large(error: ErrorCode) -> bool:
    """Whether the log could take less."""
    return error in _TOO_LARGE
