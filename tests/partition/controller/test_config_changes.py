"""Settings in znodes, and how brokers learn of changes."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges
from zab.coordination.operations import Create, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import ConfigChanged
from zab.partition.controller.notifications import EXPIRATION_MS
from zab.partition.controller.requests import AlterConfig, Answer, CreateTopics, NewTopic
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import (
    CONFIG_CHANGES,
    TopicPartition,
    config_path,
    decode_config,
    encode_config,
    encode_config_change,
)

T0 = TopicPartition("t", 0)
MIN_ISR = "min.insync.replicas"


@pytest.fixture
def scene():
    """t-0 on all three brokers."""
    cluster = Cluster(7, settings=ControllerSettings(balances_leaders=False))
    Judges(cluster).watch()
    cluster.started()
    cluster.call(CreateTopics(cluster.token(), (NewTopic("t", assignments={0: (0, 1, 2)}),)))
    return cluster


def alter(cluster, changes, kind="topics", name="t", **more):
    return cluster.call(AlterConfig(cluster.token(), kind, name, changes, **more)).error


def told(cluster, since=0):
    return [
        (each, found.entity_path, found.config)
        for each, found in cluster.effects[since:]
        if isinstance(found, ConfigChanged)
    ]


def state(cluster):
    return cluster.active().state.partitions[T0]


def written(cluster, kind="topics", name="t"):
    return decode_config("/c", cluster.tree.data(config_path(kind, name)))


def test_settings_are_changed_and_every_broker_is_told(scene):
    since = len(scene.effects)
    assert alter(scene, {"retention.ms": "5", "segment.ms": "6"}) == ErrorCode.NONE
    assert written(scene) == {"retention.ms": "5", "segment.ms": "6"}
    assert {each for each, _, _ in told(scene, since)} == {0, 1, 2}
    assert all(path == "topics/t" and config == written(scene) for _, path, config in told(scene, since))
    assert alter(scene, {"retention.ms": None, "segment.bytes": "100"}) == ErrorCode.NONE
    assert written(scene) == {"segment.ms": "6", "segment.bytes": "100"}
    assert alter(scene, {"retention.ms": "7"}, replaces_all=True) == ErrorCode.NONE
    assert written(scene) == {"retention.ms": "7"}


def test_new_settings_hold_at_the_controller_before_it_answers(scene):
    """Clients that ask it for them afterwards were told the old ones now and then."""
    since = len(scene.effects)
    alter(scene, {"retention.ms": "5"})
    [controller] = scene.controllers
    kinds = [type(found) for each, found in scene.effects[since:] if each == controller]
    assert kinds.index(ConfigChanged) < kinds.index(Answer)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "error"),
    [
        ("topics", "x", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("topics", "t", {"no.such": "1"}, ErrorCode.INVALID_CONFIG),
        ("topics", "t", {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ("brokers", "1", {"no.such": "1"}, ErrorCode.INVALID_CONFIG),
        ("brokers", "one", {}, ErrorCode.INVALID_REQUEST),
        ("ips", "10.0.0.1", {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_settings_that_are_refused(scene, kind, name, changes, error):
    assert alter(scene, changes, kind, name) == error
    assert scene.tree.children(CONFIG_CHANGES) == []


def test_validation_alone_changes_nothing(scene):
    assert alter(scene, {"retention.ms": "5"}, validate_only=True) == ErrorCode.NONE
    assert written(scene) == {}


def test_settings_of_all_brokers_hold_for_topics_that_say_nothing(scene):
    assert alter(scene, {"min.insync.replicas": "2"}, "brokers", "<default>") == ErrorCode.NONE
    assert scene.active().state.min_isr(T0) == 2
    assert alter(scene, {MIN_ISR: "1"}) == ErrorCode.NONE
    assert scene.active().state.min_isr(T0) == 1
    # A controller that is elected later reads them.
    assert alter(scene, {MIN_ISR: None}) == ErrorCode.NONE
    scene.expire(scene.processes[scene.controllers[0]].session)
    scene._deliver_watches()
    scene.settle()
    assert scene.active().state.min_isr(T0) == 2


def test_settings_that_a_tool_changes_are_followed(scene):
    scene.tree.before_write = None
    session, since = scene.tree.begin_session(), len(scene.effects)
    scene.tree.apply(session, Set(config_path("topics", "t"), encode_config({MIN_ISR: "2"})))
    for data in (b"{", encode_config_change("no/such"), encode_config_change("../x"), encode_config_change("topics/t")):
        scene.tree.apply(session, Create(CONFIG_CHANGES + "/config_change_", data, sequential=True))
    scene.tree.apply(session, Create(CONFIG_CHANGES + "/other", b""))
    scene._deliver_watches()
    scene.settle()
    assert scene.active().state.min_isr(T0) == 2
    assert {each for each, path, _ in told(scene, since) if path == "topics/t"} == {0, 1, 2}


def test_a_wrong_setting_is_reported_and_the_others_hold(scene):
    """Kafka has settings that are unknown here: they must not hide min.insync.replicas."""
    scene.tree.before_write = None
    session = scene.tree.begin_session()
    mixed = {"follower.replication.throttled.replicas": "*", MIN_ISR: "2", "retention.ms": "soon"}
    scene.tree.apply(session, Set(config_path("topics", "t"), encode_config(mixed)))
    change = Create(CONFIG_CHANGES + "/config_change_", encode_config_change("topics/t"), sequential=True)
    scene.tree.apply(session, change)
    scene._deliver_watches()
    scene.settle()
    assert scene.active().state.min_isr(T0) == 2
    assert any("throttled" in each for each in scene.processes[scene.controllers[0]].reports)


def test_malformed_settings_are_reported_and_count_as_none(scene):
    scene.tree.before_write = None
    session = scene.tree.begin_session()
    for data in (encode_config({MIN_ISR: "many"}), b"{"):
        scene.tree.apply(session, Set(config_path("topics", "t"), data))
        scene.tree.apply(
            session, Create(CONFIG_CHANGES + "/config_change_", encode_config_change("topics/t"), sequential=True)
        )
        scene._deliver_watches()
        scene.settle()
    assert scene.active().state.min_isr(T0) == 1
    assert any("many" in each for each in scene.processes[scene.controllers[0]].reports)


def test_each_session_begins_with_all_settings(scene):
    alter(scene, {"retention.ms": "5"})
    alter(scene, {"log.retention.ms": "6"}, "brokers", "1")
    other = next(each for each in scene.processes if each not in scene.controllers)
    since = len(scene.effects)
    scene.expire(scene.processes[other].session)
    scene.settle()
    assert [(path, config) for each, path, config in told(scene, since) if each == other] == [
        ("topics/t", {"retention.ms": "5"}),
        ("brokers/1", {"log.retention.ms": "6"}),
    ]


def test_old_notifications_are_deleted(scene):
    alter(scene, {"retention.ms": "5"})
    scene.now_ms += EXPIRATION_MS // 2
    alter(scene, {"retention.ms": "6"})
    assert len(scene.tree.children(CONFIG_CHANGES)) == 2
    scene.now_ms += EXPIRATION_MS // 2
    alter(scene, {"retention.ms": "7"})
    assert len(scene.tree.children(CONFIG_CHANGES)) == 2


def test_leaders_are_told_the_min_isr_that_holds(scene):
    """A leader takes it from the controller alone."""
    key = (scene.active().state.topics["t"].topic_id, 0)
    for number in (2, 1):
        alter(scene, {MIN_ISR: str(number)})
        assert {each.image.partitions[key].min_isr for each in scene.processes.values()} == {number}


def test_a_lower_min_isr_first_empties_the_elr_and_is_then_told(scene):
    """Else a leader with the new number acknowledges what the members of the ELR do not have."""
    alter(scene, {MIN_ISR: "2"})
    scene.propose = lambda broker_id, *, expand: False
    for broker_id in [each for each in scene.processes if each not in scene.controllers]:
        session = scene.processes[broker_id].session
        scene.crash(broker_id, clean=True)
        scene.expire(session)
        scene._deliver_watches()
    boot, scene.boot = scene.boot, lambda broker_id: None
    scene.settle()
    assert (len(state(scene).isr), len(state(scene).elr)) == (1, 2)
    process = scene.processes[scene.controllers[0]]
    key = (scene.active().state.topics["t"].topic_id, 0)
    assert process.image.partitions[key].min_isr == 2
    alter(scene, {MIN_ISR: "1"})
    assert (len(state(scene).isr), state(scene).elr) == (1, ())
    assert process.image.partitions[key].min_isr == 1
    assert process.image.partitions[key].state == state(scene)
    scene.boot = boot


def test_unclean_elections_happen_when_they_become_allowed(scene):
    scene.call(CreateTopics(scene.token(), (NewTopic("u", assignments={0: tuple(_others(scene))}),)))
    partition = TopicPartition("u", 0)
    first, second = _others(scene)
    scene.propose = lambda broker_id, *, expand: False
    boot, scene.boot = scene.boot, lambda broker_id: None
    for broker_id in (second, first):
        session = scene.processes[broker_id].session
        scene.crash(broker_id, clean=True)
        scene.expire(session)
        scene._deliver_watches()
        scene.settle()
    boot(second)
    scene.settle()
    assert scene.active().state.partitions[partition].leader == -1
    alter(scene, {"unclean.leader.election.enable": "true"}, name="u")
    found = scene.active().state.partitions[partition]
    assert (found.leader, found.isr, found.recovering) == (second, (second,), True)


def _others(cluster):
    return [each for each in cluster.processes if each not in cluster.controllers]
