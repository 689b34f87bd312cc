"""Settings, leaders, reassignments and sizes, asked of one broker without a host."""

from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from zab.partition.requests.configs import (
    APPEND,
    BROKER_RESOURCE,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    Source,
)


def describe(client, kind, name, *keys, **others):
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    [result] = client.ask(DescribeConfigsRequest(resources=(asked,), **others), 4).results
    return result


def value(client, kind, name, key):
    [row] = describe(client, kind, name, key).configs
    return row.value, row.config_source


def alter(client, kind, name, *changes, validate_only=False):
    configs = tuple(
        IncrementalAlterableConfig(name=key, config_operation=operation, value=text) for key, operation, text in changes
    )
    resource = IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    [answer] = client.ask(request, 1).responses
    return answer.error_code


def test_where_the_value_of_a_topic_comes_from():
    rig = OneBroker("log.retention.ms=5000\n")
    rig.create("t", segment_bytes=1000)
    client = rig.client()
    assert value(client, TOPIC_RESOURCE, "t", "segment.bytes") == ("1000", Source.TOPIC)
    assert value(client, TOPIC_RESOURCE, "t", "retention.ms") == ("5000", Source.FILE)
    assert value(client, TOPIC_RESOURCE, "t", "retention.bytes") == ("-1", Source.DEFAULT)
    assert alter(client, BROKER_RESOURCE, "", ("log.retention.ms", SET, "6000")) == 0
    assert value(client, TOPIC_RESOURCE, "t", "retention.ms") == ("6000", Source.ALL_BROKERS)
    assert alter(client, BROKER_RESOURCE, "1", ("log.retention.ms", SET, "7000")) == 0
    assert value(client, TOPIC_RESOURCE, "t", "retention.ms") == ("7000", Source.BROKER)
    assert rig.replica("t").log.settings.retention_ms == 7000
    assert value(client, BROKER_RESOURCE, "1", "log.retention.ms") == ("7000", Source.BROKER)
    [row] = describe(client, TOPIC_RESOURCE, "t", "retention.ms", include_synonyms=True).configs
    assert [(each.name, each.value, each.source) for each in row.synonyms] == [
        ("log.retention.ms", "7000", Source.BROKER),
        ("log.retention.ms", "6000", Source.ALL_BROKERS),
        ("log.retention.ms", "5000", Source.FILE),
        ("log.retention.ms", "604800000", Source.DEFAULT),
    ]


def test_what_a_topic_is_changed_to_holds_at_once_and_after_a_restart():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    assert alter(client, TOPIC_RESOURCE, "t", ("max.message.bytes", SET, "500")) == 0
    answer = client.ask(produce("t", a_batch(bytes(600))), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    rig.restart()
    assert rig.replica("t").log.settings.max_message_bytes == 500
    client = rig.client()
    assert alter(client, TOPIC_RESOURCE, "t", ("max.message.bytes", DELETE, None)) == 0
    assert rig.replica("t").log.settings.max_message_bytes == 1_048_588


def test_a_list_gets_words_more_and_less():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    assert alter(client, TOPIC_RESOURCE, "t", ("cleanup.policy", APPEND, "compact")) == 0
    assert value(client, TOPIC_RESOURCE, "t", "cleanup.policy")[0] == "delete,compact"
    assert alter(client, TOPIC_RESOURCE, "t", ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert value(client, TOPIC_RESOURCE, "t", "cleanup.policy")[0] == "compact"
    assert alter(client, TOPIC_RESOURCE, "t", ("retention.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG


def test_a_list_of_brokers_grows_and_shrinks():
    rig = OneBroker()
    client = rig.client()
    listed = "log.cleanup.policy"
    assert alter(client, BROKER_RESOURCE, "", (listed, APPEND, "compact")) == 0
    assert value(client, BROKER_RESOURCE, "", listed) == ("delete,compact", Source.ALL_BROKERS)
    assert alter(client, BROKER_RESOURCE, "1", (listed, SUBTRACT, "delete")) == 0
    assert value(client, BROKER_RESOURCE, "1", listed) == ("compact", Source.BROKER)
    assert alter(client, BROKER_RESOURCE, "", (listed, SUBTRACT, "compact")) == 0
    assert value(client, BROKER_RESOURCE, "", listed)[0] == "delete", "what one of them has counts there alone"
    assert alter(client, BROKER_RESOURCE, "2", (listed, APPEND, "delete")) == ErrorCode.INVALID_CONFIG
    assert alter(client, BROKER_RESOURCE, "1", ("cleanup.policy", APPEND, "delete")) == ErrorCode.INVALID_CONFIG


def test_changes_that_are_wrong_change_nothing():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    assert alter(client, TOPIC_RESOURCE, "t", ("retention.ms", SET, "soon")) == ErrorCode.INVALID_CONFIG
    assert alter(client, TOPIC_RESOURCE, "t", ("unknown", SET, "1")) == ErrorCode.INVALID_CONFIG
    assert alter(client, TOPIC_RESOURCE, "t", ("retention.ms", SET, None)) == ErrorCode.INVALID_CONFIG
    assert alter(client, TOPIC_RESOURCE, "t", ("retention.ms", 9, "1")) == ErrorCode.INVALID_CONFIG
    twice = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert alter(client, TOPIC_RESOURCE, "t", *twice) == ErrorCode.INVALID_CONFIG
    assert alter(client, TOPIC_RESOURCE, "nobody", ("retention.ms", SET, "1")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(client, 8, "1", ("retention.ms", SET, "1")) == ErrorCode.INVALID_REQUEST
    assert alter(client, TOPIC_RESOURCE, "t", ("retention.ms", SET, "1"), validate_only=True) == 0
    assert value(client, TOPIC_RESOURCE, "t", "retention.ms")[1] == Source.DEFAULT


def test_the_older_request_replaces_everything():
    rig = OneBroker()
    rig.create("t", segment_bytes=1000)
    client = rig.client()
    config = AlterableConfig(name="retention.ms", value="1")
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="t", configs=(config,))
    [answer] = client.ask(AlterConfigsRequest(resources=(resource,), validate_only=False), 2).responses
    assert answer.error_code == 0
    assert value(client, TOPIC_RESOURCE, "t", "retention.ms") == ("1", Source.TOPIC)
    assert value(client, TOPIC_RESOURCE, "t", "segment.bytes")[1] == Source.DEFAULT


def test_what_only_the_file_says_is_read_only():
    client = OneBroker("num.partitions=4\n").client()
    [row] = describe(client, BROKER_RESOURCE, "1", "num.partitions", include_documentation=True).configs
    assert (row.value, row.read_only, row.config_source) == ("4", True, Source.FILE)
    assert row.documentation
    assert describe(client, BROKER_RESOURCE, "2").error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, TOPIC_RESOURCE, "nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(client, 8, "1").error_code == ErrorCode.INVALID_REQUEST


# ------------------------------------------------------------------------------------------------------- placement


def test_how_large_the_replicas_are():
    rig = OneBroker()
    rig.create("t", 2)
    client = rig.client()
    client.ask(produce("t", a_batch(bytes(1000)), index=1), 9)
    [result] = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert (result.error_code, result.log_dir) == (0, "broker-data")
    sizes = {
        (topic.name, each.partition_index): each.partition_size for topic in result.topics for each in topic.partitions
    }
    assert sizes[("t", 0)] == 0
    assert sizes[("t", 1)] == rig.replica("t", 1).log.size_bytes > 1000
    assert result.total_bytes == result.usable_bytes + sum(sizes.values())


def test_leaders_are_elected_and_replicas_are_moved_by_the_controller():
    rig = OneBroker()
    rig.create("t")
    client = rig.client()
    asked = (ElectLeadersTopicPartitions(topic="t", partitions=(0, 7)),)
    answer = client.ask(ElectLeadersRequest(topic_partitions=asked), 2)
    errors = {each.partition_id: each.error_code for each in answer.replica_election_results[0].partition_result}
    assert errors == {0: ErrorCode.ELECTION_NOT_NEEDED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert (
        client.ask(ElectLeadersRequest(election_type=5, topic_partitions=None), 2).error_code
        == ErrorCode.INVALID_REQUEST
    )
    wanted = ReassignableTopic(name="t", partitions=(ReassignablePartition(partition_index=0, replicas=(9,)),))
    moved = client.ask(AlterPartitionReassignmentsRequest(topics=(wanted,)), 0)
    assert moved.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert client.ask(ListPartitionReassignmentsRequest(topics=None), 0).topics == ()


def test_no_answer_has_a_password_of_the_file():
    rig = OneBroker("ssl.keystore.password=hunter2\nssl.enabled.protocols=TLSv1.3")
    rows = {row.name: row for row in describe(rig.client(), BROKER_RESOURCE, "1").configs}
    assert (rows["ssl.keystore.password"].value, rows["ssl.keystore.password"].is_sensitive) == (None, True)
    assert rows["ssl.enabled.protocols"].value == "TLSv1.3"
    assert "hunter2" not in repr(rows)
