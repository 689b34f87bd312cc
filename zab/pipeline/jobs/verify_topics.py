"""The job `verify --topics`: whether the replicas of topics are the same: `zab pipeline verify --topics DIRS`.

    verify_topics(spark, dirs) -> a row for each finding (VERIFY_TOPICS): deviations, and what is only stated

A task compares a range of offsets of one partition (`topics.comparing`), and all checksums in it; the driver says what
that means. So the cost is that of reading the files, and little is sent.

Invariants: nothing is written, brokers may be running.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import frozen

from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, shown_dirs
from zab.pipeline.jobs.sharing import as_rows, spread
from zab.pipeline.schema import Column
from zab.pipeline.topics.comparing import Compared, Group, TopicFinding, compare, judge
from zab.pipeline.topics.replicas import Replica, find_replicas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VERIFY_TOPICS", "TopicsVerified", "replicas_in", "verify_here", "verify_topics"]

VERIFY_TOPICS: Final = (
    Column("topic", "string", "the topic"),
    Column("partition", "int", "its number"),
    Column("broker", "string", "broker of the replica; null if the row concerns all replicas"),
    Column("offset", "bigint", "offset of the first record that the row is about"),
    Column("until", "bigint", "the offset after the last one"),
    Column("epoch", "int", "leader epoch of that broker's batch at this offset"),
    Column("file", "string", "full path or URI"),
    Column("position", "bigint", "position of the batch or the damage in the file"),
    Column("kind", "string", "differs, missing, damaged, ..."),
    Column("deviation", "boolean", "false for a note: it is no fault"),
    Column("sentence", "string", "what was found"),
)
TASK_BYTES: Final = 256 << 20

_Work: TypeAlias = tuple[int, Group, int, int]
"""Number of the partition, its replicas with the files of the range alone, a range of offsets."""
CompareAll: TypeAlias = Callable[[Sequence[_Work]], list[tuple[int, Compared]]]


@frozen
class TopicsVerified:
    """findings: deviations first. What is counted are whole batches, in all replicas."""

    findings: list[TopicFinding]
    partition_count: int
    broker_count: int
    batch_count: int
    byte_count: int


def verify_topics(spark: "SparkSession", dirs: Dirs, topics: Iterable[str] = ()) -> "DataFrame":
    """The findings, deviations first: rows of VERIFY_TOPICS. `topics`: only these. Raises PipelineError."""
    return as_rows(spark, VERIFY_TOPICS, verify_in(spark, replicas_in(dirs, topics)).findings)


def replicas_in(dirs: Dirs, topics: Iterable[str] = ()) -> list[Replica]:
    """The replicas in these directories, of these topics, or of all. Raises PipelineError for a topic that is not
    there."""
    found = find_replicas(dirs)
    wanted = frozenset(topics)
    missing = sorted(wanted - {each.topic for each in found})
    if missing:
        shown = ", ".join(sorted({each.topic for each in found})[:20])
        raise PipelineError(f"{shown_dirs(dirs)}: no topic {', '.join(missing)}; the topics are {shown}")
    return [each for each in found if not wanted or each.topic in wanted]


def verify_in(spark: "SparkSession", replicas: Sequence[Replica]) -> TopicsVerified:
    """Compare them in Spark. Raises PipelineError."""
    context = spark.sparkContext

    def compare_all(work: Sequence[_Work]) -> list[tuple[int, Compared]]:
        return list(spread(context, work, _bytes_of).map(_compare).collect())

    return verify(replicas, compare_all)


def verify_here(replicas: Sequence[Replica], *, task_bytes: int = TASK_BYTES) -> TopicsVerified:
    """Compare them in this process."""
    return verify(replicas, lambda work: [_compare(each) for each in work], task_bytes=task_bytes)


def verify(replicas: Sequence[Replica], compare_all: CompareAll, *, task_bytes: int = TASK_BYTES) -> TopicsVerified:
    """Compare them; `compare_all` does the work, here or in Spark."""
    given = [list(each) for _, each in groupby(replicas, key=lambda one: one.key)]
    groups = [Group.of(each) for each in given]
    work: list[_Work] = [
        (number, group.within(start, until), start, until)
        for number, group in enumerate(groups)
        if group.replicas
        for start, until in group.cuts(task_bytes)
        if start < until
    ]
    parts: dict[int, list[Compared]] = {}
    for number, found in compare_all(work):
        parts.setdefault(number, []).append(found)
    findings = [
        finding
        for number, (all_of_it, group) in enumerate(zip(given, groups, strict=True))
        for finding in judge(all_of_it, group, parts.get(number, []))
    ]
    compared = [each for found in parts.values() for each in found]
    return TopicsVerified(
        sorted(findings, key=_order),
        len(given),
        len({each.broker for each in replicas}),
        sum(each.batch_count for each in compared),
        sum(each.byte_count for each in compared),
    )


def _bytes_of(work: _Work) -> int:
    return sum(segment.size for replica in work[1].replicas for segment in replica.segments)


def _compare(work: _Work) -> tuple[int, Compared]:
    number, group, start, until = work
    return number, compare(group, start, until)


def _order(finding: TopicFinding) -> tuple[object, ...]:
    return (
        not finding.deviation,
        finding.topic,
        finding.partition,
        finding.offset or 0,
        finding.broker or "",
        finding.kind,
    )
