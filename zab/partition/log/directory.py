"""The log directory of a broker: whose it is, which logs are in it, and what is known of each between two starts.

    <topic>-<partition>                     a log; the partition is after the last "-"
    <topic>-<partition>.<32 hex>-delete     a deleted one, on its way out
    meta.properties                         broker and cluster that it belongs to
    *-checkpoint                            marks of all logs (`checkpoints`)
    .kafka_cleanshutdown                    written last by a clean stop, removed first by the next start

The real disk of a broker holds its lock on `LOCK_FILE`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from datatree.log.disk import Disk
from zab.partition.log.checkpoints import (
    CLEANED_ENDS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    MetaProperties,
    TopicPartition,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from zab.partition.log.errors import InconsistentTopicIdError
from zab.partition.log.file_effects import FileEffect, RemoveDirectory, RenameDirectory, Replace
from zab.partition.log.log import Log
from zab.partition.log.paths import DELETE_DIRECTORY, LOG, PARTITION_METADATA, TEMPORARY, parse_name
from zab.partition.log.recovery import Marks, Recovered, recover
from zab.partition.settings.topic_settings import TopicSettings

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
NAME_BYTES_MAX = 255

_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_DELETED_NAME = re.compile(rf"{_NAME.pattern}\.[0-9a-f]{{32}}{DELETE_DIRECTORY}")
_UNKNOWN_EPOCH: Final = -1
_CLEAN = '{{"version":0,"brokerEpoch":{}}}'


class ForeignDirectoryError(Exception):
    """The directory belongs to another broker or cluster, or its `meta.properties` cannot be read."""


class LogDirectory:
    """The logs of one directory. The constructor reads, and removes what was deleted."""

    def __init__(self, disk: Disk, owner: MetaProperties) -> None:
        """Raises ForeignDirectoryError, OSError."""
        self.notes: list[str] = []
        """Sentences about what was not as a clean stop leaves it."""
        self._disk = disk
        self._check_owner(owner)
        self.is_clean = disk.exists(CLEAN_SHUTDOWN)
        if self.is_clean:
            disk.remove(CLEAN_SHUTDOWN)
            # Before anything is written: after a crash the stop was not clean.
            disk.sync_directory("")
        self._recovery_points = self._read(RECOVERY_POINTS)
        self._log_starts = self._read(LOG_STARTS)
        self._high_watermarks = self._read(HIGH_WATERMARKS)
        self._cleaned_ends = self._read(CLEANED_ENDS)
        self.partitions: list[TopicPartition] = []
        """The partitions with a directory at the start."""
        for name in disk.directories():
            if _DELETED_NAME.fullmatch(name):
                disk.remove_directory(name)
            elif (match := _NAME.fullmatch(name)) is not None and not self._was_begun(name):
                self.partitions.append(TopicPartition(match[1], int(match[2])))

    def _check_owner(self, owner: MetaProperties) -> None:
        if not self._disk.exists(META_PROPERTIES):
            self._disk.replace(META_PROPERTIES, format_meta_properties(owner))
            return
        try:
            found = parse_meta_properties(self._disk.read(META_PROPERTIES))
        except CheckpointError as error:
            raise ForeignDirectoryError(f"{META_PROPERTIES}: {error}") from error
        if found != owner:
            raise ForeignDirectoryError(f"{META_PROPERTIES} names {found}, this is {owner}")

    def _read(self, path: str) -> dict[TopicPartition, int]:
        """A file of marks; without it all logs are recovered from their beginning."""
        if not self._disk.exists(path):
            return {}
        try:
            return parse_offsets(self._disk.read(path))
        except CheckpointError as error:
            self.notes.append(f"{path}: {error} -> every mark in it is 0")
            return {}

    def _was_begun(self, name: str) -> bool:
        """Whether a crash has left only the directory and empty files of a new log; then they are removed."""
        for file in self._disk.list(name):
            is_begun = file == PARTITION_METADATA + TEMPORARY or parse_name(file) is not None
            if not is_begun or (file.endswith(LOG) and self._disk.size(f"{name}/{file}")):
                return False
        self._disk.remove_directory(name)
        return True

    # One log.

    def topic_id(self, where: TopicPartition) -> bytes | None:
        """Which topic of that name the files belong to; None if they do not say. Raises OSError."""
        path = f"{where}/{PARTITION_METADATA}"
        if not self._disk.exists(path):
            return None
        try:
            return parse_partition_metadata(self._disk.read(path))
        except CheckpointError as error:
            self.notes.append(f"{path}: {error}")
            return None

    def create(self, where: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int) -> Log:
        """A new log, whose first effects create its files. It is not in `partitions`."""
        assert where not in self.partitions
        return Log.create(self._disk, str(where), settings, format_partition_metadata(topic_id), now_ms)

    def recover(
        self, where: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int, *, roll_jitter_ms: int = 0
    ) -> Recovered:
        """The log of a partition; an empty one if there is none yet. Raises InconsistentTopicIdError, in which case
        nothing was touched, and OSError."""
        found = self.topic_id(where)
        if found is not None and found != topic_id:
            raise InconsistentTopicIdError(f"{where} belongs to topic {found.hex()}, not to {topic_id.hex()}")
        if found is None:
            self._disk.replace(f"{where}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        marks = Marks(
            self._recovery_points.get(where, 0),
            self._log_starts.get(where, 0),
            self._high_watermarks.get(where, 0),
            self._cleaned_ends.get(where, 0),
        )
        recovered = recover(
            self._disk,
            str(where),
            settings,
            marks,
            is_clean=self.is_clean,
            now_ms=now_ms,
            roll_jitter_ms=roll_jitter_ms,
        )
        log = recovered.log
        log.cleaned_end = min(self._cleaned_ends.get(where, 0), log.log_end)
        return recovered

    def deletion(self, where: TopicPartition, unique: bytes) -> tuple[FileEffect, FileEffect]:
        """(what takes the directory out of the way at once, what removes it later). `unique` are 16 random bytes.

        The marks of the log are forgotten: another log of that name has none."""
        if where in self.partitions:
            self.partitions.remove(where)
        for marks in (self._recovery_points, self._log_starts, self._high_watermarks, self._cleaned_ends):
            marks.pop(where, None)
        suffix = f"-{where.partition}.{unique.hex()}{DELETE_DIRECTORY}"
        name = where.topic[: NAME_BYTES_MAX - len(suffix)] + suffix
        return RenameDirectory(str(where), name), RemoveDirectory(name)

    # Marks.

    def save_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> FileEffect:
        """Every minute, and after a truncation."""
        return self._save(RECOVERY_POINTS, logs, lambda log: log.synced_end)

    def save_log_starts(self, logs: Mapping[TopicPartition, Log]) -> FileEffect:
        """Every minute, and before an answer says that records were deleted."""
        return self._save(LOG_STARTS, logs, lambda log: log.log_start)

    def save_high_watermarks(self, logs: Mapping[TopicPartition, Log]) -> FileEffect:
        """Every five seconds."""
        return self._save(HIGH_WATERMARKS, logs, lambda log: log.high_watermark)

    def save_cleaned_ends(self, logs: Mapping[TopicPartition, Log]) -> FileEffect:
        """After a round of compaction."""
        return self._save(CLEANED_ENDS, logs, lambda log: log.cleaned_end)

    def _save(self, path: str, logs: Mapping[TopicPartition, Log], mark_of: Callable[[Log], int]) -> FileEffect:
        return Replace(path, format_offsets({where: mark_of(log) for where, log in logs.items()}))

    def clean_shutdown(
        self, logs: Mapping[TopicPartition, Log], broker_epoch: int = _UNKNOWN_EPOCH
    ) -> list[FileEffect]:
        """What a clean stop writes last, once the storage has confirmed that every log is closed; with the epoch of
        the broker that stops."""
        assert all(log.failure is None and log.synced_end == log.log_end for log in logs.values())
        marks = [self.save_recovery_points(logs), self.save_log_starts(logs), self.save_high_watermarks(logs)]
        return [*marks, Replace(CLEAN_SHUTDOWN, _CLEAN.format(broker_epoch).encode())]


def epoch_of_clean_stop(disk: Disk) -> int:
    """The epoch of the broker when it last stopped cleanly; -1: it did not, or does not say. To be asked before the
    directory is opened."""
    if not disk.exists(CLEAN_SHUTDOWN):
        return _UNKNOWN_EPOCH
    try:
        epoch = json.loads(disk.read(CLEAN_SHUTDOWN))["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _UNKNOWN_EPOCH
    return epoch if type(epoch) is int and epoch >= 0 else _UNKNOWN_EPOCH
