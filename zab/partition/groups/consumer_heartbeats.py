"""ConsumerGroupHeartbeat (KIP-848), the end of sessions, and members that are too slow to give partitions up.

`zab/partition/consumer_groups` decides; this appends what was decided, and answers once it is committed. If the log
refuses, the group is as it was, and the member comes again. If the log does not say in time, those who wait are told
to come again (15), until it does.

A group of the classic protocol without members becomes one of these with the first member that sends a heartbeat: its
offsets stay. The other way, a group of these without members becomes a classic one with the first JoinGroup. With
members it is converted by `migration`, if the policy has it; else the heartbeat gets 69. Members of the classic
protocol come in by `classic_members`.

Bounds: group.consumer.max.size; `TOPIC_NAMES_MAX`; `REGEXES_MAX`; one record for each member of a batch, and
`BATCH_MAX` heartbeats in one.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs
from attrs import define, field, frozen

from zab.kafka.consumer_group_records import MemberState
from zab.kafka.coordinator_records import GroupKey
from zab.kafka.errors import ErrorCode
from zab.partition.consumer_groups.heartbeat import (
    NO_TIMEOUT,
    HeartbeatError,
    MemberAnswer,
    heartbeat,
    leave,
    remove,
)
from zab.partition.consumer_groups.state import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Draft,
)
from zab.partition.coordinator.context import IN_DOUBT, Appending
from zab.partition.coordinator.effects import Token
from zab.partition.groups.append_errors import error_of_heartbeat, is_too_large
from zab.partition.groups.consumer_side import Asked, ConsumerSide, Removal, Waiting
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.migration import JOIN_AGAIN, become_classic, downgraded, downgrades, resume, suspend, upgraded
from zab.partition.groups.records import Record, can_be_stored
from zab.partition.groups.requests import ConsumerHeartbeat
from zab.partition.groups.results import ConsumerHeartbeatResult

BATCH_MAX: Final = 100
"""So many heartbeats are decided together."""
TOPIC_NAMES_MAX: Final = 10_000
"""So many topics a member may subscribe to by name."""
_OF_CLASSIC: Final = (Timer.CLASSIC_JOIN, Timer.CLASSIC_SYNC)
AGAIN_MS: Final = 1000
"""When a member is looked at again whose removal the log did not take."""


@frozen
class _Decided:
    """What was decided about one that waits; the result of a removal is None."""

    waiting: Waiting
    result: ConsumerHeartbeatResult | None


def consumer_heartbeat(context: Context, group: Group | None, token: Token, request: ConsumerHeartbeat) -> None:
    """Answer once what is decided is committed. None: there is no such group."""
    asked = request.heartbeat
    error, message = _why_invalid(context, request)
    if error is not ErrorCode.NONE:
        context.answer(token, ConsumerHeartbeatResult(error=error, message=message))
        return
    joins = asked.epoch == JOINS
    if not asked.member_id:
        asked = attrs.evolve(asked, member_id=context.surroundings.unique())
    if group is None and joins:
        group = context.create_group(request.group_id)
    if group is not None and group.consumer is None and joins and not _can_be_converted(group):
        _upgrade(context, group, Asked(asked, partial(context.answer, token)))
        return
    if group is None or (group.consumer is None and not joins):
        text = f"group {request.group_id} is not a consumer group"
        context.answer(token, ConsumerHeartbeatResult(error=ErrorCode.GROUP_ID_NOT_FOUND, message=text))
        return
    if group.consumer is None:
        group.consumer = ConsumerSide(ConsumerGroup(group.group_id))
    side = group.consumer
    member = side.group.members.get(asked.member_id)
    if member is not None and asked.epoch >= JOINS and asked.epoch in (member.epoch, member.previous_epoch):
        start_session(context, group, member)
    ask(context, group, side, Asked(asked, partial(context.answer, token)))


def ask(context: Context, group: Group, side: ConsumerSide, asked: Asked) -> None:
    """Decide about it as soon as the log has what was decided before."""
    if side.is_in_doubt:
        asked.answer(ConsumerHeartbeatResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    side.waiting.append(asked)
    _go_on(context, group, side)


def _upgrade(context: Context, group: Group, asked: Asked) -> None:
    """The first member of this protocol comes into a classic group with members."""
    draft = upgraded(context, group)
    if draft is None:
        text = f"group {group.group_id} is not a consumer group"
        asked.answer(ConsumerHeartbeatResult(error=ErrorCode.GROUP_ID_NOT_FOUND, message=text))
        return
    side = ConsumerSide(ConsumerGroup(group.group_id))
    result = _decide(context, group, side, draft, asked)
    if result is not None and result.error is not ErrorCode.NONE:
        asked.answer(result)
        return
    side.is_converting = True
    group.consumer = side
    suspend(context, group)
    _append(context, group, side, draft, [_Decided(asked, result)])


def make_classic(context: Context, group: Group) -> bool:
    """A group of KIP-848 without members becomes a classic one. False: it has members, or some are on their way."""
    side = group.consumer
    if side is None or not side.is_empty:
        return False
    # If the log refuses, what is stored last counts for the next coordinator.
    context.append(group.partition, [Record(key, None) for key in side.group.tombstones()], Appending())
    group.consumer = None
    return True


def _can_be_converted(group: Group) -> bool:
    return group.state is GroupState.EMPTY and not group.pending


def _why_invalid(context: Context, request: ConsumerHeartbeat) -> tuple[ErrorCode, str]:
    """Kafka's checks, in its order."""
    asked, invalid = request.heartbeat, ErrorCode.INVALID_REQUEST
    if not asked.member_id and (request.requires_member_id or asked.epoch > JOINS or asked.epoch == LEAVES):
        return invalid, "MemberId can't be empty."
    if asked.instance_id == "":
        return invalid, "InstanceId can't be empty."
    if asked.rack_id == "":
        return invalid, "RackId can't be empty."
    if asked.epoch == JOINS:
        if asked.rebalance_timeout_ms == NO_TIMEOUT:
            return invalid, "RebalanceTimeoutMs must be provided in first request."
        if asked.owned is None or asked.owned:
            return invalid, "TopicPartitions must be empty when (re-)joining."
        if asked.topic_names is None and asked.topic_regex is None:
            text = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            return invalid, text
    elif asked.epoch == LEAVES_FOR_A_WHILE and asked.instance_id is None:
        return invalid, "InstanceId can't be null."
    elif asked.epoch < LEAVES_FOR_A_WHILE:
        return invalid, "MemberEpoch is invalid."
    if asked.rebalance_timeout_ms < NO_TIMEOUT:
        return invalid, "RebalanceTimeoutMs is invalid."
    if not all(map(can_be_stored, (asked.member_id, asked.instance_id or "", asked.topic_regex or ""))):
        return invalid, "MemberId, InstanceId or SubscribedTopicRegex is too long."
    if len(asked.topic_names or ()) > TOPIC_NAMES_MAX:
        return invalid, f"SubscribedTopicNames has more than {TOPIC_NAMES_MAX} names."
    supported = context.settings.consumer_assignors
    if asked.assignor is not None and asked.assignor not in supported:
        text = f"ServerAssignor {asked.assignor} is not supported. Supported assignors: {', '.join(supported)}."
        return ErrorCode.UNSUPPORTED_ASSIGNOR, text
    return ErrorCode.NONE, ""


# ------------------------------------------------------------------------------------------------------------ deciding


def _go_on(context: Context, group: Group, side: ConsumerSide) -> None:
    """Decide about those that wait, until there is something to append."""
    if group.consumer is not side and not group.is_dead:
        # It has become a classic one.
        left = list(side.waiting)
        side.waiting.clear()
        _refuse(context, group, left, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    while side.waiting and side.next is None and not group.is_dead:
        draft = Draft(side.group)
        count = 1 if side.alone_count else BATCH_MAX
        decided: list[_Decided] = []
        while side.waiting and len(decided) < count:
            waiting = side.waiting.popleft()
            each = _Decided(waiting, _decide(context, group, side, draft, waiting))
            if draft.entries:
                decided.append(each)
            else:
                _tell(context, group, each)
        side.alone_count = max(side.alone_count - 1, 0)
        if draft.entries:
            _append(context, group, side, draft, decided)
    if group.consumer is side and side.is_empty and not side.group.epoch and not group.is_dead:
        # Nobody came in after all: it is what it was.
        group.consumer = None
        context.bury_if_unused(group)


def _decide(
    context: Context, group: Group, side: ConsumerSide, draft: Draft, waiting: Waiting
) -> ConsumerHeartbeatResult | None:
    rules = context.consumer_rules
    if isinstance(waiting, Removal):
        if _is_due(context, group, side, draft, waiting):
            remove(rules, draft, waiting.member_id)
        return None
    asked = waiting.heartbeat
    try:
        if asked.epoch < JOINS:
            return _result(context, leave(rules, draft, asked))
        topics = rules.topics()
        answer = heartbeat(rules, draft, asked, has_news=side.seen is not topics)
        side.seen = topics
    except HeartbeatError as refusal:
        return ConsumerHeartbeatResult(error=refusal.error, message=str(refusal))
    return _result(context, answer)


def _is_due(context: Context, group: Group, side: ConsumerSide, draft: Draft, removal: Removal) -> bool:
    """Whether it still holds: the member may have been heard of, or have given its partitions up."""
    if Timer(removal.timer) in _OF_CLASSIC and side.expected.get(removal.member_id) != removal.timer:
        return False
    member = draft.group.members.get(removal.member_id)
    if member is None:
        return False
    if removal.epoch is None:
        return (Timer(removal.timer), group, removal.member_id) not in context.deadlines
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch == removal.epoch


def _result(context: Context, answer: MemberAnswer) -> ConsumerHeartbeatResult:
    interval_ms = context.settings.consumer_heartbeat_ms if answer.epoch >= JOINS else 0
    return ConsumerHeartbeatResult(
        member_id=answer.member_id, epoch=answer.epoch, interval_ms=interval_ms, assigned=answer.assigned
    )


def _tell(context: Context, group: Group, decided: _Decided) -> None:
    """What was decided holds: answer, and the member has a whole session again."""
    if not isinstance(decided.waiting, Asked) or decided.result is None:
        return
    result = decided.result
    decided.waiting.answer(result)
    member = None if group.consumer is None else group.consumer.group.members.get(result.member_id)
    if member is not None and result.error is ErrorCode.NONE and result.epoch >= JOINS:
        start_session(context, group, member)


# ----------------------------------------------------------------------------------------------------------- appending


def _append(context: Context, group: Group, side: ConsumerSide, draft: Draft, decided: list[_Decided]) -> None:
    was_classic = group.protocol_type is not None
    classic: Group | None = None
    if downgrades(context, side.group, draft.group):
        classic, records = downgraded(context, group, side.group, draft.group)
        decided = [_after_downgrade(each) for each in decided]
    else:
        records = [Record(key, value) for key, value in draft.entries]
    if was_classic:
        records.insert(0, Record(GroupKey(group=group.group_id), None))
    append = _Append(context, group, side, draft.group, decided, was_classic, classic)
    side.next = draft.group
    context.append(group.partition, records, append.then)


def _after_downgrade(decided: _Decided) -> _Decided:
    """A member that joined by the classic protocol joins again, with the others."""
    waiting = decided.waiting
    if isinstance(waiting, Asked) and waiting.heartbeat.classic is not None:
        return _Decided(waiting, ConsumerHeartbeatResult(error=JOIN_AGAIN))
    return decided


@define(eq=False)
class _Append:
    """An append of a group, until the log has decided about it."""

    _context: Context
    _group: Group
    _side: ConsumerSide
    _after: ConsumerGroup
    _decided: list[_Decided]
    _was_classic: bool
    _classic: Group | None
    """What the group becomes, if it does not stay one of KIP-848."""
    then: Appending = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.then = Appending(answer=self._answer, apply=self._apply, revert=self._revert)

    def _apply(self, _position: int) -> None:
        """It is committed."""
        side, group = self._side, self._group
        before, side.group = side.group, self._after
        if self._was_classic:
            group.forget_members(self._context.wall)
        side.is_converting = False
        if self._classic is None:
            _follow(self._context, group, before, side.group)
        else:
            _follow(self._context, group, before, ConsumerGroup(group.group_id))
            become_classic(self._context, group, self._classic)
        self._end()

    def _revert(self, _: None) -> None:
        """The log does not have it."""
        self._side.seen = None
        if self._side.is_converting and not self._group.is_dead:
            self._side.is_converting = False
            self._group.consumer = None
            resume(self._context, self._group)
        self._end()

    def _end(self) -> None:
        self._side.next = None
        self._side.is_in_doubt = False
        if self.then.is_answered:
            self._go_on()

    def _go_on(self) -> None:
        if not self._group.is_dead:
            _go_on(self._context, self._group, self._side)

    def _answer(self, error: ErrorCode) -> None:
        side = self._side
        if error is ErrorCode.NONE:
            for each in self._decided:
                _tell(self._context, self._group, each)
        elif is_too_large(error) and len(self._decided) > 1 and not self._group.is_dead:
            side.waiting.extendleft(each.waiting for each in reversed(self._decided))
            side.alone_count = len(self._decided)
        else:
            waiting = [each.waiting for each in self._decided]
            if error in IN_DOUBT and not self._group.is_dead:
                side.is_in_doubt = True
                waiting += side.waiting
                side.waiting.clear()
            _refuse(self._context, self._group, waiting, error_of_heartbeat(error))
        self._go_on()


def _refuse(context: Context, group: Group, waiting: list[Waiting], error: ErrorCode) -> None:
    """Members come again; those that were to be removed are looked at again."""
    for each in waiting:
        if isinstance(each, Asked):
            each.answer(ConsumerHeartbeatResult(error=error))
        elif not group.is_dead and group.consumer is not None:
            context.deadlines.set((Timer(each.timer), group, each.member_id), context.now + AGAIN_MS)


def let_go(context: Context, group: Group, error: ErrorCode) -> None:
    """The group is about to be forgotten here: answer those that wait for more than an append."""
    side = group.consumer
    if side is None:
        return
    for each in side.waiting:
        if isinstance(each, Asked):
            each.answer(ConsumerHeartbeatResult(error=error))
    side.waiting.clear()
    end_timers(context, group)


# -------------------------------------------------------------------------------------------------------------- timers


def start_session(context: Context, group: Group, member: ConsumerMember) -> None:
    """The member was heard of."""
    classic = member.classic
    timeout_ms = context.settings.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
    context.deadlines.set((Timer.CONSUMER_SESSION, group, member.member_id), context.now + timeout_ms)


def _follow(context: Context, group: Group, before: ConsumerGroup, after: ConsumerGroup) -> None:
    """Members that are gone have no deadlines; those that have to give something up have one for it."""
    for member_id in before.members.keys() - after.members.keys():
        if group.consumer is not None:
            group.consumer.expected.pop(member_id, None)
        for timer in (Timer.CONSUMER_SESSION, Timer.REVOCATION, *_OF_CLASSIC):
            context.deadlines.cancel((timer, group, member_id))
    for member_id, member in after.members.items():
        was = before.members.get(member_id)
        if was is member:
            continue
        key = (Timer.REVOCATION, group, member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.epoch < JOINS:
            context.deadlines.cancel(key)
        elif was is None or (was.state, was.epoch) != (member.state, member.epoch):
            context.deadlines.set(key, context.now + max(member.rebalance_timeout_ms, 0))
        if was is None:
            start_session(context, group, member)


def start_timers(context: Context, group: Group, side: ConsumerSide) -> None:
    """The group was read from the log: every member has a whole session."""
    _follow(context, group, ConsumerGroup(group.group_id), side.group)


def end_timers(context: Context, group: Group) -> None:
    """There is no such group any longer."""
    if group.consumer is not None:
        _follow(context, group, group.consumer.group, ConsumerGroup(group.group_id))


def on_consumer_session_due(context: Context, group: Group, member_id: str) -> None:
    """The member was silent for too long."""
    remove_later(context, group, Removal(member_id, Timer.CONSUMER_SESSION.value))


def on_revocation_due(context: Context, group: Group, member_id: str) -> None:
    """The member has not said in time that it gave up what it was told to."""
    side = group.consumer
    member = None if side is None else side.group.members.get(member_id)
    if member is not None:
        remove_later(context, group, Removal(member_id, Timer.REVOCATION.value, member.epoch))


def remove_later(context: Context, group: Group, removal: Removal) -> None:
    """Take the member out, unless it is heard of until that is decided."""
    side = group.consumer
    if side is None:
        return
    if side.is_in_doubt or context.partitions[group.partition].is_full:
        _refuse(context, group, [removal], ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    side.waiting.append(removal)
    _go_on(context, group, side)
