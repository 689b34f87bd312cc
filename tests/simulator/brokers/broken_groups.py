"""Variants of coordinators of KIP-848 that break a promise."""

from __future__ import annotations

from typing import Any

import pytest

from zab.kafka.errors import ErrorCode
from zab.partition.consumer_groups.state import ConsumerGroup
from zab.partition.groups import consumer_heartbeats, membership
from zab.partition.groups.loading import LoadingPartition

Patch = pytest.MonkeyPatch


def give_away_what_has_an_owner(patch: Patch) -> None:
    """A member gets what the target says, whether the one before has given it up or not."""
    patch.setattr(ConsumerGroup, "is_free", lambda group, topic, index: True)


def end_sessions_early(patch: Patch) -> None:
    """A member is out after a part of its session."""
    start_session = consumer_heartbeats.start_session

    def short(context: Any, group: Any, member: Any) -> None:
        start_session(context, group, member)
        due = context.now + context.settings.consumer_session_timeout_ms // 4
        context.deadlines.set((consumer_heartbeats.Timer.CONSUMER_SESSION, group, member.member_id), due)

    patch.setattr(consumer_heartbeats, "start_session", short)


def let_stale_members_commit(patch: Patch) -> None:
    """A commit is believed whatever epoch it has."""

    def believing(side: Any, member_id: str, epoch: int) -> ErrorCode:
        return ErrorCode.NONE if member_id in side.latest.members else ErrorCode.UNKNOWN_MEMBER_ID

    patch.setattr(membership, "epoch_error", believing)


def forget_the_epoch(patch: Patch) -> None:
    """A coordinator that takes over has members, and counts from 0 again."""
    apply = LoadingPartition._apply_consumer_group

    def forgetful(loading: Any, key: Any, value: Any) -> None:
        apply(loading, key, value)
        group = loading.consumers.get(key.group_id)
        if group is not None:
            group.epoch = 0

    patch.setattr(LoadingPartition, "_apply_consumer_group", forgetful)
