"""A broker leads only while its session with the coordination service surely lives."""

import attrs

from tests.partition.committed_offsets import commit, commit_error, committed, with_offsets
from tests.partition.one_broker import SESSION_MS, OneBroker, a_batch, produce
from tests.partition.several_brokers import LINES, SeveralBrokers
from zab.coordination.driver import Connected, Expired, Suspended
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.partition.coordinator_log import load_part
from zab.partition.links.messages import LinkReceived, Taken, Told

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def produced(client, *values, acks=1, **fields):
    return client.ask(produce("t", a_batch(*values, **fields), acks=acks), 9).responses[0].partition_responses[0]


def fetched(client, offset=0):
    return client.ask(fetch("t", offset), 12).responses[0].partitions[0]


def fetch(topic, offset, max_wait_ms=0):
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(asked,)),))


def cut_off(broker):
    broker.is_cut_off = True
    broker.turn(Suspended())


def connect_again(broker):
    broker.is_cut_off = False
    broker.turn(Connected(broker.session))


def test_it_serves_until_the_session_may_be_over_and_then_nobody():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    own = {"producer_id": 7, "producer_epoch": 0}
    assert produced(client, b"1", base_sequence=0, **own).error_code == ErrorCode.NONE
    cut_off(rig)
    rig.pass_time(SESSION_MS - 1)
    assert produced(client, b"2", base_sequence=1, **own).error_code == ErrorCode.NONE
    rig.pass_time(1)
    assert produced(client, b"3", base_sequence=2, **own).error_code == MOVED
    assert produced(client, b"2", base_sequence=1, **own).error_code == MOVED, "a duplicate is an answer, too"
    assert fetched(client).error_code == MOVED
    old = client.ask(fetch("t", 0), 11).responses[0].partitions[0]
    assert old.error_code == MOVED, "in a version that has no field for the leader"
    assert any("may be over" in each for each in rig.reports)


def test_what_waits_at_the_end_of_the_session_is_answered_at_once():
    rig = SeveralBrokers()
    rig.create("t")
    broker = rig.leader("t")
    client, reader = broker.client(), broker.client()
    rig.cut(1, 2)
    rig.cut(1, 3)
    client.send(produce("t", a_batch(b"1"), timeout_ms=60_000), 9)
    reader.send(fetch("t", 0, max_wait_ms=60_000), 12)
    cut_off(broker)
    rig.pass_time(SESSION_MS)
    [answer] = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == MOVED
    [answer] = reader.answers()
    assert answer.responses[0].partitions[0].error_code == MOVED


def test_followers_get_nothing_from_a_leader_in_doubt_and_stay_in_sync_when_it_leads_again():
    rig = SeveralBrokers(lines=f"{LINES}replica.lag.time.max.ms=20000\n")
    rig.create("t")
    rig.pass_time(2000)
    broker = rig.leader("t")
    epoch = rig.state("t").epoch
    assert produced(broker.client(), b"1", acks=-1).error_code == ErrorCode.NONE
    cut_off(broker)
    rig.pass_time(60_000)
    assert produced(broker.client(), b"2").error_code == MOVED
    follower = rig.brokers[2].replica("t").log
    assert follower.log_end == 1
    rig.cut(1, 2)
    connect_again(broker)
    assert rig.state("t").epoch == epoch, "nobody else has led meanwhile"
    assert produced(broker.client(), b"2").error_code == ErrorCode.NONE
    rig.pass_time(15_000)
    assert rig.state("t").in_sync.committed == {1, 2, 3}
    rig.heal()
    assert broker.replica("t").log.high_watermark == follower.log_end == 2


def test_after_another_session_has_begun_it_leads_what_the_controller_tells_its_new_life():
    rig = SeveralBrokers()
    rig.create("t", replicas=(2, 1, 3))
    rig.pass_time(2000)
    broker = rig.brokers[2]
    client = broker.client()
    assert produced(client, b"1", acks=-1).error_code == ErrorCode.NONE
    rig.cut(1, 2)
    rig.tree.end_session(broker.session)
    broker.session = rig.tree.begin_session()
    broker.turn(Expired(), Connected(broker.session))
    assert broker.broker.epoch > 0
    assert produced(client, b"2").error_code == MOVED, "it has registered, but nobody has said that it leads"
    rig.heal()
    assert rig.leader("t").broker.id == 1
    assert produced(client, b"2").error_code == MOVED


def test_what_was_said_to_the_life_before_is_not_taken_while_it_registers():
    rig = SeveralBrokers()
    rig.create("t", replicas=(2, 1, 3))
    rig.pass_time(2000)
    broker = rig.brokers[2]
    said = [(message, own) for own, other, message in rig.sent if other == 2 and isinstance(message, Told)]
    told, _ = said[-1]
    cut_off(broker)
    broker.turn(Expired())
    envelope = told.message
    later = attrs.evolve(told, number=told.number + 1, after=told.number)
    link = next(each for each, pair in rig.links.ends.items() if pair == (2, envelope.controller_id) and each < 0)
    broker.turn(LinkReceived(link, later))
    assert broker.replica("t").leader is None
    answers = [message for own, _, message in rig.sent if own == 2 and isinstance(message, Taken)]
    assert answers[-1].error == ErrorCode.STALE_BROKER_EPOCH


def test_groups_are_coordinated_only_while_the_session_lives_and_are_read_again_afterwards():
    rig = with_offsets(OneBroker(LINES))
    rig.create("t")
    client = rig.client()
    assert commit_error(client.ask(commit(5), 7)) == ErrorCode.NONE
    cut_off(rig)
    rig.pass_time(SESSION_MS)
    assert commit_error(client.ask(commit(6), 7)) == ErrorCode.NOT_COORDINATOR
    connect_again(rig)
    assert committed(client) == [(5, "md")]


def test_a_part_of_a_load_of_before_the_doubt_is_not_taken_for_one_of_the_load_after_it():
    rig = with_offsets(OneBroker("offsets.topic.num.partitions=1\n"))
    rig.create("t")
    client = rig.client()
    assert commit_error(client.ask(commit(5), 7)) == ErrorCode.NONE
    late = []
    carry_out = rig._carry_out

    def keeps_loads(effects):
        late.extend(effects.loads)
        effects.loads = []
        carry_out(effects)

    rig._carry_out = keeps_loads
    for _ in range(2):
        cut_off(rig)
        rig.pass_time(SESSION_MS)
        connect_again(rig)
    rig._carry_out = carry_out
    stale, present = (load_part(each, rig.disk) for each in late)
    rig.turn(attrs.evolve(stale, entries=()))
    rig.turn(present)
    assert committed(client) == [(5, "md")]
