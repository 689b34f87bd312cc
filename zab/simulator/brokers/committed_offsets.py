"""What members of groups were told, and whether it is right.

    one owner                   no partition is assigned to two members in one generation
    one leader                  a generation has one member that assigns; see below
    static members are fenced   once a process has the assignment of an instance id, an earlier one commits no more
    old generations             a commit of a generation is refused once a later generation has assignments
    committed offsets           an offset that is fetched was committed; no commit is forgotten that was acknowledged
                                before, for one that was over before it began; a refused one is never seen
    everything is consumed      a group that goes on reads every record that was promised, at least once

The commits of one partition are a register: each has an interval of time, from its request to its answer, and what is
fetched must be the last one of some order of those intervals. A commit without an answer may count at any time after
its request. One in a transaction counts from the answer to its end.

Assignments are stored before they are told, so that a generation with an assignment is never had twice. A generation
that was only joined may come again after a fail-over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from zab.kafka.errors import ErrorCode
from zab.simulator.brokers.judge import Judge, Key
from zab.simulator.brokers.ownership import Ownership
from zab.simulator.world.verdict import SafetyError

NEVER = 1 << 62
REFUSALS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""After these nothing is committed. Other errors may stand for an append whose outcome is not known."""

Place = tuple[str, str, int]
"""A group, a topic and a partition."""


@attrs.frozen
class Instance:
    """A process that is a static member, by its ids."""

    instance_id: str
    member_id: str


@attrs.frozen
class Taking:
    """A process takes the place of an instance id: from its request to join until it has its assignment."""

    member_id: str
    begun_at: int
    ended_at: int


@attrs.define(eq=False)
class Commit:
    """One offset that a member wants to commit. `number` travels as its metadata."""

    number: int
    offset: int
    generation: int
    begun_at: int
    ended_at: int = NEVER
    """When it was acknowledged."""
    is_refused: bool = False
    instance: Instance | None = None


@attrs.define(eq=False)
class Group:
    """What is known of one group."""

    assigned: dict[int, dict[tuple[str, int], str]] = attrs.Factory(dict)
    """By generation: the owner of each partition."""
    assigned_at: dict[int, int] = attrs.Factory(dict)
    """When a generation was first seen to have an assignment."""
    processed: dict[tuple[str, int], set[int]] = attrs.Factory(dict)
    """The offsets of the records that its members were given."""
    takings: dict[str, list[Taking]] = attrs.Factory(dict)
    """The processes that have had each instance id."""


@attrs.define(eq=False)
class GroupJudge:
    """See the docstring of the module."""

    judge: Judge
    groups: dict[str, Group] = attrs.Factory(dict)
    commits: dict[Place, dict[int, Commit]] = attrs.Factory(dict)
    newest: dict[Place, int] = attrs.Factory(dict)
    """The highest time at which an acknowledged commit began."""
    count: int = 0
    ownership: Ownership = attrs.Factory(lambda self: Ownership(self.judge.counts), takes_self=True)
    """What members of KIP-848's protocol own."""

    def of(self, group: str) -> Group:
        """What is known of a group."""
        return self.groups.setdefault(group, Group())

    def assigned(
        self, now: int, group: str, generation: int, owner: str, partitions: Iterable[tuple[str, int]]
    ) -> None:
        """A member was told what it has in this generation."""
        known = self.of(group)
        known.assigned_at.setdefault(generation, now)
        taken = known.assigned.setdefault(generation, {})
        for each in partitions:
            before = taken.setdefault(each, owner)
            if before != owner:
                text = f"{each} of generation {generation} of {group} is assigned to {before} and to {owner}"
                raise SafetyError("one owner", text)
        self.judge.counts["assignments of groups"] += 1

    def took(self, now: int, group: str, instance: Instance, begun_at: int) -> None:
        """A static member, which asked to join at that time, has its assignment."""
        taking = Taking(instance.member_id, begun_at, now)
        self.of(group).takings.setdefault(instance.instance_id, []).append(taking)

    def processed(self, group: str, topic: str, index: int, offsets: Iterable[int]) -> None:
        """A member was given these records."""
        self.of(group).processed.setdefault((topic, index), set()).update(offsets)

    # --------------------------------------------------------------------------------------------------------- commits

    def commits_now(
        self, now: int, place: Place, offset: int, generation: int, instance: Instance | None = None
    ) -> Commit:
        """A member begins to commit this offset."""
        self.count += 1
        commit = Commit(self.count, offset, generation, now, instance=instance)
        self.commits.setdefault(place, {})[commit.number] = commit
        return commit

    def answered(self, now: int, place: Place, commit: Commit, error: ErrorCode) -> None:
        """A commit was answered. One in a transaction: its end was answered, or it was refused."""
        if error in REFUSALS:
            commit.is_refused = True
            self.judge.counts["commits refused"] += 1
        elif error is ErrorCode.NONE:
            self.check_generation(place[0], commit)
            self.acknowledged(now, place, commit)

    def check_generation(self, group: str, commit: Commit) -> None:
        """The coordinator has taken a commit of a member."""
        known = self.of(group)
        later = [each for each, since in known.assigned_at.items() if since < commit.begun_at]
        if 0 <= commit.generation < max(later, default=-1):
            text = f"{group} takes an offset of generation {commit.generation}, after {max(later)} was assigned"
            raise SafetyError("old generations", text)
        if commit.instance is not None:
            self._check_instance(known, commit.instance, commit)

    def _check_instance(self, known: Group, instance: Instance, commit: Commit) -> None:
        takings = known.takings.get(instance.instance_id, [])
        own_at = max((each.ended_at for each in takings if each.member_id == instance.member_id), default=0)
        for each in takings:
            is_later = each.begun_at > own_at and each.ended_at < commit.begun_at
            if each.member_id != instance.member_id and is_later:
                text = f"{instance} commits {commit.offset}, after {each.member_id} has taken its place"
                raise SafetyError("static members are fenced", text)

    def acknowledged(self, now: int, place: Place, commit: Commit) -> None:
        """The commit counts."""
        commit.ended_at = min(commit.ended_at, now)
        self.newest[place] = max(self.newest.get(place, 0), commit.begun_at)
        self.judge.counts["commits acknowledged"] += 1

    def expectation(self, place: Place) -> int:
        """To be taken before a fetch is sent: commits that were over before this time must not be seen."""
        return self.newest.get(place, 0)

    def fetched(self, place: Place, expectation: int, offset: int, metadata: str | None) -> None:
        """A member was told what is committed; -1: nothing is."""
        if offset < 0:
            if expectation:
                raise SafetyError("committed offsets", f"nothing is committed for {place} any more")
            return
        commit = self.commits.get(place, {}).get(int(metadata or 0))
        if commit is None or commit.offset != offset:
            raise SafetyError("committed offsets", f"nobody has committed {offset} ({metadata}) for {place}")
        if commit.is_refused:
            raise SafetyError("committed offsets", f"commit {commit.number} for {place} was refused, and is seen")
        if commit.ended_at < expectation:
            text = f"{offset} of commit {commit.number} is seen for {place}, although later ones are acknowledged"
            raise SafetyError("committed offsets", text)
        self.judge.counts["committed offsets fetched"] += 1

    # ------------------------------------------------------------------------------------------------------ at the end

    def lag(self, group: str, keys: Mapping[Key, tuple[str, int]]) -> int:
        """How many promised records of these partitions the group has not consumed and committed."""
        found, known = 0, self.of(group)
        for key, (topic, index) in keys.items():
            promised = self.judge.of(key).promised
            processed = known.processed.get((topic, index), set())
            found += sum(offset not in processed for offset in promised)
            commits = self.commits.get((group, topic, index), {}).values()
            done = max((each.offset for each in commits if each.ended_at < NEVER), default=0)
            found += max(promised, default=-1) >= done
        return found
