"""`zab topic describe [TOPIC]`: partitions with leader, replicas, ISR, offsets and sizes, and the topic's settings.

    greetings: 1 partition, replication factor 1, 345 bytes, id zAFVgE-DTO-zwy_NdcX5jA
      retention.ms=1000
    partition  leader  epoch  replicas  in sync  eligible  begin  end  bytes  state
    0          1       0      1         1        -         0      5    345    ok

`eligible` are the replicas that may lead besides the ISR (the ELR of KIP-966); `-` also where brokers do not tell them.
A partition without a leader is offline, and nobody tells its offsets and its size. `bytes` are those of the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import typer

from zab.cli.brokers.clients import Brokers, carry_out
from zab.cli.brokers.options import OtherTopicArgument
from zab.cli.brokers.topic_partitions import id_text, is_offline, is_under_replicated
from zab.cli.columns import cell, columns
from zab.cli.json_form import JsonOption, json_line
from zab.cli.terminal import count_of, in_line, say

__all__ = ["describe_command"]

_HEAD: Final = ("partition", "leader", "epoch", "replicas", "in sync", "eligible", "begin", "end", "bytes", "state")
_Place = tuple[str, int]


def describe_command(
    context: typer.Context,
    topic: OtherTopicArgument = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Only partitions without a leader.")] = False,
    json: JsonOption = False,
) -> None:
    """Print partitions and settings of a topic, or of all topics. With --under-replicated or --offline, only partitions
    that are so, and only topics that have some.
    """

    def is_wanted(partition: dict[str, Any]) -> bool:
        if not (under_replicated or offline):
            return True
        return (under_replicated and is_under_replicated(partition)) or (offline and is_offline(partition))

    def work(brokers: Brokers) -> None:
        with brokers.admin() as admin:
            if topic is None:
                found = sorted(
                    (each for each in admin.describe_topics() if not each["is_internal"]),
                    key=lambda each: str(each["name"]),
                )
            else:
                found = [brokers.described(admin, topic)]
            for each in found:
                each["count"] = len(each["partitions"])
                each["partitions"] = sorted(
                    filter(is_wanted, each["partitions"]), key=lambda one: int(one["partition_index"])
                )
            found = [each for each in found if each["partitions"]]
            lines = list(_described(admin, found))
        for text in map(json_line, lines) if json else _text_of(lines):
            say(text)

    carry_out(context, work, writes=False)


def _described(admin: Any, topics: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of JSON: one for each topic, and after it one for each of its partitions."""
    places = [(each["name"], one["partition_index"]) for each in topics for one in each["partitions"]]
    led = [
        (each["name"], one["partition_index"]) for each in topics for one in each["partitions"] if not is_offline(one)
    ]
    begins, ends = offsets_of(admin, led, "EARLIEST"), offsets_of(admin, led, "LATEST")
    sizes = _sizes(admin, places)
    eligible = _eligible(admin, [each["name"] for each in topics])
    settings = _settings(admin, [each["name"] for each in topics])
    for topic in topics:
        name, parts = topic["name"], topic["partitions"]
        own = {one["partition_index"]: sizes.get((name, one["partition_index"], one["leader_id"])) for one in parts}
        yield {
            "type": "topic",
            "topic": name,
            "id": id_text(topic["topic_id"]),
            "partitions": topic["count"],
            "replication_factor": max(len(one["replica_nodes"]) for one in parts),
            "bytes": sum(size or 0 for size in own.values()),
            "config": settings.get(name, {}),
        }
        for one in parts:
            number = one["partition_index"]
            yield {
                "type": "partition",
                "topic": name,
                "partition": number,
                "leader": None if is_offline(one) else one["leader_id"],
                "leader_epoch": one["leader_epoch"],
                "replicas": list(one["replica_nodes"]),
                "isr": list(one["isr_nodes"]),
                "elr": eligible.get((name, number)),
                "offline_replicas": list(one["offline_replicas"]),
                "begin": begins.get((name, number)),
                "end": ends.get((name, number)),
                "bytes": own[number],
                "is_under_replicated": is_under_replicated(one),
                "is_offline": is_offline(one),
            }


def offsets_of(admin: Any, places: Iterable[_Place], spec: str) -> dict[_Place, int]:
    """The first or the next offset of each partition. spec: the name of an OffsetSpec."""
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    wanted = {TopicPartition(*place): OffsetSpec[spec] for place in places}
    if not wanted:
        return {}
    return {
        (place.topic, place.partition): found.offset for place, found in admin.list_partition_offsets(wanted).items()
    }


def _sizes(admin: Any, places: Iterable[_Place]) -> dict[tuple[str, int, int], int]:
    """The bytes of each replica, by topic, partition and broker. A broker that is gone tells nothing."""
    wanted: dict[str, list[int]] = {}
    for topic, partition in places:
        wanted.setdefault(topic, []).append(partition)
    if not wanted:
        return {}
    return {
        (topic["name"], one["partition_index"], answer["broker"]): one["partition_size"]
        for answer in admin.describe_log_dirs(wanted)
        for directory in answer["log_dirs"]
        for topic in directory["topics"]
        for one in topic["partitions"]
        if not one["is_future_key"]
    }


def _eligible(admin: Any, topics: list[str]) -> dict[_Place, list[int]]:
    """The ELR of each partition; nothing where brokers do not tell it (DescribeTopicPartitions, KIP-966)."""
    from kafka.errors import UnsupportedVersionError

    found: dict[_Place, list[int]] = {}
    cursor = None
    while topics:
        try:
            answer = admin.describe_topic_partitions(topics, cursor=cursor)
        except UnsupportedVersionError:
            return {}
        for topic in answer["topics"]:
            for one in topic["partitions"]:
                found[topic["name"], one["partition_index"]] = one["eligible_leader_replicas"] or []
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    return found


def _settings(admin: Any, topics: list[str]) -> dict[str, dict[str, str | None]]:
    """What topics themselves set."""
    from kafka.admin import ConfigResource

    if not topics:
        return {}
    answer = admin.describe_configs([ConfigResource("TOPIC", each) for each in topics]).get("topic", {})
    return {
        topic: {
            key: value["value"]
            for key, value in sorted(configs.items())
            if value["config_source"] == "DYNAMIC_TOPIC_CONFIG"
        }
        for topic, configs in answer.items()
    }


def _text_of(lines: list[dict[str, Any]]) -> Iterator[str]:
    table: list[tuple[str, ...]] = []
    for line in [*lines, {"type": "topic"}]:
        if line["type"] == "partition":
            table.append(_row(line))
            continue
        if table:
            yield from columns([_HEAD, *table])
            table = []
        if "topic" in line:
            counts = f"{count_of(line['partitions'], 'partition')}, replication factor {line['replication_factor']}"
            yield in_line(f"{line['topic']}: {counts}, {count_of(line['bytes'], 'byte')}, id {cell(line['id'])}")
            yield from (in_line(f"  {key}={value}") for key, value in line["config"].items())


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    state = "offline" if line["is_offline"] else "under-replicated" if line["is_under_replicated"] else "ok"
    return (
        *(cell(line[key]) for key in ("partition", "leader", "leader_epoch")),
        *(cell(",".join(map(str, line[key] or ()))) for key in ("replicas", "isr", "elr")),
        *(cell(line[key]) for key in ("begin", "end", "bytes")),
        state,
    )
