"""Log directories of brokers, as brokers leave them: written by the broker's own log, on a real disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.partition.log.rig import NOW, batch, headers, marker, produced, settings
from zab.host.storage.disk import RealDisk
from zab.partition.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    MetaProperties,
    TopicPartition,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
)
from zab.partition.log.file_effects import Confirmed
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.pipeline.topics.options import TopicOptions
from zab.pipeline.topics.planning import plan_topics
from zab.pipeline.topics.rows import piece_rows

__all__ = ["NOW", "BrokerFiles", "batch", "marker", "produced", "rows_of"]


class BrokerFiles:
    """One log directory. Segments and the distances of index entries are small."""

    def __init__(self, root: Path, broker: int = 1, **changes: Any) -> None:
        root.mkdir(parents=True)
        self.root = root
        self._disk = RealDisk(str(root), lock=False)
        self._files = Files(self._disk)
        self._changes = changes
        self.logs: dict[TopicPartition, Log] = {}
        self._disk.replace(META_PROPERTIES, format_meta_properties(MetaProperties(broker, "cluster")))

    def log(self, topic: str, partition: int = 0) -> Log:
        where = TopicPartition(topic, partition)
        if where not in self.logs:
            ident = format_partition_metadata(topic.encode().ljust(16, b"\0")[:16])
            self.logs[where] = Log.create(self._disk, str(where), settings(**self._changes), ident, NOW)
            self._store(self.logs[where])
        return self.logs[where]

    def add(self, topic: str, *batches: bytearray, partition: int = 0, epoch: int = 0) -> None:
        """Append each of these batches, and commit it."""
        log = self.log(topic, partition)
        for each in batches:
            log.append_as_leader(each, headers(each), epoch, NOW, is_verified=True)
            self._store(log)
            log.update_high_watermark(log.log_end)
        self._store(log)

    def _store(self, log: Log) -> None:
        for answer in self._files.perform(log.take_effects()):
            assert isinstance(answer, Confirmed)
            log.confirmed(answer.token)

    def save(self, marks: dict[str, int] | None = None, starts: dict[str, int] | None = None) -> BrokerFiles:
        """Write the checkpoints: high watermarks (of partition 0 of these topics another one) and log starts."""
        found = {where: log.high_watermark for where, log in self.logs.items()}
        found |= {TopicPartition(topic, 0): mark for topic, mark in (marks or {}).items()}
        self._disk.replace(HIGH_WATERMARKS, format_offsets(found))
        given = {TopicPartition(topic, 0): start for topic, start in (starts or {}).items()}
        self._disk.replace(LOG_STARTS, format_offsets(given))
        return self

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        return sorted((self.root / f"{topic}-{partition}").glob("*.log"))


def rows_of(
    dirs: Iterable[Path] | Path,
    columns: Sequence[str] = ("partition", "offset", "value"),
    task_bytes: int = 1 << 20,
    **options: str,
) -> list[dict[str, Any]]:
    """The rows of a read, without Spark."""
    listed = [dirs] if isinstance(dirs, Path) else dirs
    given = {name.replace("__", "."): value for name, value in options.items()}
    parsed = TopicOptions.parse({"dirs": ",".join(map(str, listed)), **given})
    tasks = plan_topics(parsed, columns, task_bytes=task_bytes)
    pieces = [piece for task in tasks for piece in task.pieces]
    return [row for piece in pieces for found in piece_rows(piece, columns) for row in found.to_pylist()]
