"""What becomes of a group by a ConsumerGroupHeartbeat: the one request by which a member joins, stays and leaves.

1. The member is new, is what it was, or takes the place of a static one that has left for a while.
2. What it says about itself is a record, if it is news. If it subscribes to something else, or a topic has changed,
   the group's epoch rises.
3. If the group's epoch is above the target's, an assignor computes a new target.
4. The member goes a step towards the target (`reconcile`).

The others learn of the target with their own heartbeats. A member is refused by its epoch: `FENCED_MEMBER_EPOCH` if it
is neither the present one nor the one before, whose answer may have been lost. The epoch of a member that joins, 0, is
taken at any time, as Kafka does since 4.2: it owns nothing, which is said by the request.

Everything that can be refused is, before a record is decided about. Kafka's `GroupMetadataManager`, 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, Protocol

import attrs
from attrs import define, frozen

from zab.kafka.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupKey,
    ConsumerGroupValue,
    MemberAssignmentKey,
    MemberKey,
    MemberTargetKey,
    MemberTargetValue,
    RegexKey,
    RegexValue,
    TargetKey,
    TargetValue,
)
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import ASSIGNORS, MemberSpec, Partitions
from zab.partition.consumer_groups.reconcile import reconciled
from zab.partition.consumer_groups.regexes import InvalidRegexError, TopicRegex
from zab.partition.consumer_groups.state import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Draft,
    to_wire,
)

NO_TIMEOUT: Final = -1
REGEXES_MAX: Final = 32
"""So many expressions the members of a group may subscribe to: all of them are looked at when there is a new topic."""


class Topic(Protocol):
    """What is asked about a topic."""

    @property
    def id(self) -> Uuid: ...
    @property
    def partitions(self) -> Mapping[int, object]: ...


@frozen(kw_only=True)
class MemberHeartbeat:
    """What a member says. None, and -1 as the timeout: as before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    classic: ClassicMemberMetadata | None = None
    """Set: it speaks the classic protocol, and this is a JoinGroup, which says everything."""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as a member that has lost an answer does: it is told everything, too."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != NO_TIMEOUT and subscribes and self.owned is not None


@frozen(kw_only=True)
class MemberAnswer:
    """What the member is told; `assigned` None: as before."""

    member_id: str
    epoch: int
    assigned: Partitions | None = None


class HeartbeatError(Exception):
    """The heartbeat is refused, and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@define(kw_only=True)
class Rules:
    """What holds for all groups of a broker."""

    members_max: int
    default_assignor: str
    topics: Callable[[], Mapping[str, Topic]]
    """All topics of the cluster, by name; another mapping when one of them has changed."""
    regex_of: Callable[[str], TopicRegex]
    """Raises InvalidRegexError."""
    wall: Callable[[], int]
    """ms since 1970."""


def heartbeat(rules: Rules, draft: Draft, asked: MemberHeartbeat, *, has_news: bool) -> MemberAnswer:
    """Decide; `draft` gets the records. `has_news`: topics may have changed since the group was looked at last. Raises
    HeartbeatError: nothing was decided."""
    group = draft.group
    takes_place = asked.member_id in group.members or asked.instance_id in group.static
    if len(group.members) >= rules.members_max and not takes_place:
        raise HeartbeatError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members already")
    member, replaced = _member(group, asked)
    updated = _updated(member, asked)
    regex = _regex(rules, group, member, updated)
    if replaced is not None:
        _replace(draft, replaced, member)
    changes = draft.group.epoch == 0
    if updated != member or asked.member_id not in draft.group.members:
        draft.write(MemberKey(group_id=group.group_id, member_id=updated.member_id), updated.value())
        changes = changes or updated.topic_names != member.topic_names
    changes = _resolve(rules, draft, member, updated, regex, has_news=has_news) or changes
    if changes or has_news:
        _raise_epoch(rules, draft, always=changes)
    if draft.group.epoch > draft.group.target_epoch:
        _aim(rules, draft)
    now = draft.group
    settled = reconciled(
        now.members[updated.member_id],
        now.target_epoch,
        now.target_of(updated.member_id),
        asked.owned,
        now.is_free,
        was_told=asked.epoch != JOINS,
    )
    if settled != now.members[updated.member_id]:
        key = MemberAssignmentKey(group_id=group.group_id, member_id=settled.member_id)
        draft.write(key, settled.assignment_value())
    tells = asked.epoch == JOINS or asked.is_full or settled.assigned != member.assigned
    return MemberAnswer(member_id=settled.member_id, epoch=settled.epoch, assigned=settled.assigned if tells else None)


def leave(rules: Rules, draft: Draft, asked: MemberHeartbeat) -> MemberAnswer:
    """A member leaves; a static one may leave for a while. Raises HeartbeatError."""
    group = draft.group
    if asked.instance_id is None:
        member = _known(group, asked.member_id)
    else:
        member = _static(group, asked)
    if asked.epoch == LEAVES_FOR_A_WHILE:
        gone = attrs.evolve(member, epoch=LEAVES_FOR_A_WHILE, revoking={})
        key = MemberAssignmentKey(group_id=group.group_id, member_id=member.member_id)
        draft.write(key, gone.assignment_value())
    else:
        remove(rules, draft, member.member_id)
    return MemberAnswer(member_id=member.member_id, epoch=asked.epoch)


def remove(rules: Rules, draft: Draft, member_id: str) -> None:
    """A member is out of the group: it left, or was silent or slow for too long."""
    regex = draft.group.members[member_id].regex
    _forget(draft, member_id)
    if regex is not None and not draft.group.subscribers_of(regex):
        draft.write(RegexKey(group_id=draft.group.group_id, regular_expression=regex), None)
    _raise_epoch(rules, draft, always=True)


# ---------------------------------------------------------------------------------------------------------- the member


def _known(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {group.group_id}")
    return member


def _static(group: ConsumerGroup, asked: MemberHeartbeat) -> ConsumerMember:
    """The member with this instance id, which has to be the one that asks."""
    member = group.static_member(asked.instance_id or "")
    if member is None:
        raise HeartbeatError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {asked.instance_id} is not known")
    if member.member_id != asked.member_id:
        text = f"instance {asked.instance_id} has member {member.member_id} now"
        raise HeartbeatError(ErrorCode.FENCED_INSTANCE_ID, text)
    return member


def _member(group: ConsumerGroup, asked: MemberHeartbeat) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The member before this heartbeat; and, if it takes a place, whose."""
    if asked.epoch != JOINS:
        member = _known(group, asked.member_id) if asked.instance_id is None else _static(group, asked)
        _check_epoch(member, asked)
        return member, None
    if asked.instance_id is None:
        return group.members.get(asked.member_id) or ConsumerMember(asked.member_id), None
    before = group.static_member(asked.instance_id)
    if before is None or before.member_id == asked.member_id:
        return group.members.get(asked.member_id) or ConsumerMember(asked.member_id), None
    if before.epoch != LEAVES_FOR_A_WHILE and before.classic is None and asked.classic is None:
        text = f"instance {asked.instance_id} is that of member {before.member_id}, which has not left"
        raise HeartbeatError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    return attrs.evolve(before, member_id=asked.member_id, epoch=JOINS, previous_epoch=JOINS), before


def _check_epoch(member: ConsumerMember, asked: MemberHeartbeat) -> None:
    if asked.epoch == member.epoch:
        return
    is_lost_answer = asked.epoch == member.previous_epoch and _is_within(asked.owned, member.assigned)
    if asked.epoch > member.epoch or not is_lost_answer:
        text = f"member {member.member_id} is in epoch {member.epoch}, not {asked.epoch}: it has to join again"
        raise HeartbeatError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _is_within(owned: Partitions | None, assigned: Partitions) -> bool:
    return owned is not None and all(each <= assigned.get(topic, frozenset()) for topic, each in owned.items())


def _updated(member: ConsumerMember, asked: MemberHeartbeat) -> ConsumerMember:
    """With what is news."""

    def newer(value: str | None, before: str | None) -> str | None:
        return before if value is None else value

    has_timeout = asked.rebalance_timeout_ms != NO_TIMEOUT
    return attrs.evolve(
        member,
        instance_id=newer(asked.instance_id, member.instance_id),
        rack_id=newer(asked.rack_id, member.rack_id),
        client_id=asked.client_id,
        client_host=asked.client_host,
        rebalance_timeout_ms=asked.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        topic_names=member.topic_names if asked.topic_names is None else frozenset(asked.topic_names),
        topic_regex=newer(asked.topic_regex, member.topic_regex) if asked.classic is None else None,
        assignor=newer(asked.assignor, member.assignor) if asked.classic is None else None,
        classic=asked.classic,
    )


def _replace(draft: Draft, before: ConsumerMember, member: ConsumerMember) -> None:
    """The member has the place of a static one, what that owned and what it was to own."""
    group_id = draft.group.group_id
    target = draft.group.target_of(before.member_id)
    _forget(draft, before.member_id)
    draft.write(MemberKey(group_id=group_id, member_id=member.member_id), member.value())
    target_value = MemberTargetValue(topic_partitions=to_wire(target))
    draft.write(MemberTargetKey(group_id=group_id, member_id=member.member_id), target_value)
    draft.write(MemberAssignmentKey(group_id=group_id, member_id=member.member_id), member.assignment_value())


def _forget(draft: Draft, member_id: str) -> None:
    for key in (MemberAssignmentKey, MemberTargetKey, MemberKey):
        draft.write(key(group_id=draft.group.group_id, member_id=member_id), None)


# ------------------------------------------------------------------------------------------------ what is subscribed to


def _regex(rules: Rules, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> TopicRegex | None:
    """The expression that is new to the group; None: there is none."""
    regex = updated.regex
    if regex is None or regex == member.regex or regex in group.regexes:
        return None
    if len(group.regexes) >= REGEXES_MAX:
        text = f"members of the group subscribe to {len(group.regexes)} expressions already"
        raise HeartbeatError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
    try:
        return rules.regex_of(regex)
    except InvalidRegexError as error:
        raise HeartbeatError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error


def _resolve(
    rules: Rules,
    draft: Draft,
    member: ConsumerMember,
    updated: ConsumerMember,
    regex: TopicRegex | None,
    *,
    has_news: bool,
) -> bool:
    """Find the topics of expressions that are new, or of all of them where there are other topics. Returns whether the
    member subscribes to another expression."""
    group_id, before, after = draft.group.group_id, member.regex, updated.regex
    if before is not None and before != after and not draft.group.subscribers_of(before):
        draft.write(RegexKey(group_id=group_id, regular_expression=before), None)
    if regex is not None and after is not None:
        draft.write(RegexKey(group_id=group_id, regular_expression=after), _matches(rules, regex))
    if has_news:
        for each, known in list(draft.group.regexes.items()):
            found = _matches_now(rules, each, known)
            if found.topics != known.topics:
                draft.write(RegexKey(group_id=group_id, regular_expression=each), found)
    return before != after


def _matches_now(rules: Rules, regex: str, known: RegexValue) -> RegexValue:
    """What the expression matches now; as before if this broker cannot evaluate it."""
    try:
        return _matches(rules, rules.regex_of(regex))
    except InvalidRegexError:
        return known


def _matches(rules: Rules, regex: TopicRegex) -> RegexValue:
    found = regex.of(frozenset(rules.topics()))
    return RegexValue(topics=tuple(sorted(found)), version=0, timestamp=rules.wall())


# ----------------------------------------------------------------------------------------------------- epoch and target


def _raise_epoch(rules: Rules, draft: Draft, *, always: bool) -> None:
    """The group has changed, if the topics have, or `always`."""
    group = draft.group
    metadata_hash = _hash(rules, group.subscribed())
    if always or metadata_hash != group.metadata_hash:
        value = ConsumerGroupValue(epoch=group.epoch + 1, metadata_hash=metadata_hash)
        draft.write(ConsumerGroupKey(group_id=group.group_id), value)


def _hash(rules: Rules, names: frozenset[str]) -> int:
    """A hash of what matters to assignors about the topics that exist; never 0, which stands for unknown."""
    topics = rules.topics()
    digest = blake2b(digest_size=8)
    for name in sorted(names & topics.keys()):
        topic = topics[name]
        digest.update(topic.id + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) or 1


def _aim(rules: Rules, draft: Draft) -> None:
    """Compute the target for the group's epoch."""
    group, topics = draft.group, rules.topics()
    ids: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in sorted(group.members.items()):
        kind = member.topic_names, member.regex
        if kind not in ids:
            ids[kind] = frozenset(topics[name].id for name in group.names_of(member) if name in topics)
        specs[member_id] = MemberSpec(member.instance_id, ids[kind], group.target_of(member_id))
    used = sorted(group.subscribed() & topics.keys(), key=lambda name: topics[name].id)
    counts = {topics[name].id: len(topics[name].partitions) for name in used}
    target = ASSIGNORS[preferred_assignor(rules, group)](specs, counts, _is_even(group))
    for member_id, own in target.items():
        if own != group.target_of(member_id) or member_id not in group.targets:
            value = MemberTargetValue(topic_partitions=to_wire(own))
            draft.write(MemberTargetKey(group_id=group.group_id, member_id=member_id), value)
    draft.write(TargetKey(group_id=group.group_id), TargetValue(assignment_epoch=draft.group.epoch))


def preferred_assignor(rules: Rules, group: ConsumerGroup) -> str:
    """The one that most members want, of those that want one."""
    wanted = Counter(each.assignor for _, each in sorted(group.members.items()) if each.assignor is not None)
    return max(wanted, key=lambda name: (wanted[name], name), default=rules.default_assignor)


def _is_even(group: ConsumerGroup) -> bool:
    """Whether all members subscribe to the same: names alone, or one expression alone."""
    kinds = {(each.topic_names, each.regex) for each in group.members.values()}
    names, regex = next(iter(kinds))
    return len(kinds) == 1 and not (names and regex)
