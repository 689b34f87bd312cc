"""A topic that is deleted and created again under its name: the files of the former one never become those of the newer
one, however close one follows the other."""

import attrs
import pytest

from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.log.checkpoints import format_partition_metadata
from zab.partition.log.directory import PARTITION_METADATA

OTHER_ID = Uuid(bytes(range(16)))


def create_again(rig):
    """The controller says in one message that another topic of the name is there."""
    broker = rig.broker
    known = broker.image.topics["t"]
    state = attrs.evolve(known.partitions[0], leader_epoch=0, partition_epoch=0)
    newer = attrs.evolve(known, id=OTHER_ID, partitions={0: state})
    broker._metadata.image = broker.image.changed(topics=[newer])
    broker._metadata.follow({"t": newer})
    rig.turn()


def produced(answer):
    return answer.responses[0].partition_responses[0]


def check_is_new(rig):
    """The newer topic is empty and can be written to; the files of the former one wait for their removal."""
    batch = a_batch(b"new")
    answer = produced(rig.client().ask(produce("t", batch), 9))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0), rig.reports
    assert rig.disk.size(f"t-0/{0:020d}.log") == len(batch)
    assert len([name for name in rig.disk.directories() if name.endswith("-delete")]) == 1


@pytest.fixture
def rig():
    found = OneBroker()
    found.create("t", flush_mode="batch")
    for value in (b"1", b"2", b"3"):
        found.client().ask(produce("t", a_batch(value)), 9)
    return found


def test_in_one_turn(rig):
    create_again(rig)
    check_is_new(rig)


def test_while_the_broker_was_away(rig):
    """Its files belong to a different topic of the name."""
    rig.disk.replace(f"t-0/{PARTITION_METADATA}", format_partition_metadata(bytes(OTHER_ID)))
    rig.restart()
    check_is_new(rig)


def test_what_was_asked_for_the_former_log_confirms_nothing_of_the_newer_one(rig):
    """Its writes are confirmed when the newer one has asked for as many, none of which are done."""
    rig.holds = True
    client = rig.client()
    for value in (b"4", b"5", b"6"):
        client.send(produce("t", a_batch(value)), 9)
    former = list(rig.held)
    rig.held.clear()
    create_again(rig)
    client = rig.client()
    client.send(produce("t", a_batch(b"new")), 9)
    rig.answers += rig.files.perform(former)
    rig.turn()
    assert [produced(each) for each in client.answers()] == [], rig.reports
    assert rig.replica("t").log.written_end == 0
    rig.let_go()
    [answer] = client.answers()
    assert produced(answer).base_offset == 0
