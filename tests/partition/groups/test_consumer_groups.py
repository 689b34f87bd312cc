"""Groups of KIP-848 on the bench: epochs, who owns what, fencing, static members, and the log."""

from __future__ import annotations

from random import Random

import attrs
import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import integers

from tests.partition.groups.bench import a_commit, a_join, offsets_to_commit
from tests.partition.groups.consumers import NONE, Consumer, ConsumerBench, T, U, a_topic, settle
from zab.kafka.consumer_group_records import MemberAssignmentKey
from zab.kafka.errors import ErrorCode
from zab.partition.groups.consumer_heartbeats import BATCH_MAX, TOPIC_NAMES_MAX
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import (
    DeleteGroups,
    DescribeConsumerGroups,
    DescribeGroups,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from zab.partition.groups.results import (
    CommitResult,
    DeleteResult,
    DescribeConsumersResult,
    DescribeResult,
    FetchResult,
    JoinResult,
    ListResult,
    OffsetDeleteResult,
)
from zab.partition.settings.broker_settings import GroupSettings


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


# ---------------------------------------------------------------------------------------------------------- reconciling


def test_a_member_that_is_alone_gets_everything_with_its_first_heartbeat(bench: ConsumerBench) -> None:
    one = bench.member("a", "t", "u")
    assert (one.epoch, one.assigned) == (1, {T.id: frozenset(range(4)), U.id: frozenset(range(2))})
    assert bench.group_state == "Stable"
    answer = bench.beats("a", 1, owned=one.assigned)
    assert (answer.epoch, answer.assigned, answer.interval_ms) == (1, None, 5000)
    assert bench.appends == []


def test_a_partition_is_given_to_another_once_its_owner_has_given_it_up(bench: ConsumerBench) -> None:
    one = bench.member("a")
    two = bench.member("b")
    assert (two.epoch, two.indexes) == (2, []), "a owns all"
    assert bench.group_state == "Reconciling"
    one.is_idle()
    assert (one.epoch, one.indexes) == (1, [0, 1]), "it is in its epoch until it has given up the others"
    assert two.beat().indexes == []
    one.is_idle()
    assert two.beat().indexes == [], "it has not said that it did"
    one.beat()
    assert (one.epoch, one.indexes) == (2, [0, 1])
    assert two.beat().indexes == [2, 3]
    assert bench.group_state == "Stable"


def test_a_member_that_says_less_than_it_was_told_to_give_up_keeps_it(bench: ConsumerBench) -> None:
    one = bench.member("a")
    two = bench.member("b")
    one.is_idle()
    one.told(bench.beats("a", 1, owned={T.id: frozenset({0, 1, 2})}))
    assert one.epoch == 1
    assert two.beat().indexes == []


def test_what_a_member_says_before_it_was_told_does_not_count(bench: ConsumerBench) -> None:
    """It was told of all partitions, and is about to take them when it says that it owns none."""
    one, two = bench.member("a"), bench.member("b")
    one.told(bench.beats("a", 1, owned={}))
    assert (one.epoch, one.indexes) == (1, [0, 1])
    assert two.beat().indexes == []
    one.beat()
    assert two.beat().indexes == [2, 3]


def test_a_member_that_leaves_frees_its_partitions(bench: ConsumerBench) -> None:
    one, two = bench.member("a"), bench.member("b")
    settle(one, two)
    answer = bench.beats("b", -1)
    assert (answer.error, answer.epoch, answer.member_id) == (NONE, -1, "b")
    assert bench.group_state == "Assigning"
    assert one.beat().indexes == [0, 1, 2, 3]
    bench.beats("a", -1)
    assert bench.group_state == "Empty"


def test_members_subscribe_to_something_else(bench: ConsumerBench) -> None:
    one, two = bench.member("a"), bench.member("b")
    settle(one, two)
    two.told(bench.beats("b", two.epoch, topic_names=("u",)))
    settle(one, two)
    assert one.assigned == {T.id: frozenset(range(4))}
    assert two.assigned == {U.id: frozenset(range(2))}


def test_topics_that_grow_come_and_go_change_the_target(bench: ConsumerBench) -> None:
    one = bench.member("a", "t", "later")
    bench.has = {**bench.has, "other": a_topic(9, 1)}
    assert one.beat().epoch == 1, "it does not subscribe to this"
    bench.has = {**bench.has, "later": a_topic(3, 1), "t": a_topic(1, 5)}
    assert one.beat().assigned == {T.id: frozenset(range(5)), a_topic(3, 1).id: frozenset({0})}
    assert one.epoch == 2
    bench.has = {"later": a_topic(3, 1)}
    settle(one)
    assert one.assigned == {a_topic(3, 1).id: frozenset({0})}


def test_most_members_choose_the_assignor(bench: ConsumerBench) -> None:
    members = [bench.member(each, "t", "u", assignor="range") for each in "ab"]
    members.append(bench.member("c", "t", "u", assignor="uniform"))
    settle(*members)
    assert [(len(each.assigned.get(T.id, ())), len(each.assigned.get(U.id, ()))) for each in members] == [
        (2, 1),
        (1, 1),
        (1, 0),
    ]


# -------------------------------------------------------------------------------------------------------------- fencing


def test_a_member_in_another_epoch_is_fenced(bench: ConsumerBench) -> None:
    one = bench.member("a")
    assert bench.beats("a", 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    bench.member("b")
    one.is_idle()
    one.beat()
    assert one.epoch == 2
    assert bench.beats("a", 1).error is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it owns"
    lost = bench.beats("a", 1, owned={T.id: frozenset({0})})
    assert (lost.error, lost.epoch) == (NONE, 2), "the answer with the epoch may have been lost"
    more = bench.beats("a", 1, owned={T.id: frozenset({0, 3})})
    assert more.error is ErrorCode.FENCED_MEMBER_EPOCH
    again = bench.join("a")
    assert (bench.result(again).epoch, bench.result(again).assigned) == (2, {T.id: frozenset({0, 1})})


def test_members_and_groups_that_are_not_known(bench: ConsumerBench) -> None:
    assert bench.beats("a", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.beats("a", -1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert not bench.has_group()
    bench.member("a")
    assert bench.beats("b", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beats("b", -1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beats("b", 1, instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_silent_is_out(bench: ConsumerBench) -> None:
    one, two = bench.member("a"), bench.member("b")
    settle(one, two)
    bench.wait(44_000)
    one.beat()
    bench.wait(1001)
    assert bench.beats("b", two.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.beat().indexes == [0, 1, 2, 3]


def test_a_member_that_does_not_give_up_in_time_is_out(bench: ConsumerBench) -> None:
    one = bench.member("a", rebalance_timeout_ms=20_000)
    two = bench.member("b")
    one.is_idle()
    for _ in range(2):
        bench.wait(9999)
        one.is_idle()
        assert two.beat().indexes == []
    bench.wait(3)
    assert bench.beats("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert two.beat().indexes == [0, 1, 2, 3]


def test_a_group_that_is_full() -> None:
    bench = ConsumerBench(GroupSettings(consumer_members_max=1))
    one = bench.member("a")
    assert bench.result(bench.join("b")).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert one.beat().epoch == 1


INVALID = {
    "no id": {"member_id": ""},
    "an empty instance": {"instance_id": ""},
    "an empty rack": {"rack_id": ""},
    "no timeout": {"rebalance_timeout_ms": -1},
    "a timeout below none": {"rebalance_timeout_ms": -2},
    "nothing about partitions": {"owned": None},
    "partitions": {"owned": {T.id: frozenset({1})}},
    "no topics": {"topic_regex": None},
    "too long an id": {"member_id": "a" * 40_000},
    "too many topics": {"topic_names": tuple(map(str, range(TOPIC_NAMES_MAX + 1)))},
}


@pytest.mark.parametrize("said", INVALID.values(), ids=INVALID.keys())
def test_a_first_heartbeat_that_is_invalid(bench: ConsumerBench, said: dict[str, object]) -> None:
    result = bench.result(bench.join(**{"member_id": "a", **said}))  # type: ignore[arg-type]
    assert result.error is ErrorCode.INVALID_REQUEST
    assert result.message
    assert not bench.has_group()


def test_later_heartbeats_that_are_invalid(bench: ConsumerBench) -> None:
    bench.member("a")
    assert bench.beats("a", -2).error is ErrorCode.INVALID_REQUEST
    assert bench.beats("a", -3).error is ErrorCode.INVALID_REQUEST
    assert bench.beats("a", 1, assignor="mine").error is ErrorCode.UNSUPPORTED_ASSIGNOR


# ------------------------------------------------------------------------------------------------------- static members


def test_a_static_member_leaves_for_a_while_and_its_instance_keeps_its_partitions(bench: ConsumerBench) -> None:
    one, two = bench.member("a", instance_id="i"), bench.member("b")
    settle(one, two)
    assert bench.result(bench.join("c", instance_id="i")).error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.beats("a", -2, instance_id="i").epoch == -2
    before = two.beat().epoch
    again = bench.member("c", instance_id="i")
    assert (again.epoch, again.indexes) == (before, one.indexes)
    assert two.beat().epoch == before, "nothing has changed for the others"
    assert bench.beats("a", one.epoch, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.beats("a", -1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.group_state == "Stable"


def test_a_static_member_that_stays_away_is_out(bench: ConsumerBench) -> None:
    one, two = bench.member("a", instance_id="i"), bench.member("b")
    settle(one, two)
    bench.beats("a", -2, instance_id="i")
    for _ in range(5):
        bench.wait(9100)
        two.beat()
    settle(two)
    assert two.indexes == [0, 1, 2, 3]


def test_a_full_group_takes_a_static_member_back() -> None:
    bench = ConsumerBench(GroupSettings(consumer_members_max=1))
    bench.member("a", instance_id="i")
    bench.beats("a", -2, instance_id="i")
    assert bench.member("b", instance_id="i").indexes == [0, 1, 2, 3]


# -------------------------------------------------------------------------------------------------------------- offsets


def test_offsets_are_committed_by_members_in_their_epoch(bench: ConsumerBench) -> None:
    bench.member("a")
    assert bench.committed(5, member_id="a", generation=1) is NONE
    assert bench.offset() == 5
    assert bench.committed(6, member_id="a", generation=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert bench.committed(6, member_id="b", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.committed(6) is ErrorCode.UNKNOWN_MEMBER_ID
    old = a_commit(6, member_id="a", generation=1, knows_member_epochs=False)
    assert bench.call(old, CommitResult).partitions[0].error is ErrorCode.UNSUPPORTED_VERSION
    assert bench.offset() == 5
    bench.beats("a", -1)
    assert bench.committed(7) is NONE, "nobody is in the group"


def test_offsets_of_a_transaction(bench: ConsumerBench) -> None:
    bench.member("a")
    txn = {"group_id": "g", "producer_id": 1, "producer_epoch": 0, "offsets": a_commit(3).offsets}
    stale = TxnOffsetCommit(**txn, member_id="a", generation=4)
    assert bench.call(stale, CommitResult).partitions[0].error is ErrorCode.ILLEGAL_GENERATION
    assert bench.call(TxnOffsetCommit(**txn), CommitResult).partitions[0].error is NONE
    assert bench.call(TxnOffsetCommit(**txn, member_id="a", generation=1), CommitResult).partitions[0].error is NONE


def test_offsets_are_read_by_members_in_their_epoch_and_by_anybody(bench: ConsumerBench) -> None:
    bench.member("a")

    def error(member_id: str | None, epoch: int) -> ErrorCode:
        fetch = OffsetFetch(group_id="g", partitions=None, member_id=member_id, member_epoch=epoch)
        return bench.call(fetch, FetchResult).error

    assert [error(None, -1), error("a", 1)] == [NONE, NONE]
    assert error("a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert error("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_expire_unless_a_member_subscribes() -> None:
    bench = ConsumerBench(GroupSettings(consumer_session_timeout_ms=10_000_000, offsets_retention_minutes=1))
    bench.member("a", "u")
    for topic in ("t", "u"):
        offsets = offsets_to_commit(5, topic)
        assert bench.committed(5, member_id="a", generation=1, offsets=offsets) is NONE
    deleted = bench.call(OffsetDelete(group_id="g", partitions=(("u", 0), ("t", 9))), OffsetDeleteResult)
    assert [each.error for each in deleted.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
    bench.wait(700_000)
    assert (bench.offset("t"), bench.offset("u")) == (-1, 5)
    bench.beats("a", -1)
    bench.wait(700_000)
    assert not bench.has_group()


# ------------------------------------------------------------------------------------------------- both kinds of groups


def test_a_group_without_members_is_converted_and_keeps_its_offsets(bench: ConsumerBench) -> None:
    assert bench.committed(5) is NONE
    one = bench.member("a")
    assert bench.offset() == 5
    refused = bench.call(a_join(), JoinResult)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.told(bench.beats("a", one.epoch))
    bench.beats("a", -1)
    assert bench.call(a_join(), JoinResult).error is ErrorCode.MEMBER_ID_REQUIRED
    assert bench.group().consumer is None
    assert bench.offset() == 5
    assert bench.reloaded().group().consumer is None


def test_a_classic_group_with_members_is_not_converted(bench: ConsumerBench) -> None:
    [member] = classic_member(bench)
    assert bench.result(bench.join("a")).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.state is GroupState.STABLE
    assert member


def classic_member(bench: ConsumerBench) -> list[str]:
    """A group of the classic protocol, with one."""
    token = bench.ask(a_join(requires_member_id=False))
    bench.wait(5000)
    joined = bench.joined(token)
    bench.sync(joined, a=b"x")
    return [joined.member_id]


def test_a_classic_group_that_was_left_is_converted(bench: ConsumerBench) -> None:
    classic_member(bench)
    bench.wait(11_000)
    assert bench.state is GroupState.EMPTY
    bench.member("a")
    assert bench.group().protocol_type is None
    assert bench.group_state == "Stable"
    other = bench.reloaded()
    assert (other.group_state, other.group().protocol_type) == ("Stable", None)


def test_groups_are_listed_and_described_by_their_type(bench: ConsumerBench) -> None:
    bench.member("a", instance_id="i", rack_id="r", assignor="range")
    assert bench.committed(1, group_id="old") is NONE
    listed = bench.call(ListGroups(), ListResult).groups
    assert {(each.group_id, each.group_type, each.state) for each in listed} == {
        ("g", "consumer", "Stable"),
        ("old", "classic", "Empty"),
    }
    by_type = bench.call(ListGroups(types=frozenset({"Consumer"})), ListResult).groups
    assert [each.group_id for each in by_type] == ["g"]
    assert bench.call(ListGroups(states=frozenset({"reconciling"})), ListResult).groups == ()
    found = bench.call(DescribeConsumerGroups(group_ids=("g", "old", "no")), DescribeConsumersResult).groups
    assert [each.error for each in found] == [NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]
    assert (found[0].epoch, found[0].target_epoch, found[0].assignor, found[0].state) == (1, 1, "range", "Stable")
    [member] = found[0].members
    assert (member.member.instance_id, member.member.rack_id) == ("i", "r")
    assert member.assigned == member.target
    assert [(each.name, each.partitions) for each in member.assigned] == [("t", (0, 1, 2, 3))]
    assert bench.call(DescribeGroups(group_ids=("g",)), DescribeResult).groups[0].state == "Dead"


def test_a_group_is_deleted_once_it_has_no_members(bench: ConsumerBench) -> None:
    bench.member("a")
    delete = DeleteGroups(group_ids=("g",))
    assert bench.call(delete, DeleteResult).groups == (("g", ErrorCode.NON_EMPTY_GROUP),)
    bench.beats("a", -1)
    assert bench.call(delete, DeleteResult).groups == (("g", NONE),)
    assert not bench.has_group()
    assert not bench.reloaded().has_group()


# -------------------------------------------------------------------------------------------------------------- the log


def test_a_heartbeat_is_answered_once_it_is_stored(bench: ConsumerBench) -> None:
    bench.holds = True
    first, second = bench.join("a"), bench.join("b")
    assert bench.is_open(first)
    assert len(bench.appends) == 1, "the second one waits for what the log says about the first"
    bench.settle()
    assert bench.result(first).epoch == 1
    assert bench.is_open(second)
    bench.settle()
    assert bench.result(second).epoch == 2


def test_what_the_log_refuses_has_not_happened(bench: ConsumerBench) -> None:
    bench.holds = True
    refused, waits = bench.join("a"), bench.join("b")
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.result(refused).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.settle()
    assert (bench.result(waits).epoch, bench.result(waits).assigned) == (1, {T.id: frozenset(range(4))})


def test_the_log_does_not_say_in_time(bench: ConsumerBench) -> None:
    bench.holds = True
    late, waits = bench.join("a"), bench.join("b")
    (append,) = bench.appends
    bench.coordinator.on_appended(0, append.append_id, ErrorCode.REQUEST_TIMED_OUT)
    bench._drain()
    assert bench.result(late).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.result(waits).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.result(bench.join("c")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.holds = False
    bench.settle()
    assert bench.beats("a", 1).epoch == 1, "it was stored after all"


def test_heartbeats_that_are_too_much_together_are_stored_one_by_one(bench: ConsumerBench) -> None:
    bench.holds = True
    tokens = [bench.join(each) for each in "abcd"]
    bench.settle()
    bench.settle(ErrorCode.MESSAGE_TOO_LARGE)
    assert len(bench.appends) == 1
    for _ in range(3):
        bench.settle(count=1)
    assert [bench.result(each).epoch for each in tokens] == [1, 2, 3, 4]


def test_one_that_is_too_large_is_refused(bench: ConsumerBench) -> None:
    bench.holds = True
    token = bench.join("a")
    bench.settle(ErrorCode.MESSAGE_TOO_LARGE)
    assert bench.result(token).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not bench.has_group()


def test_a_batch_has_an_end(bench: ConsumerBench) -> None:
    bench.holds = True
    tokens = [bench.join(str(each)) for each in range(BATCH_MAX + 3)]
    bench.settle()
    bench.settle()
    assert sum(not bench.is_open(each) for each in tokens) == BATCH_MAX + 1


def test_another_coordinator_has_the_same_group(bench: ConsumerBench) -> None:
    one, two = bench.member("a", instance_id="i"), bench.member("b")
    one.is_idle()
    other = bench.reloaded()
    mine, theirs = bench.group().consumer, other.group().consumer
    assert mine is not None
    assert theirs is not None
    assert attrs.asdict(mine.group) == attrs.asdict(theirs.group)
    one.bench = two.bench = other
    settle(one, two)
    assert (one.indexes, two.indexes) == ([0, 1], [2, 3])
    other.wait(45_001)
    assert other.group_state == "Empty"


def test_a_member_that_was_to_give_up_has_its_time_again_at_another_coordinator(bench: ConsumerBench) -> None:
    one, two = bench.member("a", rebalance_timeout_ms=20_000), bench.member("b")
    one.is_idle()
    other = bench.reloaded()
    one.bench = two.bench = other
    other.wait(19_999)
    one.is_idle()
    two.beat()
    other.wait(2)
    assert other.beats("a", one.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_unloading_answers_everybody(bench: ConsumerBench) -> None:
    bench.holds = True
    tokens = [bench.join("a"), bench.join("b")]
    bench.coordinator.unload(0, 5)
    bench._drain()
    assert [bench.result(each).error for each in tokens] == [ErrorCode.NOT_COORDINATOR] * 2
    assert bench.coordinator.waiting_count == 0


def test_only_the_last_record_of_each_key_is_needed(bench: ConsumerBench) -> None:
    """As after compaction."""
    one, two = bench.member("a"), bench.member("b")
    settle(one, two)
    bench.beats("b", -1)
    last = {(type(each.key), each.key): each for each in bench.log}
    expected = bench.reloaded().group().consumer
    bench.log = [each for each in bench.log if last[type(each.key), each.key] is each]
    found = bench.reloaded().group().consumer
    assert expected is not None
    assert found is not None
    assert attrs.asdict(found.group) == attrs.asdict(expected.group)


def test_members_whose_records_are_damaged_do_not_stop_a_load(bench: ConsumerBench) -> None:
    bench.member("a")
    bench.log = [
        attrs.evolve(each, value=attrs.evolve(each.value, state=99))
        if isinstance(each.key, MemberAssignmentKey)
        else each
        for each in bench.log
    ]
    other = bench.reloaded()
    assert other.beats("a", 1).error is NONE


# ----------------------------------------------------------------------------------------------------- whatever happens


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(integers(0, 2**32))
def test_whatever_happens_no_partition_has_two_owners(seed: int) -> None:
    """Members come, go, are silent, lose answers; topics grow; coordinators change. What a member was given it has, and
    what it is to give up it has until it says that it has not."""
    random = Random(seed)
    bench = ConsumerBench()
    members: dict[str, Consumer] = {}
    for step in range(120):
        bench = _happens(bench, members, random, step)
        held = [
            (topic, index)
            for each in members.values()
            for topic in {**each.owned, **each.assigned}
            for index in each.owned.get(topic, frozenset()) | each.assigned.get(topic, frozenset())
        ]
        assert len(held) == len(set(held)), f"step {step}"
    for _ in range(12):
        for each in list(members.values()):
            _beat(bench, members, each, random, is_reliable=True)
    owned = sum(len(indexes) for each in members.values() for indexes in each.owned.values())
    assert owned == (sum(len(each.partitions) for each in bench.has.values()) if members else 0)
    assert not members or bench.group_state == "Stable"


def _happens(bench: ConsumerBench, members: dict[str, Consumer], random: Random, step: int) -> ConsumerBench:
    choice = random.random()
    if choice < 0.12 and len(members) < 6:
        one = Consumer(bench, f"m{step}")
        result = bench.result(bench.join(one.member_id, "t", "u", rebalance_timeout_ms=random.choice((1000, 60_000))))
        members[one.member_id] = one.told(result)
    elif choice < 0.2 and members:
        gone = members.pop(random.choice(sorted(members)))
        bench.beats(gone.member_id, -1)
    elif choice < 0.25:
        bench.wait(random.choice((500, 2000)))
        _forget_those_that_are_out(bench, members)
    elif choice < 0.3:
        bench.has = {**bench.has, "t": a_topic(1, len(bench.has["t"].partitions) + random.randrange(2))}
    elif choice < 0.35:
        bench = bench.reloaded()
        for each in members.values():
            each.bench = bench
    elif members:
        _beat(bench, members, members[random.choice(sorted(members))], random, is_reliable=False)
    return bench


def _forget_those_that_are_out(bench: ConsumerBench, members: dict[str, Consumer]) -> None:
    """A client whose time is over stops by itself, as Kafka's does."""
    side = bench.group().consumer if bench.has_group() else None
    for member_id in list(members):
        if side is None or member_id not in side.group.members:
            del members[member_id]


def _beat(
    bench: ConsumerBench, members: dict[str, Consumer], one: Consumer, random: Random, *, is_reliable: bool
) -> None:
    # What it is told to give up is given up at once, or later; what it gets is its own when it is told.
    if is_reliable or random.random() < 0.7:
        one.owned = one.assigned
    # Who says that it has not got something gets it only when it is told again: for the group it has given that up.
    one.assigned = one.owned
    result = bench.beats(
        *(one.member_id, one.epoch),
        owned=one.owned,
        rebalance_timeout_ms=60_000,
        topic_names=("t", "u"),
    )
    if result.error is not NONE:
        # As Kafka's clients do, it gives up everything, and joins again.
        assert result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
        one.owned = one.assigned = {}
        one.told(bench.result(bench.join(one.member_id, "t", "u")))
    elif is_reliable or random.random() < 0.8:
        one.told(result)
    if is_reliable:
        one.owned = one.assigned
