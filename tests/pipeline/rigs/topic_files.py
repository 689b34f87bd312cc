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

__all__ = [
    "BLANK",
    "NOW",
    "PAIRS",
    "BrokerFiles",
    "batch",
    "marker",
    "produced",
    "replica_files",
    "rewrite",
    "rows_of",
]

BLANK = b"x" * 40
PAIRS = 30
"""Batches of two records each in `replica_files`."""


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


def replica_files(root: Path, broker: int, *, epoch: int = 0, upto: int = PAIRS, cleaned: int = 0) -> BrokerFiles:
    """A broker with so many batches of two records each in partition 0 of `t`, in some segments."""
    found = BrokerFiles(root / f"broker-{broker}", broker=broker, segment_bytes=1500)
    found.add("t", *(batch([BLANK, b"%d" % number]) for number in range(upto)), epoch=epoch)
    found.save()
    if cleaned:
        (found.root / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {cleaned}\n")
    return found


def rewrite(broker: BrokerFiles, number: int, value: bytes, epoch: int = 0) -> Path:
    """Another batch of the same size at the place of this one, with a good checksum."""
    wanted = 2 * number
    segment = [path for path in broker.segments("t") if int(path.stem) <= wanted][-1]
    content = bytearray(segment.read_bytes())
    at = 0
    while int.from_bytes(content[at : at + 8], "big") != wanted:
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    other = batch([value.ljust(len(BLANK), b"y"), b"%d" % number])
    other[0:8] = wanted.to_bytes(8, "big")
    other[12:16] = epoch.to_bytes(4, "big")
    content[at : at + len(other)] = other
    segment.write_bytes(content)
    return segment
