"""What can be set for one topic, under Kafka's names; a broker's settings say what holds where a topic says nothing.

    TopicSettings()                     Kafka's defaults
    settings.with_changes({name: text}) the same with some settings changed; InvalidSettingError where one is wrong
    settings.texts()                    every setting as text, as DescribeConfigs shows it

Each setting of a topic has a twin among the broker's (`TopicKey.twin`), with its own name and default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Final

import attrs
from attrs import frozen

from zab.configuration.fields import BOOLEAN, INT_MAX, LONG_MAX, choice, fraction, integer

NO_LIMIT: Final = -1
BATCH: Final = "batch"
"""The flush mode in which nothing counts that is not synced."""

LOG_APPEND_TIME: Final = "LogAppendTime"


class InvalidSettingError(ValueError):
    """A setting is unknown, or its value is wrong."""


class SettingType(IntEnum):
    """The type of a setting, as DescribeConfigs numbers it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@frozen
class TopicKey:
    """One setting: its name for a topic, and for a broker."""

    name: str
    twin: str
    field: str
    default: Any
    read: Callable[[str], Any]
    type: SettingType
    reason: str


def _key(name: str, twin: str, default: object, read: Callable[[str], Any], kind: SettingType, reason: str) -> Any:
    details = {"name": name, "twin": twin, "read": read, "type": kind, "reason": reason}
    return attrs.field(default=default, metadata=details)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}")
        return text

    return read


def _policies(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words or set(words) - {"delete", "compact"} or len(set(words)) != len(words):
        raise ValueError(f"{text!r} is neither delete, compact nor both")
    return words


_B, _S, _I, _L, _D, _W = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)
_INT, _INT_OR_0 = integer(1, INT_MAX), integer(0, INT_MAX)
_LONG, _LONG_OR_0, _LONG_OR_NONE = integer(1, LONG_MAX), integer(0, LONG_MAX), integer(NO_LIMIT, LONG_MAX)


@frozen(kw_only=True)
class TopicSettings:
    """The settings of one topic. Times are ms, sizes bytes."""

    cleanup_policy: tuple[str, ...] = _key(
        *("cleanup.policy", "log.cleanup.policy", ("delete",), _policies, _W),
        "What happens to old data: segments are deleted, or older values of a key are (compact), or both.",
    )
    compression_type: str = _key(
        *("compression.type", "compression.type", "producer", _one_of("producer"), _S),
        "producer: batches are stored as they arrive. Nothing else is supported.",
    )
    delete_retention_ms: int = _key(
        *("delete.retention.ms", "log.cleaner.delete.retention.ms", 86_400_000, _LONG_OR_0, _L),
        "How long a compacted log keeps a tombstone.",
    )
    file_delete_delay_ms: int = _key(
        *("file.delete.delay.ms", "log.segment.delete.delay.ms", 60_000, _LONG_OR_0, _L),
        "How long after its deletion a file is removed.",
    )
    flush_messages: int = _key(
        *("flush.messages", "log.flush.interval.messages", LONG_MAX, _LONG, _L),
        "After this many records the log is synced.",
    )
    flush_ms: int = _key(
        *("flush.ms", "log.flush.interval.ms", LONG_MAX, _LONG_OR_0, _L),
        "How long after the append of a record the log is synced at the latest.",
    )
    flush_mode: str = _key(
        *("flush.mode", "log.flush.mode", "os", _one_of("os", BATCH), _S),
        "zab only. batch: records are on the disk before they are acknowledged. os: the operating system writes them "
        "later.",
    )
    index_interval_bytes: int = _key(
        *("index.interval.bytes", "log.index.interval.bytes", 4096, _INT_OR_0, _I),
        "How many bytes of a log have one entry in its index.",
    )
    max_compaction_lag_ms: int = _key(
        *("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", LONG_MAX, _LONG, _L),
        "After this time a record is compacted, however little there is to compact.",
    )
    max_message_bytes: int = _key(
        *("max.message.bytes", "message.max.bytes", 1_048_588, _INT_OR_0, _I), "The largest batch."
    )
    message_timestamp_after_max_ms: int = _key(
        *("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", LONG_MAX, _LONG_OR_0, _L),
        "How much later than the broker's clock a record's time may be.",
    )
    message_timestamp_before_max_ms: int = _key(
        *("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", LONG_MAX, _LONG_OR_0, _L),
        "How much older than the broker's clock a record's time may be.",
    )
    message_timestamp_type: str = _key(
        "message.timestamp.type",
        "log.message.timestamp.type",
        *("CreateTime", _one_of("CreateTime", LOG_APPEND_TIME), _S),
        "Whose clock gives a record its time: the producer's, or the broker's at the append.",
    )
    min_cleanable_dirty_ratio: float = _key(
        *("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", 0.5, fraction, _D),
        "The share of a log that has not been compacted yet, at which the log is compacted.",
    )
    min_compaction_lag_ms: int = _key(
        *("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", 0, _LONG_OR_0, _L),
        "How long after its append a record is not compacted.",
    )
    min_insync_replicas: int = _key(
        *("min.insync.replicas", "min.insync.replicas", 1, _INT, _I),
        "How many replicas have to be in sync for a write with acks=all.",
    )
    preallocate: bool = _key(
        *("preallocate", "log.preallocate", False, choice(false=False), _B),
        "Only false: files grow as they are written.",
    )
    record_validation: str = _key(
        *("record.validation", "log.record.validation", "header", _one_of("header", "full"), _S),
        "zab only. header: a batch's checksum and header are checked. full: its records too.",
    )
    retention_bytes: int = _key(
        *("retention.bytes", "log.retention.bytes", NO_LIMIT, _LONG_OR_NONE, _L),
        "The size beyond which the oldest segments of a partition are deleted. -1: no limit.",
    )
    retention_ms: int = _key(
        *("retention.ms", "log.retention.ms", 604_800_000, _LONG_OR_NONE, _L),
        "The age beyond which the segments of a partition are deleted. -1: no limit.",
    )
    segment_bytes: int = _key(
        *("segment.bytes", "log.segment.bytes", 1 << 30, integer(14, INT_MAX), _I), "The size of a segment."
    )
    segment_index_bytes: int = _key(
        *("segment.index.bytes", "log.index.size.max.bytes", 10 << 20, integer(4, INT_MAX), _I),
        "The largest size of an index of a segment.",
    )
    segment_jitter_ms: int = _key(
        *("segment.jitter.ms", "log.roll.jitter.ms", 0, _LONG_OR_0, _L),
        "The largest random time by which a segment ends earlier.",
    )
    segment_ms: int = _key(
        *("segment.ms", "log.roll.ms", 604_800_000, _LONG, _L), "The age at which a new segment begins."
    )
    unclean_leader_election_enable: bool = _key(
        *("unclean.leader.election.enable", "unclean.leader.election.enable", False, BOOLEAN, _B),
        "Whether a replica that is not in sync may become leader, which loses the records that it lacks.",
    )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    def with_changes(self, texts: Mapping[str, str]) -> TopicSettings:
        """These settings with those of a topic, by their names for topics. Raises InvalidSettingError."""
        return attrs.evolve(self, **dict(_read(topic_keys(), name, text) for name, text in texts.items()))

    def with_broker_changes(self, texts: Mapping[str, str]) -> TopicSettings:
        """These settings with those of brokers, by their names for brokers; other settings of brokers are left out.
        Raises InvalidSettingError."""
        known = {name: text for name, text in texts.items() if name in twin_keys()}
        return attrs.evolve(self, **dict(_read(twin_keys(), name, text) for name, text in known.items()))

    def texts(self) -> dict[str, str]:
        """Every setting as text, by its name for topics."""
        return {key.name: text_of_value(getattr(self, key.field)) for key in topic_keys().values()}


@cache
def topic_keys() -> Mapping[str, TopicKey]:
    """Every setting by its name for topics."""
    return {
        each.metadata["name"]: TopicKey(
            each.metadata["name"],
            each.metadata["twin"],
            each.name,
            each.default,
            each.metadata["read"],
            each.metadata["type"],
            each.metadata["reason"],
        )
        for each in attrs.fields(TopicSettings)
    }


@cache
def twin_keys() -> Mapping[str, TopicKey]:
    """Every setting by its name for brokers."""
    return {key.twin: key for key in topic_keys().values()}


def broker_defaults(texts: Mapping[str, str]) -> TopicSettings:
    """What holds for topics that say nothing, from a broker's settings by their names for brokers. Raises
    InvalidSettingError."""
    return TopicSettings(**dict(_read(twin_keys(), name, text) for name, text in texts.items()))


def text_of_value(value: object) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _read(keys: Mapping[str, TopicKey], name: str, text: str) -> tuple[str, Any]:
    key = keys.get(name)
    if key is None:
        raise InvalidSettingError(f"{name} is unknown")
    try:
        return key.field, key.read(text)
    except ValueError as error:
        raise InvalidSettingError(f"{name}: {error}") from error
