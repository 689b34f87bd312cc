"""What a log refuses, with the error code that the client gets."""

from __future__ import annotations

from typing import ClassVar

from zab.kafka.errors import ErrorCode


class LogError(Exception):
    """A request that the log refuses; nothing was changed."""

    error: ClassVar[ErrorCode]


class OffsetOutOfRangeError(LogError):
    """Before the first offset of the log, or above the bound."""

    error = ErrorCode.OFFSET_OUT_OF_RANGE


class RecordsTooLargeError(LogError):
    """More bytes than a segment holds."""

    error = ErrorCode.RECORD_LIST_TOO_LARGE


class UnexpectedOffsetError(LogError):
    """Batches for a follower that do not go on where its log ends."""

    error = ErrorCode.CORRUPT_MESSAGE


class OutOfOrderSequenceError(LogError):
    """A gap in the sequence numbers of a producer."""

    error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(LogError):
    """A newer producer with this id has written."""

    error = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionStateError(LogError):
    """A write outside of the transaction that it belongs to."""

    error = ErrorCode.INVALID_TXN_STATE


class CoordinatorFencedError(LogError):
    """A marker of a transaction coordinator that was replaced."""

    error = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class LogFailedError(LogError):
    """The storage of the log failed: it has to be recovered."""

    error = ErrorCode.KAFKA_STORAGE_ERROR


class InconsistentTopicIdError(LogError):
    """The directory belongs to another topic of the same name."""

    error = ErrorCode.INCONSISTENT_TOPIC_ID


class SegmentAwaitedError(LogError):
    """Compaction is about to put a segment into the place of others: ask again."""

    error = ErrorCode.LEADER_NOT_AVAILABLE
