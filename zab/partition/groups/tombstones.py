"""How offsets and groups go away: their tombstones are appended, and what is in memory follows the log.

Until the tombstones are committed, everything is as before; a commit that is appended after them stays. A group is
forgotten with its tombstone if it is still Empty, of the same generation, and without offsets. If it has come to life
in the meantime, its next generation is stored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from zab.kafka.coordinator_records import GroupKey, OffsetKey
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import Appending
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group
from zab.partition.groups.records import Key, Record
from zab.partition.groups.requests import TopicPartition

RECORDS_MAX: Final = 1000
"""How many go into one append: a batch has to stay below the size that the topic allows."""


def remove(
    context: Context,
    group: Group,
    partitions: Iterable[TopicPartition],
    with_group: bool,
    answer: Callable[[ErrorCode], None],
) -> None:
    """Remove these offsets, and the group after them; then answer, with the first error of the log if there is one."""
    keys: list[Key] = [OffsetKey(group=group.group_id, topic=topic, partition=index) for topic, index in partitions]
    if with_group and group.protocol_type is not None:
        keys.append(GroupKey(group=group.group_id))
    if with_group and group.consumer is not None:
        keys += group.consumer.group.tombstones()
    if not keys:
        if with_group:
            context.bury_if_unused(group)
        answer(ErrorCode.NONE)
        return
    errors: list[ErrorCode] = []

    def note(is_last: bool, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            errors.append(error)
        if is_last:
            answer(errors[0] if errors else ErrorCode.NONE)

    for start in range(0, len(keys), RECORDS_MAX):
        part = keys[start : start + RECORDS_MAX]
        is_last = start + RECORDS_MAX >= len(keys)
        then = Appending(
            apply=partial(_apply, context, group, _age(group), part, is_last and with_group),
            answer=partial(note, is_last),
        )
        context.append(group.partition, [Record(key, None) for key in part], then)


def _age(group: Group) -> tuple[int, int]:
    """Another one once the group has come to life."""
    return group.generation, -1 if group.consumer is None else group.consumer.group.epoch


def _apply(
    context: Context, group: Group, age: tuple[int, int], keys: list[Key], with_group: bool, position: int
) -> None:
    if group.is_dead:
        return
    for key in keys:
        if isinstance(key, OffsetKey):
            group.offsets.remove((key.topic, key.partition), position)
    if with_group and group.has_no_members and _age(group) == age:
        group.consumer = None
        # The log knows its generations no longer; offsets that came after the tombstones make it a simple group.
        group.protocol_type = None
        group.generation = 0
        group.subscribed = None
    context.bury_if_unused(group)
