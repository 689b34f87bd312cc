"""Finds the replicas of partitions in brokers' log directories, and what the files beside a log say of it.

A DIR is a broker's log directory, a directory with such directories in it (down to DEPTH_MAX), or the directory of one
partition. The broker is `broker.id` (`node.id`) of `meta.properties`, else the name of the log directory; several log
directories of one broker are one broker.

    replication-offset-checkpoint   the high watermark: what is below is committed; a broker writes it every 5 s
    log-start-offset-checkpoint     the first offset that clients see
    cleaner-offset-checkpoint       below which compaction has been: offsets may be missing there
    partition.metadata              the id of the topic

Invariants: nothing is written, no lock is taken, and brokers may be running. What is on its way out (`-delete`,
`.deleted`) or unfinished (`.cleaned`) is not looked at. Deliberately not here: what is in a log (`batches`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from attrs import evolve, frozen

from zab.partition.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    CheckpointError,
    TopicPartition,
    parse_offsets,
    parse_partition_metadata,
)
from zab.partition.log.paths import INDEX, LOG, PARTITION_METADATA, SWAP, parse_name
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, split_dirs
from zab.pipeline.places import Entry, Place, open_place

__all__ = ["INTERNAL", "Replica", "Segment", "find_replicas"]

DEPTH_MAX: Final = 2
PARTITIONS_MAX: Final = 100_000
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata"})
"""Topics that brokers keep for themselves: read only if they are named."""
_CLEANED: Final = "cleaner-offset-checkpoint"
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_BROKER: Final = re.compile(r"^(?:broker|node)\.id *= *(\d{1,10}) *$", re.MULTILINE)
_ANY: Final = (1 << 63) - 1

T = TypeVar("T")


@frozen
class Segment:
    """A log file. `size`: its bytes when it was found. `following`: where the next one begins; None: the last one."""

    base: int
    place: Place
    size: int
    following: int | None

    def beside(self, suffix: str) -> Place:
        """The index with this suffix, or the snapshot, of the same base offset."""
        return self.place.parent / (self.place.name.removesuffix(LOG) + suffix)


@frozen
class Replica:
    """One partition in one log directory.

    mark: the high watermark; None: the directory does not say. start: the first offset that clients see. cleaned: at
    and above this offset no offset is missing. others: the names of the files that are no logs. problem: why it cannot
    be read; empty if it can."""

    topic: str
    partition: int
    broker: str
    directory: Place
    topic_id: bytes | None
    start: int
    mark: int | None
    cleaned: int
    segments: tuple[Segment, ...]
    others: frozenset[str]
    problem: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    def within(self, start: int, until: int) -> "Replica":
        """With only the files that offsets in [start, until) are read from."""
        segments = tuple(
            one for one in self.segments if one.base < until and (one.following is None or one.following > start)
        )
        needed = {one.beside(INDEX).name for one in segments}
        return evolve(self, segments=segments, others=self.others & needed)

    @property
    def shown(self) -> str:
        return str(self.directory)


@frozen
class _Checkpoints:
    broker: str
    marks: dict[TopicPartition, int] | None
    starts: dict[TopicPartition, int]
    cleaned: dict[TopicPartition, int]


def find_replicas(dirs: Dirs) -> list[Replica]:
    """The replicas in these directories, by topic, partition and broker. Raises PipelineError for a directory that does
    not exist or has no partitions, and for one topic with two ids."""
    found: dict[str, Replica] = {}
    for _, text in split_dirs(dirs):
        place = open_place(text)
        kind = place.kind()
        if kind != "directory":
            raise PipelineError(f"{place} is a file; name the log directory" if kind else f"{place} does not exist")
        try:
            listed = list(_replicas(place))
        except OSError as error:
            raise PipelineError(f"{place} cannot be read: {error.strerror or error}") from None
        if not listed:
            raise PipelineError(
                f"{place} has no directories of partitions, such as topic-0, and neither has what is in it"
            )
        found |= {one.shown: one for one in listed}
        if len(found) > PARTITIONS_MAX:
            raise PipelineError(f"more than {PARTITIONS_MAX:,} partitions; name fewer directories")
    _check_ids(found.values())
    return sorted(found.values(), key=lambda one: (*one.key, one.broker, one.shown))


def _check_ids(found: Iterable[Replica]) -> None:
    ids: dict[str, Replica] = {}
    for one in found:
        if one.topic_id is not None:
            other = ids.setdefault(one.topic, one)
            if other.topic_id != one.topic_id:
                raise PipelineError(
                    f"{one.shown} and {other.shown} belong to two topics named {one.topic}: their partition.metadata "
                    "have different ids; give the directories of one"
                )


def _replicas(place: Place) -> Iterator[Replica]:
    entries = place.list()
    if _PARTITION.fullmatch(place.name) and _has_log(entries):
        yield _replica(place, entries, _checkpoints(place.parent, place.parent.list()))
        return
    level = [(place, entries)]
    for depth in range(DEPTH_MAX + 1):
        deeper: list[tuple[Place, list[Entry]]] = []
        for directory, listed in level:
            inside = [(one.place, one.place.list()) for one in listed if one.is_directory]
            partitions = [(at, names) for at, names in inside if _is_partition(at, names)]
            if partitions or any(one.name == META_PROPERTIES for one in listed):
                known = _checkpoints(directory, listed)
                yield from (_replica(at, names, known) for at, names in partitions)
            elif depth < DEPTH_MAX:
                deeper += inside
        level = deeper


def _is_partition(place: Place, entries: Sequence[Entry]) -> bool:
    return _PARTITION.fullmatch(place.name) is not None and (
        _has_log(entries) or any(one.name == PARTITION_METADATA for one in entries)
    )


def _has_log(entries: Sequence[Entry]) -> bool:
    return any(one.name.endswith(LOG) and parse_name(one.name) is not None for one in entries)


def _checkpoints(directory: Place, entries: Sequence[Entry]) -> _Checkpoints:
    names = {one.name for one in entries}
    owner = _read(directory, META_PROPERTIES, names, bytes.decode) or ""
    broker = _BROKER.search(owner)
    marks = _read(directory, HIGH_WATERMARKS, names, parse_offsets)
    return _Checkpoints(
        broker[1] if broker is not None else directory.name,
        marks,
        _read(directory, LOG_STARTS, names, parse_offsets) or {},
        _read(directory, _CLEANED, names, parse_offsets) or {},
    )


def _read(directory: Place, name: str, names: set[str], parse: Callable[[bytes], T]) -> T | None:
    """The parsed file; None without one, and where nothing is in it yet. Raises PipelineError."""
    if name not in names:
        return None
    try:
        content = (directory / name).read()
        return parse(content) if content else None
    except (CheckpointError, UnicodeDecodeError) as error:
        raise PipelineError(f"{directory / name} cannot be used: {error}; read the replica of another broker") from None


def _replica(directory: Place, entries: Sequence[Entry], known: _Checkpoints) -> Replica:
    match = _PARTITION.fullmatch(directory.name)
    assert match is not None
    where = TopicPartition(match[1], int(match[2]))
    names = {one.name for one in entries}
    logs = [(parsed[0], one) for one in entries if (parsed := parse_name(one.name)) is not None and parsed[1] == LOG]
    following = [base for base, _ in logs[1:]]
    segments = (
        tuple(
            Segment(base, one.place, one.size, after)
            for (base, one), after in zip(logs, [*following, None], strict=True)
        )
        if logs
        else ()
    )
    first = segments[0].base if segments else 0
    problem = ""
    if any(name.endswith(LOG + SWAP) for name in names):
        problem = "the cleaner is replacing a segment, or was stopped while it did"
    return Replica(
        topic=where.topic,
        partition=where.partition,
        broker=known.broker,
        directory=directory,
        topic_id=_read(directory, PARTITION_METADATA, names, parse_partition_metadata),
        start=max(first, known.starts.get(where, 0)),
        mark=None if known.marks is None else known.marks.get(where, 0),
        cleaned=_ANY if known.marks is None else known.cleaned.get(where, 0),
        segments=segments,
        others=frozenset(names - {one.name for _, one in logs}),
        problem=problem,
    )
