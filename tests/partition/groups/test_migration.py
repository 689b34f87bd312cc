"""Members of the classic protocol and of KIP-848's in one group, which changes its protocol while they are in it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis.strategies import integers

from tests.partition.groups.bench import GROUP, NONE, a_join, a_leave, a_sync
from tests.partition.groups.consumers import Consumer, ConsumerBench, T, settle
from zab.kafka.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zab.kafka.errors import ErrorCode
from zab.partition.groups import classic_members
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import DescribeConsumerGroups, Protocol
from zab.partition.groups.results import DescribeConsumersResult, JoinedMember, JoinResult, LeaveResult
from zab.partition.settings.broker_settings import GroupSettings

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SESSION_MS = 10_000


@define
class Classic:
    """A member of the classic protocol, as a client is: `owned` has pairs of a topic and a partition."""

    bench: ConsumerBench
    member_id: str = ""
    instance_id: str | None = None
    is_eager: bool = False
    generation: int = -1
    owned: set[tuple[str, int]] = field(factory=set)
    topics: tuple[str, ...] = ("t",)
    told: JoinResult | None = None

    def protocols(self) -> tuple[Protocol, ...]:
        if self.is_eager:
            self.owned = set()
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(self.owned):
            by_topic.setdefault(topic, []).append(index)
        owned = tuple(TopicPartitions(topic=topic, partitions=tuple(each)) for topic, each in by_topic.items())
        metadata = encode_subscription(
            Subscription(topics=self.topics, owned_partitions=owned, generation_id=self.generation)
        )
        return (Protocol("range" if self.is_eager else "cooperative-sticky", metadata),)

    def asks(self, **changes: Any) -> int:
        """Send a JoinGroup."""
        said = {"protocols": self.protocols(), "group_instance_id": self.instance_id, **changes}
        return self.bench.ask(a_join(self.member_id, **said))

    def join(self, **changes: Any) -> ErrorCode:
        """Send it, as often as it takes for an id, until it is answered."""
        token = self.asks(**changes)
        if self.bench.is_open(token):
            self.bench.wait(5000)
        if self.bench.is_open(token):
            return AGAIN
        result = self.bench.joined(token)
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            return self.join(**changes)
        if result.error is NONE:
            self.member_id, self.generation, self.told = result.member_id, result.generation, result
        return result.error

    def sync(self) -> ErrorCode:
        assignments = () if self.told is None else tuple(assigned(self.told.members))
        said = {"group_instance_id": self.instance_id, "assignments": assignments}
        token = self.bench.ask(a_sync(self.member_id, self.generation, **said))
        if self.bench.is_open(token):
            return AGAIN
        result = self.bench.synced(token)
        if result.error is NONE and result.assignment:
            given = decode_assignment(result.assignment).assigned_partitions
            self.owned = {(each.topic, index) for each in given for index in each.partitions}
        elif result.error is NONE:
            self.owned = set()
        return result.error

    def beat(self) -> ErrorCode:
        return self.bench.beat(self.member_id, self.generation, self.instance_id)

    def step(self) -> Classic:
        """What a client does next: it says that it is alive, and joins again if it is told to."""
        error = self.beat()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.generation, self.owned = "", -1, set()
        if error is not NONE and self.join() is NONE:
            self.sync()
        return self

    @property
    def indexes(self) -> list[int]:
        return sorted(index for _, index in self.owned)


def assigned(members: tuple[JoinedMember, ...]) -> Iterator[tuple[str, bytes]]:
    """What a leader brings: members keep what they own, and the first one gets what nobody owns."""
    left = {0, 1, 2, 3}
    owned = {}
    for each in members:
        said = decode_subscription(each.metadata).owned_partitions
        owned[each.member_id] = left & {index for one in said for index in one.partitions}
        left -= owned[each.member_id]
    for member_id, own in owned.items():
        partitions = tuple(sorted(own | left))
        left = set()
        given = (TopicPartitions(topic="t", partitions=partitions),) if partitions else ()
        yield member_id, encode_assignment(Assignment(assigned_partitions=given))


def all_step(*members: Classic | Consumer, rounds: int = 8) -> None:
    for _ in range(rounds):
        for each in members:
            if isinstance(each, Classic):
                each.step()
            else:
                each.beat()


def a_bench(**changes: Any) -> ConsumerBench:
    return ConsumerBench(GroupSettings(initial_delay_ms=0, **changes))


def stable(bench: ConsumerBench, *, is_eager: bool = False) -> Classic:
    """A classic group of one, which has everything."""
    one = Classic(bench, is_eager=is_eager)
    assert one.join() is NONE
    assert one.sync() is NONE
    assert one.indexes == [0, 1, 2, 3]
    return one


# ------------------------------------------------------------------------------------------------------------- upgrade


@pytest.mark.parametrize("is_eager", [False, True])
def test_a_classic_group_is_upgraded_when_a_member_of_the_new_protocol_joins(is_eager: bool) -> None:
    bench = a_bench()
    old = stable(bench, is_eager=is_eager)
    assert bench.committed(3, member_id=old.member_id, generation=old.generation) is NONE
    new = bench.member("new")
    assert new.epoch == old.generation + 1
    assert new.indexes == [], "another one has them"
    assert bench.group_state == "Reconciling"
    assert old.beat() is AGAIN
    all_step(old, new)
    assert sorted([*old.indexes, *new.indexes]) == [0, 1, 2, 3]
    assert len(old.indexes) == len(new.indexes) == 2
    assert bench.group_state == "Stable"
    assert bench.offset() == 3
    assert bench.reloaded().group_state == "Stable"


def test_what_a_member_has_it_keeps_until_it_says_otherwise() -> None:
    bench = a_bench()
    old = stable(bench)
    new = bench.member("new")
    assert old.join() is NONE
    assert old.sync() is NONE
    kept = old.indexes
    assert len(kept) == 2
    settle(new)
    assert new.indexes == [], "the old one has not said that it gave them up"
    assert old.beat() is AGAIN
    assert old.join() is NONE
    assert old.sync() is NONE
    settle(new)
    assert sorted([*kept, *new.indexes]) == [0, 1, 2, 3]
    assert old.beat() is NONE


def test_classic_members_join_a_group_of_the_new_protocol_and_lead_nobody() -> None:
    bench = a_bench()
    new = bench.member("new")
    old = Classic(bench)
    assert old.join() is NONE
    assert old.told is not None
    assert (old.told.leader, old.told.members, old.told.protocol_name) == ("", (), "cooperative-sticky")
    assert old.sync() is NONE
    all_step(old, new)
    assert sorted([*old.indexes, *new.indexes]) == [0, 1, 2, 3]
    [told] = bench.call(DescribeConsumerGroups(group_ids=(GROUP,)), DescribeConsumersResult).groups
    assert {each.member.classic is None for each in told.members} == {True, False}


def test_a_member_commits_in_its_generation() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.member("new")
    assert bench.committed(4, member_id=old.member_id, generation=old.generation) is NONE
    assert bench.committed(5, member_id=old.member_id, generation=old.generation + 1) is ErrorCode.ILLEGAL_GENERATION


def test_joins_that_wait_are_to_be_sent_again() -> None:
    """Not 27: librdkafka takes that for a permanent error of a JoinGroup."""
    bench = a_bench()
    old = stable(bench)
    other = Classic(bench)
    other.member_id = bench.joined(other.asks()).member_id
    token = other.asks()
    assert bench.is_open(token)
    new = bench.member("new")
    assert (bench.joined(token).error, bench.joined(token).member_id) == (LOADING, other.member_id)
    all_step(old, other, new)
    assert bench.group_state == "Stable"
    assert bench.group().consumer.group.members.keys() == {old.member_id, other.member_id, "new"}


def test_a_sync_that_waits_is_told_to_join_again() -> None:
    bench = a_bench()
    old, other = stable(bench), Classic(bench)
    other.member_id = bench.joined(other.asks()).member_id
    token = other.asks()
    old.asks()
    waiting = bench.ask(a_sync(other.member_id, bench.joined(token).generation))
    assert bench.is_open(waiting)
    bench.member("new")
    assert bench.synced(waiting).error is AGAIN


def test_while_it_is_being_converted_members_are_told_to_come_again() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.holds = True
    token = bench.join("new")
    second = bench.join("second")
    assert old.beat() is AGAIN
    assert old.sync() is AGAIN
    joining = old.asks()
    assert bench.is_open(joining), "it waits for the end of it"
    left = bench.call(a_leave(old.member_id), LeaveResult)
    assert left.members[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.beat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.wait(20_000)
    bench.holds = False
    bench.settle()
    assert bench.result(token).error is bench.result(second).error is NONE
    assert bench.joined(joining).error is NONE
    assert old.member_id in bench.group().consumer.group.members


def test_a_join_that_waited_while_the_log_did_not_convert_it_looks_for_the_coordinator() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.holds = True
    bench.join("new")
    token = old.asks()
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.holds = False
    assert bench.joined(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert old.beat() is NONE


def test_a_commit_while_it_is_being_converted_begins_no_session_that_nobody_has() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.holds = True
    bench.join("new")
    committing = bench.commit(member_id=old.member_id, generation=old.generation)
    bench.holds = False
    bench.settle()
    assert not bench.is_open(committing)
    bench.wait(2 * SESSION_MS)
    assert old.member_id not in bench.group().consumer.group.members, "its own session is over"


def test_an_assignment_that_fails_while_it_is_being_converted_begins_no_rebalance() -> None:
    bench = a_bench()
    old = Classic(bench)
    assert old.join() is NONE
    bench.holds = True
    old.sync()
    bench.join("new")
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS, count=1)
    bench.holds = False
    bench.settle()
    assert bench.group().consumer is not None
    bench.wait(400_000)


def test_joins_that_waited_for_others_are_answered_after_the_log_has_not_converted_it() -> None:
    """The delay in which further members may come has begun, and is over with the conversion."""
    bench = ConsumerBench(GroupSettings(initial_delay_ms=3000))
    old = Classic(bench)
    first = old.asks()
    old.member_id = bench.joined(first).member_id
    waiting = old.asks()
    assert bench.is_open(waiting)
    bench.holds = True
    bench.join("new")
    assert not bench.is_open(waiting)
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.holds = False
    again = old.asks()
    bench.wait(5000)
    assert bench.joined(again).error is NONE


def test_a_group_that_the_log_does_not_convert_goes_on_as_it_was() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.holds = True
    tokens = [bench.join("new"), bench.join("second")]
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert {bench.result(each).error for each in tokens} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    bench.holds = False
    assert bench.group().consumer is None
    assert old.beat() is NONE, "nothing has changed for it"
    assert bench.state is GroupState.STABLE
    bench.wait(SESSION_MS)
    assert bench.state is GroupState.EMPTY, "its session goes on"


def test_a_group_that_was_not_stable_and_is_not_converted_comes_together_again() -> None:
    bench = a_bench()
    old = Classic(bench)
    assert old.join() is NONE
    assert bench.state is GroupState.COMPLETING_REBALANCE
    bench.holds = True
    bench.join("new")
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.holds = False
    assert old.beat() is AGAIN
    assert old.join() is NONE
    assert old.sync() is NONE
    assert bench.state is GroupState.STABLE


def test_the_log_does_not_say_in_time_whether_it_is_converted() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.holds = True
    token = bench.join("new")
    [append] = bench.appends
    bench.settle(ErrorCode.REQUEST_TIMED_OUT)
    assert bench.result(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert old.beat() is AGAIN
    assert old.join() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.appends = [append]
    bench.holds = False
    bench.settle()
    all_step(old)
    assert set(bench.group().consumer.group.members) == {old.member_id, "new"}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_the_policy_a_classic_group_stays_one(policy: str) -> None:
    bench = a_bench(migration_policy=policy)
    old = stable(bench)
    assert bench.result(bench.join("new")).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert old.beat() is NONE


def test_groups_that_cannot_be_upgraded() -> None:
    bench = a_bench(consumer_members_max=0)
    stable(bench)
    assert bench.result(bench.join("new")).error is ErrorCode.GROUP_ID_NOT_FOUND, "it has too many members"
    bench = a_bench()
    token = bench.ask(a_join(requires_member_id=False, protocol_type="connect"))
    bench.wait(5000)
    assert bench.joined(token).error is NONE
    assert bench.result(bench.join("new")).error is ErrorCode.GROUP_ID_NOT_FOUND, "they are no consumers"


def test_a_refused_member_does_not_convert_the_group() -> None:
    bench = a_bench()
    old = stable(bench)
    refused = bench.result(bench.join("new", topic_regex="("))
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.group().consumer is None
    assert old.beat() is NONE


def test_members_with_protocols_that_do_not_fit_are_refused() -> None:
    bench = a_bench()
    bench.member("new")
    old = Classic(bench)
    old.join()
    eager = Classic(bench, is_eager=True)
    assert eager.join() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert eager.join(protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert eager.join(protocols=(Protocol("cooperative-sticky", b"?"),)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert eager.join(protocols=()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_subscribes_to_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_members, "TOPIC_NAMES_MAX", 1)
    bench = a_bench()
    bench.member("new")
    assert Classic(bench, topics=("t", "u")).join() is ErrorCode.INVALID_REQUEST
    assert Classic(bench).join() is NONE


def test_the_group_is_full() -> None:
    bench = a_bench(consumer_members_max=1)
    bench.member("new")
    assert Classic(bench).join() is ErrorCode.GROUP_MAX_SIZE_REACHED


# ----------------------------------------------------------------------------------------------------------- downgrade


@pytest.mark.parametrize("leaves", [True, False])
def test_the_last_member_of_the_new_protocol_goes_and_the_group_is_classic_again(leaves: bool) -> None:
    bench = a_bench(consumer_session_timeout_ms=5000)
    old = stable(bench)
    new = bench.member("new")
    all_step(old, new)
    bench.committed(3, member_id="new", generation=new.epoch, knows_member_epochs=True)
    epoch = bench.group().consumer.group.epoch
    if leaves:
        assert bench.beats("new", -1).error is NONE
    else:
        bench.wait(5500)
    group = bench.group()
    assert group.consumer is None
    assert (group.state, group.generation, list(group.members)) == (
        GroupState.PREPARING_REBALANCE,
        epoch,
        [old.member_id],
    )
    assert old.beat() is AGAIN, "its generation is that of the group"
    assert old.join() is NONE
    assert old.sync() is NONE
    assert old.indexes == [0, 1, 2, 3]
    assert bench.offset() == 3
    other = bench.reloaded()
    assert other.state is GroupState.STABLE
    assert bench.beats("new", new.epoch).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_another_coordinator_reads_a_group_that_was_downgraded() -> None:
    bench = a_bench()
    old = stable(bench)
    all_step(old, bench.member("new"))
    kept = old.indexes
    bench.beats("new", -1)
    other = bench.reloaded()
    assert other.state is GroupState.STABLE
    [member] = other.group().members.values()
    [given] = decode_assignment(member.assignment).assigned_partitions
    assert (given.topic, list(given.partitions)) == ("t", kept)


@pytest.mark.parametrize("policy", ["upgrade"])
def test_without_the_policy_the_group_keeps_the_new_protocol(policy: str) -> None:
    bench = a_bench(migration_policy=policy)
    old = stable(bench)
    new = bench.member("new")
    all_step(old, new)
    bench.beats("new", -1)
    assert bench.group().consumer is not None
    all_step(old)
    assert old.indexes == [0, 1, 2, 3], "the coordinator goes on assigning"


def test_a_group_whose_classic_members_are_too_many_stays() -> None:
    bench = a_bench(members_max=1)
    bench.member("new")
    first, second = Classic(bench), Classic(bench)
    assert first.join() is second.join() is NONE
    bench.beats("new", -1)
    assert bench.group().consumer is not None


def test_a_downgrade_that_the_log_refuses_has_not_happened() -> None:
    bench = a_bench()
    old = stable(bench)
    new = bench.member("new")
    all_step(old, new)
    bench.holds = True
    token = bench.heartbeat("new", -1)
    joining = bench.join("second")
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.result(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.settle()
    assert bench.result(joining).error is NONE
    assert set(bench.group().consumer.group.members) == {old.member_id, "new", "second"}


def test_a_join_by_the_classic_protocol_that_makes_it_classic_is_to_be_sent_again() -> None:
    """A static member's next process speaks the classic protocol, and the one before spoke the other."""
    bench = a_bench()
    old = stable(bench)
    new = bench.member("new", instance_id="one")
    all_step(old, new)
    bench.beats("new", -2, instance_id="one")
    back = Classic(bench, instance_id="one")
    assert bench.joined(back.asks()).error is LOADING
    assert bench.group().consumer is None
    all_step(old, back)
    assert sorted([*old.indexes, *back.indexes]) == [0, 1, 2, 3]


def test_who_comes_while_it_is_downgraded_comes_again() -> None:
    bench = a_bench()
    old = stable(bench)
    all_step(old, bench.member("new"))
    bench.holds = True
    bench.heartbeat("new", -1)
    token = bench.join("second")
    bench.settle()
    assert bench.result(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group().consumer is None
    assert bench.group().members.keys() == {old.member_id}


# ------------------------------------------------------------------------------------------------------ members that go


def test_a_classic_member_that_is_silent_is_out_after_its_own_session() -> None:
    bench = a_bench(consumer_session_timeout_ms=60_000)
    old = stable(bench)
    new = bench.member("new")
    all_step(old, new)
    bench.wait(SESSION_MS - 1)
    assert old.member_id in bench.group().consumer.group.members
    bench.wait(1)
    settle(new)
    assert new.indexes == [0, 1, 2, 3]


@pytest.mark.parametrize("joins", [True, False])
def test_a_classic_member_that_does_not_go_on_is_out_after_its_rebalance_timeout(joins: bool) -> None:
    """It sends heartbeats, and does not join again; or it joins, and does not ask for its assignment."""
    bench = a_bench(consumer_session_timeout_ms=600_000)
    old = stable(bench)
    new = bench.member("new")
    if joins:
        assert old.join(rebalance_timeout_ms=30_000) is NONE
    for _ in range(15):
        bench.wait(5000)
        old.beat()
    settle(new)
    assert new.indexes == [0, 1, 2, 3]
    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_leaves() -> None:
    bench = a_bench()
    old = stable(bench)
    new = bench.member("new")
    all_step(old, new)
    left = bench.call(a_leave(old.member_id, "nobody", "new"), LeaveResult).members
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error for each in left] == [NONE, unknown, unknown], "the last one leaves by its own protocol"
    settle(new)
    assert new.indexes == [0, 1, 2, 3]
    assert bench.call(a_leave(), LeaveResult).error is NONE


def test_requests_in_another_generation_and_of_others_are_refused() -> None:
    bench = a_bench()
    old = stable(bench)
    bench.member("new")
    assert bench.beat(old.member_id, old.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat("new", 1) is ErrorCode.UNKNOWN_MEMBER_ID, "it speaks the other protocol"
    generation, old.generation = old.generation, old.generation + 1
    assert old.sync() is ErrorCode.ILLEGAL_GENERATION
    old.generation = generation
    assert old.sync() is AGAIN, "the group has changed since it joined"
    assert old.join() is NONE
    told = bench.synced(bench.ask(a_sync(old.member_id, old.generation, protocol_name="range")))
    assert told.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# ------------------------------------------------------------------------------------------------------- static members


def test_a_static_member_changes_its_protocol_with_its_next_process() -> None:
    bench = a_bench()
    old = Classic(bench, instance_id="one")
    assert old.join() is NONE
    assert old.sync() is NONE
    other = Classic(bench, instance_id="two")
    assert other.asks()
    new = bench.member("new", instance_id="one")
    all_step(new)
    assert "new" in bench.group().consumer.group.members
    assert old.beat() is ErrorCode.FENCED_INSTANCE_ID
    back = Classic(bench, instance_id="one")
    all_step(other)
    bench.beats("new", -2, instance_id="one")
    assert back.join() is LOADING, "now all speak the classic protocol, and so does the group"
    assert bench.beats("new", new.epoch, instance_id="one").error is ErrorCode.GROUP_ID_NOT_FOUND
    all_step(back, other)
    assert bench.group().static.keys() == {"one", "two"}
    assert sorted([*back.indexes, *other.indexes]) == [0, 1, 2, 3]


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    bench = a_bench()
    bench.member("new", instance_id="one")
    left = bench.call(a_leave(("", "one"), ("", "two")), LeaveResult).members
    assert [each.error for each in left] == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]


# -------------------------------------------------------------------------------------------------------------- forever


@pytest.mark.hunt
@settings(max_examples=60, deadline=None)
@given(integers(0, 2**32))
def test_whatever_happens_no_partition_has_two_owners(seed: int) -> None:
    """Members of both protocols come, go, are silent; coordinators change. In the end all is shared, also what members
    had whose clients have forgotten them."""
    random = Random(seed)
    bench = a_bench()
    is_eager = random.random() < 0.3
    old: list[Classic] = []
    new: dict[str, Consumer] = {}
    for step in range(80):
        bench = _happens(bench, old, new, random, step, is_eager=is_eager)
        if bench.has_group() and bench.group().consumer is not None:
            nothing: frozenset[int] = frozenset()
            owned = [each.assigned.get(T.id, nothing) | each.owned.get(T.id, nothing) for each in new.values()]
            held = [("t", index) for each in owned for index in each]
            held += [place for each in old for place in each.owned if _is_in(bench, each)]
            assert len(held) == len(set(held)), f"step {step}"
    _forget_those_that_are_out(bench, new)
    for _ in range(30):
        bench.wait(1000)
        all_step(*old, *new.values(), rounds=1)
        _forget_those_that_are_out(bench, new)
    if new:
        found = [index for each in (*old, *new.values()) for index in each.indexes]
        assert sorted(found) == [0, 1, 2, 3]


def _is_in(bench: ConsumerBench, one: Classic) -> bool:
    member = bench.group().consumer.group.members.get(one.member_id)
    return member is not None and member.epoch == one.generation


def _forget_those_that_are_out(bench: ConsumerBench, members: dict[str, Consumer]) -> None:
    side = bench.group().consumer if bench.has_group() else None
    for member_id in list(members):
        if side is None or member_id not in side.group.members:
            del members[member_id]


def _happens(
    bench: ConsumerBench, old: list[Classic], new: dict[str, Consumer], random: Random, step: int, *, is_eager: bool
) -> ConsumerBench:
    _forget_those_that_are_out(bench, new)
    choice = random.random()
    if choice < 0.1 and len(old) < 3:
        one = Classic(bench, is_eager=is_eager)
        if one.join() is NONE:
            one.sync()
        old.append(one)
    elif choice < 0.2 and len(new) < 3:
        name = f"m{step}"
        result = bench.result(bench.join(name))
        if result.error is NONE:
            new[name] = Consumer(bench, name).told(result)
    elif choice < 0.26 and old:
        gone = old.pop(random.randrange(len(old)))
        bench.call(a_leave(gone.member_id), LeaveResult)
    elif choice < 0.32 and new:
        gone = new.pop(random.choice(sorted(new)))
        bench.beats(gone.member_id, -1)
    elif choice < 0.36:
        bench.wait(random.choice((500, 2000)))
    elif choice < 0.4:
        bench = bench.reloaded()
        for each in (*old, *new.values()):
            each.bench = bench
    elif choice < 0.7 and old:
        random.choice(old).step()
    elif new:
        new[random.choice(sorted(new))].beat()
    return bench
