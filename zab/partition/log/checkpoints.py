"""Kafka's small text files, of a broker and of a partition.

    recovery-point-offset-checkpoint     below which offset everything is synced       version 0, count, then
    log-start-offset-checkpoint          the first offset that clients see             `topic partition offset`
    replication-offset-checkpoint        the high watermark                            on each line
    cleaner-offset-checkpoint            below which offset a log is compacted
    <partition>/leader-epoch-checkpoint  version 0, count, then `epoch start_offset` on each line
    <partition>/partition.metadata       `version: 0`, `topic_id: <22 characters>`
    meta.properties                      `version=0`, `broker.id=…`, `cluster.id=…`

Every file is replaced as a whole. A file that cannot be read raises `CheckpointError`; the caller knows whether it can
do without.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import pairwise

import attrs

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_ENDS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"

_VERSION = 0
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class CheckpointError(Exception):
    """The file is not what it should be."""


@attrs.frozen(order=True)
class TopicPartition:
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class MetaProperties:
    """Whose log directory this is."""

    broker_id: int
    cluster_id: str


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The file of an offset for each partition."""
    return _format((where.topic, where.partition, offset) for where, offset in sorted(offsets.items()))


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offset of each partition. Raises CheckpointError."""
    found = {}
    for words in _parse(data, 3):
        topic, partition, offset = words
        found[TopicPartition(topic, _number(partition))] = _number(offset)
    return found


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """The file of leader epochs."""
    return _format(entries)


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset), both strictly increasing. Raises CheckpointError."""
    entries = [(_number(epoch), _number(start)) for epoch, start in _parse(data, 2)]
    for (epoch, start), (next_epoch, next_start) in pairwise(entries):
        if next_epoch <= epoch or next_start <= start:
            raise CheckpointError(f"epoch {next_epoch} at {next_start} follows epoch {epoch} at {start}")
    return entries


def format_partition_metadata(topic_id: bytes) -> bytes:
    """`partition.metadata` of a topic id of 16 bytes."""
    assert len(topic_id) == 16
    return f"version: {_VERSION}\ntopic_id: {urlsafe_b64encode(topic_id)[:22].decode()}\n".encode()


def parse_partition_metadata(data: bytes) -> bytes:
    """The topic id, 16 bytes. Raises CheckpointError."""
    fields = dict(line.partition(":")[::2] for line in _text(data).splitlines())
    topic_id = fields.get("topic_id", "").strip()
    if fields.get("version", "").strip() != str(_VERSION) or not _TOPIC_ID.fullmatch(topic_id):
        raise CheckpointError(f"no version {_VERSION} with a topic_id of 22 characters: {data[:80]!r}")
    return urlsafe_b64decode(topic_id + "==")


def format_meta_properties(meta: MetaProperties) -> bytes:
    """`meta.properties`."""
    return f"version={_VERSION}\nbroker.id={meta.broker_id}\ncluster.id={meta.cluster_id}\n".encode()


def parse_meta_properties(data: bytes) -> MetaProperties:
    """Whose directory it is; comments and other keys are skipped. Raises CheckpointError."""
    lines = [line for line in _text(data).splitlines() if not line.startswith("#")]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    if fields.get("version") != str(_VERSION) or "cluster.id" not in fields:
        raise CheckpointError(f"no version {_VERSION} with broker.id and cluster.id: {data[:80]!r}")
    return MetaProperties(_number(fields.get("broker.id", "")), fields["cluster.id"])


def _format(rows: Iterable[Iterable[object]]) -> bytes:
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _parse(data: bytes, words_count: int) -> list[list[str]]:
    lines = _text(data).splitlines()
    if len(lines) < 2 or lines[0] != str(_VERSION):
        raise CheckpointError(f"no version {_VERSION}: {data[:80]!r}")
    rows = [line.split(" ") for line in lines[2:]]
    if len(rows) != _number(lines[1]):
        raise CheckpointError(f"{len(rows)} entries instead of {lines[1]}")
    for row in rows:
        if len(row) != words_count:
            raise CheckpointError(f"{' '.join(row)!r} has not {words_count} words")
    return rows


def _number(word: str) -> int:
    if not re.fullmatch(r"\d{1,19}", word):
        raise CheckpointError(f"{word!r} is not a number")
    return int(word)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(str(error)) from error
