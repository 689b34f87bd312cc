"""One group: its state, its members, and what they have in common.

    state                leaves by
    Empty                a join -> PreparingRebalance; its last offset expires, or it is deleted -> Dead
    PreparingRebalance   all members joined, or their time is up -> CompletingRebalance; nobody is left -> Empty
    CompletingRebalance  the leader's assignment is stored -> Stable; a member joins with other metadata, leaves or
                         fails -> PreparingRebalance
    Stable               a new member; one leaves, fails, or joins with other metadata; the leader joins again
                         -> PreparingRebalance
    Dead                 never: the coordinator has forgotten it

Every state goes to Dead when the coordinator loses the group's partition of `__consumer_offsets`.

Invariants (`check`):
- `joining_count` members have a join that waits; `supporters[p]` members support protocol p.
- Each static member's instance id maps to it, and to no other.
- There is a leader if, and only if, there are members; it is one of them.
- A group in CompletingRebalance or Stable has members and a protocol that all of them support.
- An Empty group has no members.

Deliberately not here: which request is answered how, and when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from attrs import Factory, define

from zab.kafka.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from zab.kafka.coordinator_records import GroupValue
from zab.kafka.primitives import ProtocolError
from zab.partition.groups.consumer_side import ConsumerSide
from zab.partition.groups.member import Member
from zab.partition.groups.offsets import Offsets
from zab.partition.groups.requests import NO_TIME, Protocol
from zab.partition.groups.results import JoinedMember

GENERATION_MAX: Final = 2**31 - 1


class GroupState(Enum):
    """The states, by the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


BEFORE: Final = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState) - {GroupState.DEAD},
}
"""The states from which each state is reached."""


@define
class InitialDelay:
    """A group that was empty waits for more members, so that not each of them makes a generation of its own."""

    left_ms: int
    """By how much the wait can still grow."""
    is_joined: bool = False
    """Whether a member was added since the wait last grew."""


@define(eq=False)
class Group:
    """A group of a partition that this broker leads."""

    group_id: str
    partition: int
    state: GroupState = GroupState.EMPTY
    state_timestamp: int = NO_TIME
    """Since when it is in its state, in ms since 1970."""
    generation: int = 0
    protocol_type: str | None = None
    """None: a simple group, which only keeps offsets."""
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = Factory(dict)
    """By member id, in the order in which they came."""
    static: dict[str, str] = Factory(dict)
    """Instance id -> member id."""
    pending: dict[str, None] = Factory(dict)
    """Member ids that were given out (79) and did not join yet."""
    pending_sync: dict[str, None] = Factory(dict)
    """Members that did not sync in this generation yet."""
    is_storing: bool = False
    """Whether the leader's assignment of this generation is on its way into the log."""
    initial_delay: InitialDelay | None = None
    joining_count: int = 0
    supporters: Counter[str] = Factory(Counter)
    subscribed: frozenset[str] | None = None
    """The topics that members consume; None: not known."""
    offsets: Offsets = Factory(Offsets)
    consumer: ConsumerSide | None = None
    """Set: the group is one of KIP-848. Then it is Empty here, and has neither members nor a type of protocol, unless
    it is being converted."""

    # -------------------------------------------------------------------------------------------------------- states

    def become(self, state: GroupState, timestamp: int) -> None:
        """The only place that changes the state."""
        assert self.state in BEFORE[state], f"{self.group_id}: from {self.state} to {state}"
        self.state = state
        self.state_timestamp = timestamp
        if state is not GroupState.PREPARING_REBALANCE:
            self.initial_delay = None

    @property
    def is_dead(self) -> bool:
        """Whether the coordinator has forgotten it: what is still under way for it has no effect."""
        return self.state is GroupState.DEAD

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can start: none is gathering members."""
        return self.state in BEFORE[GroupState.PREPARING_REBALANCE]

    @property
    def is_void(self) -> bool:
        """Whether nothing would be lost with it: no members, none to come, no offsets."""
        is_classic = self.consumer is None
        return is_classic and self.state is GroupState.EMPTY and not self.pending and not self.offsets

    @property
    def has_no_members(self) -> bool:
        """Whether nobody is in it, of whichever protocol."""
        return self.state is GroupState.EMPTY and (self.consumer is None or self.consumer.is_empty)

    # ------------------------------------------------------------------------------------------------------- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one leads, and brings the type of protocol."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static
            self.static[member.group_instance_id] = member.member_id
        self.supporters.update({each.name for each in member.protocols})
        self.joining_count += member.join_token is not None
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member, whose requests are answered already; if it led, the oldest member leads."""
        member = self.members.pop(member_id)
        assert not member.waits, "answer it first"
        if member.group_instance_id is not None and self.static.get(member.group_instance_id) == member_id:
            del self.static[member.group_instance_id]
        self.supporters.subtract({each.name for each in member.protocols})
        self.pending_sync.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Another process has a static member's place: its old id means nothing from now on."""
        old = member.member_id
        assert member.group_instance_id is not None
        assert not member.waits, "answer it first"
        # It keeps its place in the order of members.
        self.members = {member_id if each is member else each.member_id: each for each in list(self.members.values())}
        member.member_id = member_id
        self.static[member.group_instance_id] = member_id
        if self.leader == old:
            self.leader = member_id
        if old in self.pending_sync:
            del self.pending_sync[old]
            self.pending_sync[member_id] = None

    def update(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """The member supports other protocols, or the same with other metadata."""
        self.supporters.subtract({each.name for each in member.protocols})
        member.protocols = protocols
        self.supporters.update({each.name for each in protocols})

    @property
    def have_all_joined(self) -> bool:
        """Whether nobody is left to wait for: every member has a join that waits, and no given id is unused."""
        return self.joining_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members'."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def forget_members(self, timestamp: int) -> None:
        """They are those of a group of KIP-848 from now on; their requests are answered already."""
        assert not any(each.waits for each in self.members.values())
        self.members, self.static, self.pending, self.pending_sync = {}, {}, {}, {}
        self.supporters.clear()
        self.leader = self.protocol_type = self.protocol_name = self.subscribed = None
        self.generation = 0
        self.is_storing = False
        if self.state is not GroupState.EMPTY:
            if self.can_rebalance:
                self.become(GroupState.PREPARING_REBALANCE, timestamp)
            self.become(GroupState.EMPTY, timestamp)

    def take_members(self, members: Iterable[Member], generation: int, timestamp: int) -> None:
        """A group without members is a Stable one of these consumers."""
        for each in members:
            self.add(each, PROTOCOL_TYPE)
        self.generation = generation
        self.protocol_name = self.chosen_protocol()
        self.subscribe()
        for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            self.become(state, timestamp)

    # ----------------------------------------------------------------------------------------------------- protocols

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether a member with these protocols fits: the type is equal, and all members share one of them."""
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self.supporters[name] == count for name in names)

    def chosen_protocol(self) -> str:
        """What most members prefer among what all support; at a tie, what the oldest member prefers."""
        members = list(self.members.values())
        candidates = {name for name, count in self.supporters.items() if count == len(members)}
        votes = Counter(member.first_of(candidates) for member in members)
        ranked = [each.name for each in members[0].protocols if each.name in candidates]
        return max(ranked, key=lambda name: votes[name])

    def subscribe(self) -> None:
        """Find out which topics the members consume; only the consumers' own type says it."""
        if not self.members:
            self.subscribed = frozenset()
        elif self.protocol_type != PROTOCOL_TYPE:
            self.subscribed = None
        else:
            try:
                read = [decode_subscription(each.metadata(self.protocol_name)) for each in self.members.values()]
            except ProtocolError:
                self.subscribed = None
            else:
                self.subscribed = frozenset(topic for each in read for topic in each.topics)

    def next_generation(self, timestamp: int) -> None:
        """All that could come are there: begin a generation of them, or be Empty."""
        self.generation = 0 if self.generation == GENERATION_MAX else self.generation + 1
        self.is_storing = False
        self.pending_sync = dict.fromkeys(self.members)
        self.protocol_name = self.chosen_protocol() if self.members else None
        self.subscribe()
        self.become(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, timestamp)

    # --------------------------------------------------------------------------------------------------------- views

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told."""
        return tuple(
            JoinedMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(self.protocol_name),
            )
            for each in self.members.values()
        )

    def value(self, assignments: dict[str, bytes]) -> GroupValue:
        """Its record, with these assignments."""
        assert self.protocol_type is not None, "a simple group is not stored"
        members = [each.value(self.protocol_name, assignments[each.member_id]) for each in self.members.values()]
        return GroupValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp,
            members=tuple(members),
        )

    def assignments(self) -> dict[str, bytes]:
        """By member id."""
        return {member_id: member.assignment for member_id, member in self.members.items()}

    def check(self) -> None:
        """Assert the invariants above."""
        members = self.members
        assert self.joining_count == sum(each.join_token is not None for each in members.values())
        counted = Counter(name for each in members.values() for name in {one.name for one in each.protocols})
        assert counted == Counter({name: count for name, count in self.supporters.items() if count})
        assert self.static == {
            each.group_instance_id: member_id
            for member_id, each in members.items()
            if each.group_instance_id is not None
        }
        assert (self.leader in members) if members else (self.leader is None)
        assert not self.pending.keys() & members.keys()
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members
            assert self.supporters[self.protocol_name or ""] == len(members)
        if self.state is GroupState.EMPTY:
            assert not members
        if self.consumer is not None:
            assert self.state is GroupState.EMPTY or self.is_dead or self.consumer.is_converting
            self.consumer.group.check()
